"""``karotte-gym``: loads only the command that was asked for, and words every fault of ours as one line.

Exit codes: 0 done, 1 the thing that was checked or run failed, 2 wrong usage or input, 3 a fault of machine or host, 130
or 143 when Ctrl-C or SIGTERM ended it.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from karotte_gym.errors import ConfigError, KarotteError
from karotte_gym.runs.signals import interrupted_by_signals

__all__ = ["app", "main"]

EXIT_USAGE = 2
EXIT_FAULT = 3
PACKAGE = Path(__file__).resolve().parents[1]
OURS = (PACKAGE, PACKAGE.parent / "wrappers")  # which a checkout keeps beside the package
# command -> (module, attribute: a Typer app or a function, one line for --help)
COMMANDS = {
    "run": ("karotte_gym.cli.run", "run", "Play episodes of a task, by a script or a model."),
    "create-run-config": ("karotte_gym.cli.model_run", "create_run_config", "Write the settings of a model run."),
    "view": ("karotte_gym.cli.view", "view", "Look at runs in a browser."),
    "report": ("karotte_gym.cli.view", "report", "Write runs as one page."),
    "verify": ("karotte_gym.cli.verify", "verify_command", "Check what episodes left against their records."),
    "models": ("karotte_gym.cli.models", "app", "List the models there are."),
    "create-env": ("karotte_gym.cli.create_env", "create_env", "Make a project of environments."),
    "create-task": ("karotte_gym.cli.create_task", "create_task", "Add a task to a project."),
    "update": ("karotte_gym.cli.update", "update", "Bring a project to the newest template."),
    "tasks": ("karotte_gym.cli.tasks", "app", "List the tasks there are."),
    "redteam": ("karotte_gym.cli.redteam", "redteam", "Attack a task and see that no attack pays."),
    "validate": ("karotte_gym.cli.validate", "validate", "Prove a task sound, or say what is wrong with it."),
    "check": ("karotte_gym.cli.check", "app", "Check a task, an image, or what a live machine confines."),
    "mcp": ("karotte_gym.cli.mcp", "mcp", "Serve an episode to an agent that speaks MCP."),
    "doctor": ("karotte_gym.cli.doctor", "doctor", "Say what this machine has and lacks."),
    "image": ("karotte_gym.cli.image", "app", "Build and list images."),
    "cache": ("karotte_gym.cli.cache", "app", "List and prune the cache."),
}


class _Lazy(TyperGroup):
    """Knows the names of the commands and imports one when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, attribute, help_line = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(name=cmd_name)(found)
            found = single
        command = typer.main.get_command(found)
        command.name = cmd_name
        command.short_help = help_line
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """From the table: showing the help loads none of the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, _, help_line) in COMMANDS.items()])


app = typer.Typer(
    name="karotte-gym",
    cls=_Lazy,
    help="Gymnasium environments that are hardened virtual machines.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(metadata.version("karotte-gym"))
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and nothing else.")
    ] = False,
) -> None:
    """Makes the app a group."""


def main() -> None:
    """Entry point."""
    warnings.showwarning = _show_warning
    with interrupted_by_signals() as caught:  # SIGTERM would otherwise leave temporary folders; some commands do more
        code = _exit_code()
    sys.exit(caught.exit_code or code)


def _exit_code() -> str | int | None:
    try:
        app()
    except ConfigError as error:
        return _complain(error, EXIT_USAGE)
    except KarotteError as error:
        return _complain(error, EXIT_FAULT)
    except SystemExit as end:  # how an app of Typer's returns
        return end.code
    return 0


_show_as_python_does = warnings.showwarning


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: str | None = None
) -> None:
    """What we warn of is news for whoever runs the command, so without the place in our source."""
    if issubclass(category, RuntimeWarning) and any(map(Path(filename).resolve().is_relative_to, OURS)):
        print(f"note: {message}", file=file or sys.stderr)
    else:
        _show_as_python_does(message, category, filename, lineno, file, line)


def _complain(error: Exception, code: int) -> int:
    print(f"karotte-gym: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
