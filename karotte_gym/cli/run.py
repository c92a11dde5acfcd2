"""``karotte-gym run``: episodes of a script (``--script``) or of a model (``--model``, ``--config``) on a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from karotte_gym.cli.projects import Projects
from karotte_gym.cli.task_config import TaskConfigText, read_task_config
from karotte_gym.errors import ConfigError

__all__ = ["run"]


def run(
    task: Annotated[str | None, typer.Option("--task", "-t", help="Task id, as in `tasks list`.")] = None,
    script: Annotated[Path | None, typer.Option("--script", help="JSON list of tool calls to play.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Model, by litellm's name.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Settings of a model run; flags override.")] = None,
    episodes: Annotated[int | None, typer.Option("-n", "--episodes", min=1, help="How many episodes.")] = None,
    parallel: Annotated[int | None, typer.Option("-p", "--parallel", min=1, help="Model episodes at a time.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the first; the next has one more.")] = None,
    generated: Annotated[bool, typer.Option("--generated", help="Draw the task's data from the seed.")] = False,
    task_config: TaskConfigText = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", help="Where evidence is kept; a model run that is there is resumed.")
    ] = None,
    reasoning_effort: Annotated[str | None, typer.Option(help="min, max or the provider's own word.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0)] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Of one episode.")] = None,
    max_cost_usd: Annotated[float | None, typer.Option(help="Of one episode.")] = None,
    max_total_cost_usd: Annotated[float | None, typer.Option(help="No episode begins above it.")] = None,
    api_base: Annotated[str | None, typer.Option(help="Any endpoint that speaks OpenAI's protocol.")] = None,
    api_key: Annotated[str | None, typer.Option(help="A reference such as '$MY_KEY', never a key.")] = None,
    expect_mean: Annotated[float | None, typer.Option(help="Exit code 1 when the mean reward is below.")] = None,
    expect_reward: Annotated[
        float | None, typer.Option(help="Exit code 1 when an episode of a script earns another reward.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a model run's summary as JSON.")] = False,
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Print the record of a script's episode, or only its path.")
    ] = True,
    project: Projects = None,
) -> None:
    """Play episodes of a task. Exit code 0 when every episode ran to its end, whatever it earned."""
    flags: dict[str, Any] = {
        "task": task,
        "model": model,
        "episodes": episodes,
        "parallel": parallel,
        "seed": seed,
        "task_config": _task_config(task_config, generated),
        "reasoning_effort": reasoning_effort,
        "temperature": temperature,
        "max_turns": max_turns,
        "max_cost_usd": max_cost_usd,
        "max_total_cost_usd": max_total_cost_usd,
        "api_base": api_base,
        "api_key": api_key,
    }
    if script is None:
        if expect_reward is not None:
            raise ConfigError("--expect-reward goes with --script; for a model there is --expect-mean")
        raise typer.Exit(_run_model(flags, config, run_dir, project, as_json, expect_mean))
    foreign = sorted({name for name, value in flags.items() if value is not None} - _OF_SCRIPTS)
    if config is not None or foreign:
        raise ConfigError(f"--script plays no model: leave out {', '.join(foreign) or 'config'}")
    if task is None:
        raise ConfigError("name the task: --task q3-revenue")
    from karotte_gym.cli.script_run import run_script

    code = run_script(
        task,
        script,
        episodes=episodes or 1,
        seed=seed,
        task_config=flags["task_config"],
        run_dir=run_dir,
        project=project,
        expect_reward=expect_reward,
        show_record=record,
    )
    raise typer.Exit(code)


_OF_SCRIPTS = {"task", "episodes", "seed", "task_config"}


def _task_config(text: str | None, generated: bool) -> dict[str, Any] | None:
    """None when neither is given."""
    if text is None and not generated:
        return None
    return {**read_task_config(text), **({"generated": True} if generated else {})}


def _run_model(
    flags: Mapping[str, Any],
    config: Path | None,
    run_dir: Path | None,
    project: list[Path] | None,
    as_json: bool,
    expect_mean: float | None,
) -> int:
    if flags["model"] is None and config is None and run_dir is None:
        raise ConfigError("say who plays: --script FILE.json, --model NAME or --config FILE.json")
    from karotte_gym.cli.model_run import run_model, settings_from

    settings = settings_from(config, run_dir, flags)
    return run_model(settings, run_dir=run_dir, project=project, as_json=as_json, expect_mean=expect_mean)
