"""Who scores: `Judge`, and the judges that ship."""

from karotte_gym.judges.always_pass import AlwaysPassJudge
from karotte_gym.judges.base import Evidence, GraderNeeds, Judge
from karotte_gym.judges.executable import ExecutableJudge

__all__ = ["AlwaysPassJudge", "Evidence", "ExecutableJudge", "GraderNeeds", "Judge"]
