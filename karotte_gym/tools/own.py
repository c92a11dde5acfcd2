"""Makes a tool of a file of the author's: finds the function or class in it, its text, its parameters, its place.

::

    # tools/look_up.py
    from karotte_gym import StudentSandbox

    def look_up(word: str, sandbox: StudentSandbox, limit: int = 5) -> str:
        \"\"\"Find a word in the student's notes.

        Args:
            word: What to look for.
        \"\"\"
        return sandbox.run(["/usr/bin/grep", "-m", str(limit), "--", word, "/workdir/notes.txt"])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pydantic import BaseModel

from karotte_gym.errors import ConfigError
from karotte_gym.tools.definition import Definition
from karotte_gym.tools.mark import Marks, marks_of
from karotte_gym.tools.own_arguments import Signature, signature_of
from karotte_gym.tools.own_docstring import Described, read_docstring
from karotte_gym.tools.own_files import import_file
from karotte_gym.tools.own_host import HostTool
from karotte_gym.tools.own_machine import MachineTool
from karotte_gym.tools.own_plain_types import is_plain

__all__ = ["load_tool"]


def load_tool(file: Path, package: str) -> Definition:
    """The tool of ``tools/NAME.py``. ConfigError names the file and the line of what is wrong with it."""
    name = file.stem
    module = import_file(file, package)
    made = _made(module, name, file)
    where = f"{file}:{_line(made)}"
    _refuse_async(made, where)
    is_class = inspect.isclass(made)
    if is_class:
        _check_class(made, where)
    function: Callable[..., Any] = getattr(made, "__call__") if is_class else made  # noqa: B004, B009
    described = _described(made, function, where)
    marks = marks_of(made) or Marks()
    signature = signature_of(function, described, where, name=name, method=is_class)
    if marks.run_in == "machine":
        if is_class or signature.filled:
            raise ConfigError(f"{where}: what runs in the machine is a function and gets no sandbox or context; it is there")
        _check_plain(signature, where)
        return MachineTool(name, signature, marks, file)
    return HostTool(name, made, signature, marks, file)


def _made(module: ModuleType, name: str, file: Path) -> Callable[..., Any]:
    """The function of the file's name, or the class of that name in capitals. One of them and no other that is marked."""
    own = {key: value for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    functions = [value for key, value in own.items() if key == name and inspect.isroutine(value)]
    classes = [value for key, value in own.items() if inspect.isclass(value) and _same(key, name)]
    for key, value in own.items():
        if marks_of(value) is not None and value not in (*functions, *classes) and (callable(value)):
            raise ConfigError(f"{file}:{_line(value)}: {key} is marked as a tool, so its file must be {key}.py")
    found: list[Any] = [*functions, *classes]
    if len(found) == 1:
        return cast(Callable[..., Any], found[0])
    if found:
        raise ConfigError(f"{file}:{_line(found[1])}: both a function and a class are named for the file; keep one")
    raise ConfigError(f"{file}:1: the file defines no tool: write def {name}(...) or class {_camel(name)} in it")


def _same(class_name: str, name: str) -> bool:
    return class_name.replace("_", "").lower() == name.replace("_", "")


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _line(made: object) -> int:
    """Where it is defined, the decorators above it left out."""
    made = inspect.unwrap(made) if callable(made) else made
    try:
        lines, first = inspect.getsourcelines(made)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return 1
    return first + next((i for i, line in enumerate(lines) if line.lstrip().startswith(("def ", "async ", "class "))), 0)


def _refuse_async(made: Any, where: str) -> None:
    function = made.__call__ if inspect.isclass(made) else made
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{where}: a tool is a plain function that returns its result: no async, no yield")


def _described(made: Any, function: Any, where: str) -> Described:
    described = read_docstring(made.__doc__)
    if inspect.isclass(made) and not described.parameters:
        described = Described(described.text, read_docstring(function.__doc__).parameters)
    if not described.text:
        raise ConfigError(f'{where}: a tool needs a docstring, for it is what the model reads: """What it does."""')
    return described


def _check_class(made: Any, where: str) -> None:
    call = next((vars(base)["__call__"] for base in made.__mro__ if "__call__" in vars(base)), None)
    if not inspect.isfunction(call) or not inspect.signature(call).parameters:
        raise ConfigError(f"{where}: a class needs def __call__(self, ...), an ordinary method, which is run for each call")
    config = vars(made).get("Config")
    wanted = 0
    if config is not None:
        if not (inspect.isclass(config) and issubclass(config, BaseModel)):
            raise ConfigError(f"{where}: Config must be a pydantic model: class Config(BaseModel)")
        wanted = 1
    try:
        inspect.signature(made).bind(*[None] * wanted)
    except (TypeError, ValueError) as error:
        form = "__init__(self, config: Config)" if wanted else "__init__(self)"
        raise ConfigError(f"{where}: its constructor must be {form}: {error}") from error


def _check_plain(signature: Signature, where: str) -> None:
    for facts in signature.arguments.model_fields.values():
        if not is_plain(facts.annotation):
            raise ConfigError(
                f"{where}: parameter {facts.alias}: what runs in the machine gets its arguments as JSON has them; "
                "take str, int, float, bool, a list or dict[str, ...] of them, and make the rest in the tool"
            )
