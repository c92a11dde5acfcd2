"""Who scores: `Judge`, and the judges that ship."""

from karotte_gym.judges.always_pass import AlwaysPassJudge
from karotte_gym.judges.base import Evidence, GraderNeeds, Judge
from karotte_gym.judges.combined import AllOf, AnyOf
from karotte_gym.judges.executable import ExecutableJudge
from karotte_gym.judges.function import FunctionJudge
from karotte_gym.judges.function_context import FunctionContext
from karotte_gym.judges.regex import RegexJudge
from karotte_gym.judges.rubric import Criterion, RubricJudge
from karotte_gym.judges.submitted_files import SubmissionUnusable, SubmittedFiles

__all__ = [
    "AllOf",
    "AlwaysPassJudge",
    "AnyOf",
    "Criterion",
    "Evidence",
    "ExecutableJudge",
    "FunctionContext",
    "FunctionJudge",
    "GraderNeeds",
    "Judge",
    "RegexJudge",
    "RubricJudge",
    "SubmissionUnusable",
    "SubmittedFiles",
]
