"""Where an author's own tools are: ``tools/NAME.py`` in the environment's folder is the tool NAME.

The file's name is the tool's name. So which tools a task may name is known without running anybody's code, a helper
in the file can't become a tool by accident, and two tools can't have one name.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import keyword
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from karotte_gym.errors import ConfigError

__all__ = ["SUBMIT", "import_file", "package_of", "tool_files"]

SUBMIT = "submit"
FOLDER = "tools"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")  # what every chat API takes as a name


def tool_files(folder: Path) -> dict[str, Path]:
    """Name to file, sorted; names that begin with ``_`` are helpers. ConfigError for a file whose name can be no tool's."""
    found = {}
    for path in sorted((folder / FOLDER).glob("*.py")):
        if path.name.startswith("_"):
            continue
        if not _NAME.fullmatch(path.stem) or keyword.iskeyword(path.stem):
            raise ConfigError(f"{path}: a tool's file is named for the tool, a-z, 0-9 and _ such as look_up.py; helpers: _x.py")
        if path.stem == SUBMIT:
            raise ConfigError(f"{path}: submit is the harness's own tool and can't be replaced; rename the file")
        found[path.stem] = path
    return found


def package_of(module: str, folder: Path) -> str:
    """The package whose folder this is, so that a tool may import from its environment; else one made for the folder."""
    package = getattr(sys.modules.get(module), "__package__", None)
    if package and str(folder) in [str(Path(path).resolve()) for path in getattr(sys.modules.get(package), "__path__", [])]:
        return str(package)
    name = f"_karotte_tools_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        made = ModuleType(name)
        made.__path__ = [str(folder)]
        sys.modules[name] = made
    return name


def import_file(path: Path, package: str) -> ModuleType:
    """Import a tool's file. ConfigError names the line of it that raised, for a reader who did not write this loader."""
    try:
        return importlib.import_module(f"{package}.{FOLDER}.{path.stem}")
    except SyntaxError as error:
        raise ConfigError(f"{error.filename or path}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        line = next((f.lineno for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == str(path)), 1)
        raise ConfigError(f"{path}:{line}: the tool does not load: {type(error).__name__}: {error}") from error
