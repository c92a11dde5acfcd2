"""The calls that scripts are searched for, by name. Data only.

A name with a dot is the end of a full one (``sub.module.load`` is found by ``module.load``), one without is a builtin.
`()` stands for what a call made: ``zipfile.ZipFile().read`` is a method of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

__all__ = ["is_one_of"]

# Running

EVALUATING = {"eval", "exec", "compile", "__import__", "execfile", "builtins.eval", "builtins.exec", "builtins.compile"}
EVALUATING |= {"builtins.__import__", "importlib.import_module", "importlib.__import__", "runpy.run_path", "runpy.run_module"}
EVALUATING |= {"util.spec_from_file_location", "util.spec_from_loader", "machinery.SourceFileLoader", "imp.load_source"}
EVALUATING |= {"machinery.SourcelessFileLoader", "machinery.ExtensionFileLoader", "zipimport.zipimporter"}
EVALUATING |= {"ctypes.CDLL", "ctypes.PyDLL", "cdll.LoadLibrary", "cffi.FFI().dlopen"}
EVALUATING |= {
    "timeit.timeit",
    "timeit.repeat",
    "timeit.Timer",
    "cProfile.run",
    "pytest.main",
    "defaultTestLoader.discover",
    "TestLoader().discover",
    "doctest.testfile",
}
EVALUATING |= {"code.InteractiveInterpreter().runsource"}
EVALUATING |= {
    "pandas.eval",
    "pandas.DataFrame().query",
    "pandas.DataFrame().eval",
    "numexpr.evaluate",
    "sympy.sympify",
    "sympy.parse_expr",
    "sympy_parser.parse_expr",
}
EVALUATING |= {"jinja2.Template", "jinja2.Environment().from_string", "sandbox.SandboxedEnvironment().from_string"}
EVALUATING |= {"template.Template"}  # mako's and tornado's run Python
PICKLES = ("pickle", "_pickle", "cPickle", "dill", "cloudpickle")
UNPICKLING = {f"{module}.{name}" for module in PICKLES for name in ("load", "loads")}
UNPICKLING |= {"pickle.Unpickler", "dill.Unpickler", "marshal.load", "marshal.loads", "shelve.open", "jsonpickle.decode"}
UNPICKLING |= {"joblib.load", "torch.load", "pandas.read_pickle", "yaml.unsafe_load", "yaml.unsafe_load_all"}
UNPICKLING |= {"yaml.full_load", "yaml.full_load_all", "models.load_model"}
STARTING = {f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output", "getoutput")}
STARTING |= {"subprocess.getstatusoutput"}
STARTING |= {"os.system", "os.popen", "os.posix_spawn", "os.posix_spawnp", "pty.spawn"}
STARTING |= {f"os.exec{ending}" for ending in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
STARTING |= {f"os.spawn{ending}" for ending in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
STARTING |= {"asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "subprocess.create_subprocess_exec"}
STARTING |= {"pexpect.spawn", "pexpect.run", "subprocess.Popen().communicate", "subprocess.Popen().stdin.write"}
IMPORT_PATHS = {"sys.path.insert", "sys.path.append", "sys.path.extend", "site.addsitedir"}
RUNNING = EVALUATING | UNPICKLING | STARTING | IMPORT_PATHS
LOADING_YAML = {"yaml.load", "yaml.load_all"}
SAFE_LOADERS = {"SafeLoader", "CSafeLoader", "BaseLoader"}
VARIABLES_THAT_RUN = {"PATH", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "LD_PRELOAD", "LD_LIBRARY_PATH"}
UNPACKING = {"extractall", "extract", "unpack_archive"}
ASKING_SQL = {"execute", "executemany", "executescript", "read_sql", "read_sql_query"}
FORMATTING = {"format", "format_map"}
MATCHING = {
    f"{module}.{name}"
    for module in ("re", "regex")
    for name in ("match", "search", "fullmatch", "compile", "findall", "finditer", "sub", "subn", "split")
}

# Opening and reading

OPENING = {"open", "listdir", "scandir", "walk", "stat", "lstat", "exists", "isfile", "isdir", "getsize", "glob", "iglob"}
OPENING |= {"read_text", "read_bytes", "iterdir", "rglob", "is_file", "is_dir", "copy", "copyfile", "copytree", "chdir"}
OPENING |= {"read_submitted", "getline", "getlines"}
READING_A_PATH = {"open", "read_text", "read_bytes", "read_submitted", "copy", "copyfile", "copytree", "getline", "getlines"}
OPENERS = {"open", "fdopen", "extractfile", "makefile"}  # what they give is an open file
WHOLE = {"read", "readlines", "read_text", "read_bytes", "readline", "readall"}
ENDLESS_LOADERS = {"zipfile.ZipFile().read", "configparser.ConfigParser().read", "configparser.RawConfigParser().read"}
LOADING_FILES = {"json.load", "tomllib.load", "plistlib.load", "csv.reader", "csv.DictReader", "yaml.safe_load", "yaml.load"}
LOADING_FILES |= {"list", "tuple", "set", "frozenset", "sorted", "dict", "max", "min", "sum", "any", "all"}
LOADING_FILES |= {"shutil.copyfileobj", "collections.Counter", "collections.deque", "configparser.ConfigParser().read_file"}
LOADING_PATHS = {"ElementTree.parse", "ElementTree.iterparse", "etree.parse", "minidom.parse", "sax.parse", "mmap.mmap"}
LOADING_PATHS |= {f"numpy.{name}" for name in ("load", "loadtxt", "genfromtxt", "fromfile", "memmap")}
LOADING_PATHS |= {f"pandas.read_{name}" for name in ("csv", "table", "json", "excel", "parquet", "xml", "html", "feather")}
LOADING_PATHS |= {"linecache.getline", "linecache.getlines", "fileinput.input", "fileinput.FileInput"}
DECOMPRESSING = {f"{module}.decompress" for module in ("gzip", "zlib", "bz2", "lzma")}
SIZE_FACTS = {"getsize", "st_size"}  # a script that looks at a size before it reads is believed
LOOKING_AT_A_PATH = {"is_relative_to", "commonpath", "commonprefix"}  # and so is one that looks where a path leads
IN_MEMORY = {"io.BytesIO()", "io.StringIO()"}

# What becomes of a value

FACTS = {"len", "isinstance", "bool", "type", "exists", "is_file", "is_dir", "isfile", "isdir", "getsize", "S_ISREG"}
FACTS |= {"int", "float", "hash", "ord", "hexdigest", "digest", "is_relative_to", "issubset", "startswith", "endswith"}
# Of a path, after which /workdir may be gone:
FROM_BELOW = {"relative_to", "lstrip", "removeprefix", "strip", "split", "rsplit", "partition", "replace"}
READING = WHOLE | {"read_submitted", "run_as_student", "ask", "load", "parse", "getline", "getlines", "getvalue"}
READING |= {"loadtxt", "genfromtxt", "read_csv", "read_table", "read_json"}
STILL_OPEN = {"enter_context", "enter_async_context", "closing", "nullcontext", "BufferedReader", "TextIOWrapper", "detach"}
STILL_OPEN |= {"enumerate", "iter", "islice", "zip", "map", "filter", "chain", "reversed", "aiter"}
SAYING_NOTHING = {"fileno", "close", "tell", "seek", "flush", "isatty", "fstat", "stat"}
HARMLESS_AS_PATH = {"basename", "escape", "quote", "BytesIO", "StringIO"}
JOINING = {"os.path.join", "posixpath.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PurePosixPath", "pathlib.PosixPath"}
JOINING |= {"str", "os.fspath", "os.fsencode", "os.path.normpath", "os.path.abspath", "os.path.realpath"}
SAME_ELEMENTS = {"list", "tuple", "iter"}


def is_one_of(names: Iterable[str], words: set[str]) -> bool:
    """Whether one of the full names is one of the words, or ends with one that has a dot."""
    return any(end in words for name in names for end in _ends(name))


def _ends(name: str) -> Iterator[str]:
    yield name
    _, _, end = name.partition(".")
    while "." in end:
        yield end
        _, _, end = end.partition(".")
