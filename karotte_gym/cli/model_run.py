"""``karotte-gym run --model``: episodes of a model on a task, and ``create-run-config``, which writes its settings.

Exit codes: 0 every episode has a verdict, 1 the mean reward is below ``--expect-mean``, 2 wrong usage or input, 3 some
episode has no verdict, 130 Ctrl-C, 143 SIGTERM. A run that was stopped or had errors is resumed by the same command.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console
from rich.text import Text

from karotte_gym.agents.rollout import RolloutLimits
from karotte_gym.cli.progress import stages
from karotte_gym.cli.projects import Projects, register_all
from karotte_gym.errors import ConfigError
from karotte_gym.models.stopping import StopSignal
from karotte_gym.registration import load_task
from karotte_gym.run_files import write_json
from karotte_gym.runs.config import RunConfig
from karotte_gym.runs.directory import RunDirectory
from karotte_gym.runs.display import display_for, summary_table
from karotte_gym.runs.runner import Runner, RunResult
from karotte_gym.runs.signals import stopping_on_signals
from karotte_gym.runs.summary import Summary, summarize

__all__ = ["create_run_config", "run_config", "run_model", "settings_from"]

EXIT_BELOW, EXIT_NO_VERDICT = 1, 3
_LIMITS = tuple(RolloutLimits.model_fields)
MakeEnv = Callable[[], gym.Env[Any, Any]]


def settings_from(config: Path | None, run_dir: Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """A file's settings with flags on top (None: not given). Without a file, those of the run to resume.

    Flags named like a limit go into ``limits``; those of ``task_config`` are added to the file's; a key must be a reference.
    """
    settings: dict[str, Any] = {}
    if config is not None:
        settings = RunConfig.read(config)
    elif run_dir is not None and RunDirectory(run_dir).exists:
        settings = dict(RunDirectory(run_dir).read()["config"])
    given = {name: value for name, value in flags.items() if value is not None}
    if given.get("api_key") is not None and not str(given["api_key"]).startswith("$"):
        raise ConfigError("--api-key takes a reference like '$MY_KEY', in quotes: a key itself shows in process lists")
    limits = {name: given.pop(name) for name in _LIMITS if name in given}
    if limits:
        settings["limits"] = {**settings.get("limits", {}), **limits}
    if task_config := given.pop("task_config", None):
        settings["task_config"] = {**settings.get("task_config", {}), **task_config}
    return {**settings, **given}


def run_model(
    settings: Mapping[str, Any],
    *,
    run_dir: Path | None = None,
    project: list[Path] | None = None,
    as_json: bool = False,
    expect_mean: float | None = None,
) -> int:
    """Run or resume; returns the exit code. ConfigError for what is wrong with the settings, before anything starts."""
    config = RunConfig.build(settings)
    config.agent(StopSignal())  # a wrong model, level or key is found before a machine is built
    register_all(project)
    task = load_task(config.task)
    with stages() as progress:
        task.prepare(progress)
    directory = RunDirectory(run_dir or _new_run_dir(config))
    env_id = f"karotte/{config.task.removeprefix('karotte/')}"

    def make_env() -> gym.Env[Any, Any]:
        return gym.make(env_id, task_config=config.task_config, run_dir=str(directory.evidence))

    return run_config(config, directory, make_env, as_json=as_json, expect_mean=expect_mean)


def run_config(
    config: RunConfig,
    directory: RunDirectory,
    make_env: MakeEnv,
    *,
    as_json: bool = False,
    expect_mean: float | None = None,
) -> int:
    """The same with any environment. Call it in the main thread: it takes SIGINT and SIGTERM while it runs."""
    console = Console(stderr=as_json, highlight=False)
    stop = StopSignal()
    with directory.opened(config.public()), stopping_on_signals(stop) as caught:
        result = _play(config, directory, make_env, console, stop)
        summary = summarize(episode for index, episode in directory.episodes() if index < config.episodes)
        directory.write_summary(summary.model_dump(mode="json"))
    _report(console, directory, summary, result, as_json)
    if caught.exit_code is not None:
        return caught.exit_code
    if summary.verdicts < config.episodes:
        return EXIT_NO_VERDICT
    return EXIT_BELOW if expect_mean is not None and (summary.mean or 0.0) < expect_mean else 0


def _play(config: RunConfig, directory: RunDirectory, make_env: MakeEnv, console: Console, stop: StopSignal) -> RunResult:
    finished = directory.finished()
    todo = [index for index in range(config.episodes) if index not in finished]
    if finished:
        console.print(Text(f"{len(finished)} episodes of {directory.path} have a verdict and are not played again"))
    with display_for(console, config.episodes, config.episodes - len(todo)) as display:
        runner = Runner(
            make_env,
            lambda: config.agent(stop),
            directory.save,
            display,
            seed=config.seed,
            limits=config.limits,
            stop=stop,
            redact=config.agent(stop).secrets.redact,
            max_errors_in_a_row=config.max_errors_in_a_row,
            max_total_cost_usd=config.max_total_cost_usd,
        )
        return runner.run(todo, config.parallel)


def _report(console: Console, directory: RunDirectory, summary: Summary, result: RunResult, as_json: bool) -> None:
    for crash in result.crashes:
        print(crash, file=sys.stderr)
    if result.given_up:
        console.print(Text(f"given up: {result.given_up}", style="red"))
    if as_json:
        typer.echo(json.dumps({"run_dir": str(directory.path), **summary.model_dump(mode="json")}, indent=1))
        return
    console.print(summary_table(summary))
    console.print(Text(f"run: {directory.path}  (look at it: karotte-gym view {directory.path})"))


def _new_run_dir(config: RunConfig) -> Path:
    name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{config.task.rpartition('/')[2]}-{config.model.rpartition('/')[2]}")
    return Path("runs") / f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S}-{name.strip('-')}"


def create_run_config(
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write; refused when it is there.")],
    task: Annotated[str, typer.Option("--task", "-t", help="Task id, as in `tasks list`.")] = "q3-revenue",
    model: Annotated[str, typer.Option("--model", "-m", help="litellm's name.")] = "anthropic/claude-sonnet-5",
    project: Projects = None,
) -> None:
    """Write all settings of a run with their defaults, to edit and pass to ``run --config``."""
    register_all(project)
    load_task(task)
    if output.exists():
        raise ConfigError(f"{output} is there already; it is not written over")
    config = RunConfig.build({"task": task, "model": model})
    write_json(output, {"$comment": _comment(), **config.public(), "api_key": None})
    typer.echo(f"wrote {output}; run it: karotte-gym run --config {output}")


def _comment() -> str:
    described = {name: field.description for name, field in RunConfig.model_fields.items() if field.description}
    return "; ".join(f"{name}: {text}" for name, text in described.items())
