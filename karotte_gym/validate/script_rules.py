"""What a scoring script must not do with a submission, found in its text: each flaw with its line.

- read the path at which the student wrote instead of the copy: in the grader machine nothing is there, and in the
  student's own machine whatever the student left there after custody is;
- read without a bound: a submission is as large as custody allows;
- run it, in any of the ways in which reading is running (`eval`, `pickle`, an import): the grader is root and holds the
  answers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from karotte_gym.validate.script_taint import ORIGINAL, ROOT_DATA, SUBMITTED, Taint, called, full_name, passed

__all__ = ["ORIGINAL_PATH", "RUNS", "UNBOUNDED", "UNBOUNDED_LINE", "Flaw", "flaws_of"]

ORIGINAL_PATH, UNBOUNDED, UNBOUNDED_LINE, RUNS = "original path", "unbounded read", "unbounded line", "runs the submission"
OPENING = {"open", "listdir", "scandir", "walk", "stat", "lstat", "exists", "isfile", "isdir", "getsize", "glob", "iglob"}
OPENING |= {"read_text", "read_bytes", "iterdir", "rglob", "is_file", "is_dir", "copy", "copyfile", "copytree", "chdir"}
OPENING |= {"read_submitted"}
WHOLE = {"read", "readlines", "read_text", "read_bytes", "readline", "readall"}
LOADING_FILES = {"json.load", "tomllib.load", "csv.reader", "csv.DictReader", "list", "sorted", "set", "shutil.copyfileobj"}
LOADING_PATHS = {"np.load", "np.loadtxt", "numpy.load", "numpy.loadtxt", "pd.read_csv", "ET.parse", "ElementTree.parse"}
SIZE_FACTS = {"getsize", "st_size"}  # a script that looks at a size before it reads is believed
EVALUATING = {"eval", "exec", "compile", "__import__", "execfile"}
EVALUATING |= {"import_module", "run_path", "run_module", "spec_from_file_location", "SourceFileLoader", "LoadLibrary", "CDLL"}
UNPICKLING = {"pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads", "shelve.open", "dill.load"}
UNPICKLING |= {"dill.loads", "cloudpickle.load", "joblib.load", "torch.load", "pandas.read_pickle", "pd.read_pickle"}
STARTING = {"subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_call", "subprocess.check_output"}
STARTING |= {"subprocess.getoutput", "os.system", "os.popen", "os.spawnv", "os.execv", "os.execve", "os.posix_spawn"}
SAFE_LOADERS = {"SafeLoader", "CSafeLoader", "BaseLoader"}
PATHS = {"sys.path.insert", "sys.path.append", "sys.path.extend", "site.addsitedir"}


@dataclass(frozen=True, slots=True)
class Flaw:
    """`kind` is one of the four words above; `what` is the code that shows it."""

    kind: str
    line: int
    what: str


def flaws_of(source: bytes | str) -> list[Flaw]:
    """All flaws, by line; SyntaxError for what is no Python."""
    tree = ast.parse(source)
    taint = Taint(tree)
    sized = {taint.scope(node) for node in ast.walk(tree) if _looks_at_size(node)}
    found = [flaw for node in ast.walk(tree) for rule in RULES for flaw in rule(node, taint, sized)]
    return sorted(set(found), key=lambda flaw: (flaw.line, flaw.kind))


def _original(node: ast.AST, taint: Taint, _: set[str]) -> Iterator[Flaw]:
    """A call that opens or looks at a path beginning with /workdir."""
    if not isinstance(node, ast.Call):
        return
    receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    opens = called(node) in OPENING or full_name(node.func) in STARTING
    if opens and any(ORIGINAL in taint.of(each) for each in [*receiver, *passed(node)]):
        yield _flaw(ORIGINAL_PATH, node)


def _unbounded(node: ast.AST, taint: Taint, sized: set[str]) -> Iterator[Flaw]:
    """A read to the end. What was opened from the grading data is the author's own, and as long as it is."""
    if isinstance(node, (ast.For, ast.comprehension)) and _is_open(node.iter, taint) and taint.scope(node.iter) not in sized:
        yield _flaw(UNBOUNDED_LINE, node.iter)
    if not isinstance(node, ast.Call) or taint.scope(node) in sized:
        return
    if called(node) in WHOLE and isinstance(node.func, ast.Attribute):
        if _of_submission(node.func.value, taint) and not _has_size(node):
            yield _flaw(UNBOUNDED, node)
    elif any(_loads(full_name(node.func), each, taint) for each in node.args[:1]):
        yield _flaw(UNBOUNDED, node)


def _runs(node: ast.AST, taint: Taint, _: set[str]) -> Iterator[Flaw]:
    """A call that executes what it is given."""
    if not isinstance(node, ast.Call) or not any(_of_submission(each, taint) for each in passed(node)):
        return
    name = full_name(node.func)
    unsafe_yaml = name in ("yaml.load", "yaml.load_all") and not any(_is_safe(each) for each in passed(node))
    pickled = called(node) == "load" and any(_allows_pickle(keyword) for keyword in node.keywords)
    method_of_name = isinstance(node.func, ast.Attribute) and called(node) in ("compile",)  # re.compile and its like
    if (called(node) in EVALUATING and not method_of_name) or name in UNPICKLING | PATHS | STARTING or unsafe_yaml or pickled:
        yield _flaw(RUNS, node)


RULES: tuple[Callable[[ast.AST, Taint, set[str]], Iterator[Flaw]], ...] = (_original, _unbounded, _runs)


def _flaw(kind: str, node: ast.expr) -> Flaw:
    text = ast.unparse(node)
    return Flaw(kind, node.lineno, text if len(text) <= 100 else f"{text[:100]}...")


def _of_submission(node: ast.expr, taint: Taint) -> bool:
    """Paths that mix both (a table of files from the grading data, looked up in the submission) are the submission's."""
    labels = taint.of(node)
    return SUBMITTED in labels or (ORIGINAL in labels and ROOT_DATA not in labels)


def _is_open(node: ast.expr, taint: Taint) -> bool:
    """An open file of the submission's."""
    return _of_submission(node, taint) and taint.is_handle(node)


def _loads(name: str, node: ast.expr, taint: Taint) -> bool:
    return (name in LOADING_FILES and _is_open(node, taint)) or (name in LOADING_PATHS and _of_submission(node, taint))


def _has_size(node: ast.Call) -> bool:
    sizes = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in ("size", "n"))]
    if called(node) not in ("read", "readline") or not sizes:
        return False
    return not any(isinstance(each, (ast.Constant, ast.UnaryOp)) and ast.unparse(each) in ("-1", "None") for each in sizes)


def _looks_at_size(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in SIZE_FACTS
    return isinstance(node, ast.Call) and called(node) in SIZE_FACTS


def _is_safe(node: ast.expr) -> bool:
    return full_name(node).rpartition(".")[2] in SAFE_LOADERS


def _allows_pickle(keyword: ast.keyword) -> bool:
    return keyword.arg == "allow_pickle" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
