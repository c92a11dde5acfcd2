"""Run directories to look at: plausible ones, large ones, and one whose every text is an attack on the page."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from karotte_gym.agents.episode import Episode, EpisodeError, TokenTotals, TurnRecord
from karotte_gym.runs.directory import RunDirectory

HOSTILE = (
    '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=2">\'"><svg onload=window.pwned=3>'
    "<!--<script>{{script}}{{data}}]]>\u2028\x1b[31mred\x1b]0;title\x07\x1b[2J\x00\u202eevil\u202c&lt;b&gt;\ud800"
)
CONTRACTS = [
    {
        "resource": "memory",
        "enforcement": "prevented",
        "limit": 369098752,
        "evidence": "the kernel killed a hog",
    },
    {"resource": "network", "enforcement": "prevented", "limit": None, "evidence": "no interface but lo, no route"},
]
ORDERS = "id,date,amount\n1,2025-07-01,24.99"
KINDS = ["custody", "processes", "machine_silent"]


def call(identity: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def conversation(words: str, output: str) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": "You work in a machine. Use the tools."},
        {"role": "user", "content": f"Sum the revenue of Q3. {words}"},
        {
            "role": "assistant",
            "content": f"I look at the data. {words}",
            "reasoning_content": words or "head first",
            "tool_calls": [call("c1", "bash", '{"command": "head data/orders.csv"}'), call("c2", "bash", words or "{")],
        },
        {"role": "tool", "tool_call_id": "c1", "content": output},
        {"role": "tool", "tool_call_id": "c2", "content": "error: the arguments are no JSON"},
        {"role": "assistant", "content": None, "tool_calls": [call("c3", "submit", '{"message": "done"}')]},
        {"role": "tool", "tool_call_id": "c3", "content": "Submitted."},
    ]


def record(score: float, words: str) -> dict[str, Any]:
    entry = {"path": f"/workdir/data/answer.txt{words}", "is_dir": False, "mode": 420, "size": 5, "sha256": "ab" * 32}
    step = {
        "step": 1,
        "criterion": {"judge": "ExecutableJudge", "code": "cd" * 32},
        "submission_sha256": "ef" * 32,
        "submission": [entry],
        "missing": [],
        "score": score,
        "metadata": {"found": words or "63148"},
    }
    return {
        "format": 1,
        "task_id": "q3-revenue",
        "claimed": words or "done",
        "score": score,
        "steps": [step],
        "exceptions": ["the judge saw one run only"],
        "versions": {"karotte-gym": "0.1.0"},
        "task_config": "{}",
    }


def episode(index: int, chance: random.Random, words: str = "", output: str = "id,date,amount\n1,2025-07-01,24.99") -> Episode:
    status = chance.choices(["scored", "misbehavior", "limit", "error"], [14, 3, 2, 1])[0]
    reward = {"scored": chance.choice([0.0, 0.25, 0.5, 1.0, 1.0]), "misbehavior": 0.0, "limit": 0.0}.get(status)
    agent_s, machine_s = chance.uniform(3, 40), chance.uniform(1, 9)
    turn = TurnRecord(
        message_index=2,
        stop="tool_calls",
        input_tokens=900,
        output_tokens=120,
        cost_usd=0.004,
        duration_s=agent_s,
        lost_s=1.0,
        failures=[{"kind": "rate_limit", "status": 429, "message": words or "slow down", "waited_s": 1.0}],
        token_ids=[1, 2, 3],
    )
    tool = {"id": "c1", "name": "bash", "exit_code": 1, "timed_out": True, "truncated": True, "duration_s": 0.4}
    return Episode(
        task_id="q3-revenue" + words,
        run_id=f"run-{index}",
        runtime="qemu/tcg",
        agent="LLMAgent('anthropic/claude-sonnet-5')",
        seed=index,
        status=status,  # type: ignore[arg-type]
        reward=reward,
        rewards=[] if reward is None else [reward],
        score=reward,
        misbehavior=f"a link in the way {words}" if status == "misbehavior" else None,
        misbehavior_kind=(words or chance.choice(KINDS)) if status == "misbehavior" else None,
        limit="turns" if status == "limit" else None,
        error=EpisodeError(kind="server", message=f"overloaded {words}") if status == "error" else None,
        messages=conversation(words, output),
        turns=[turn],
        tools=[tool],
        contracts=CONTRACTS,
        record=None if reward is None else record(reward, words),
        tokens=TokenTotals(input_tokens=900, output_tokens=120, cost_usd=0.004),
        started_at="2026-11-29T12:00:00+00:00",
        duration_s=agent_s + machine_s + 1.5,
        agent_s=agent_s,
        environment_s=machine_s,
        lost_s=1.0,
    )


def write_run(directory: Path, episodes: list[Episode], model: str = "anthropic/claude-sonnet-5") -> Path:
    run = RunDirectory(directory)
    with run.opened({"task": "q3-revenue", "model": model, "episodes": len(episodes)}):
        for index, each in enumerate(episodes):
            run.save(index, each)
    return directory


def many(count: int, seed: int = 1) -> list[Episode]:
    chance = random.Random(seed)
    return [episode(index, chance) for index in range(count)]
