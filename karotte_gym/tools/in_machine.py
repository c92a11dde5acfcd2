"""What runs an author's tool inside the student's machine: read as text by `own_machine`, never imported there.

Standard library only. The call comes by standard input, the result goes to a copy of standard output that is made
before the tool is loaded; what the tool itself prints goes to standard error.
"""

import json
import os
import sys
import types


def main() -> None:
    """Load the file, call its function, write what it returned or how it failed."""
    call = json.loads(sys.stdin.buffer.read())
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    provide_decorator()
    module = types.ModuleType("karotte_tool_" + call["name"])  # it may be named as a module of Python's own
    module.__file__ = call["file"]
    sys.modules[module.__name__] = module
    try:
        exec(compile(call["source"], call["file"], "exec"), module.__dict__)
        result = {"result": getattr(module, call["name"])(**call["arguments"])}
        text = json.dumps(result, allow_nan=False)
    except Exception as error:
        text = json.dumps({"error": f"{type(error).__name__}: {error}"[:2000]})
    sys.stdout.flush()
    answer.write(text)
    answer.close()


def provide_decorator() -> None:
    """The file imports `tool` from a package that is not in the machine; all that it has to do here is nothing."""
    package = types.ModuleType("karotte_gym")
    package.tool = lambda function=None, **_: function if function is not None else lambda made: made  # type: ignore[attr-defined]
    sys.modules["karotte_gym"] = package


if __name__ == "__main__":
    main()
