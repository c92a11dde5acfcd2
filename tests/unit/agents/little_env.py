"""A small environment with the surface of `KarotteEnv` and no machine: for the loop, not for what machines do."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym

PIXEL = "data:image/png;base64," + (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def tool(name: str, **properties: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


class LittleEnv(gym.Env[Any, Any]):
    """`bash` knows ``answer N`` (42 is right), ``break`` (misbehaviour) and ``picture``; `steps` submissions end it."""

    def __init__(self, steps: int = 1, text_ends_step: bool = True, fail_reset: Exception | None = None):
        self.steps, self.text_ends_step, self.fail_reset = steps, text_ends_step, fail_reset
        self.commands: list[str] = []
        self.submitted = 0
        self.answer = ""
        self.closed = False

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[dict[str, str], dict[str, Any]]:
        super().reset(seed=seed)
        if self.fail_reset is not None:
            raise self.fail_reset
        self.commands, self.submitted, self.answer = [], 0, ""
        opening = f"Step 1 (seed {seed})"
        messages = [{"role": "system", "content": "You work in a machine."}, {"role": "user", "content": opening}]
        info = {
            "messages": messages,
            "tools": [tool("bash", command="string"), tool("submit", message="string")],
            "task_id": "little",
            "run_id": f"run-{seed}",
            "runtime": "memory",
            "contracts": [],
        }
        return {"content": "Step 1"}, info | ({} if self.text_ends_step else {"text_ends_step": False})

    def step(self, action: Any) -> tuple[dict[str, str], float, bool, bool, dict[str, Any]]:
        function = action.get("function", action)
        name, arguments = function["name"], function["arguments"]
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError as error:
                return self._say(f"error: arguments are no JSON: {error}", echo=str(action))
        if not isinstance(arguments, dict) or name not in ("bash", "submit"):
            return self._say("error: no such call", echo=str(action))
        if name == "submit":
            return self._submit()
        return self._bash(str(arguments.get("command", "")))

    def close(self) -> None:
        self.closed = True

    def _bash(self, command: str) -> tuple[dict[str, str], float, bool, bool, dict[str, Any]]:
        self.commands.append(command)
        word, _, rest = command.partition(" ")
        if word == "answer":
            self.answer = rest
        if word == "break":
            return self._end(0.0, "processes were left over", "processes")
        if word == "picture":
            picture = [{"type": "text", "text": "here"}, {"type": "image_url", "image_url": {"url": rest or PIXEL}}]
            obs, reward, terminated, truncated, info = self._say("here")
            return obs, reward, terminated, truncated, info | {"messages": [{"role": "tool", "content": picture}]}
        return self._say(f"did {command}")

    def _submit(self) -> tuple[dict[str, str], float, bool, bool, dict[str, Any]]:
        self.submitted += 1
        if self.submitted < self.steps:
            obs, reward, terminated, truncated, info = self._say("Submitted.")
            info["messages"].append({"role": "user", "content": f"Step {self.submitted + 1}"})
            return obs, reward, terminated, truncated, info
        return self._end(1.0 if self.answer == "42" else 0.0, None, None)

    def _say(self, text: str, echo: str = "") -> tuple[dict[str, str], float, bool, bool, dict[str, Any]]:
        facts = {"exit_code": 0, "timed_out": False, "truncated": False, "duration_s": 0.001}
        spoken = [{"role": "assistant", "content": echo}, {"role": "user" if echo else "tool", "content": text}]
        return {"content": text}, 0.0, False, False, {"messages": spoken, "tool": facts}

    def _end(
        self, score: float, misbehavior: str | None, kind: str | None
    ) -> tuple[dict[str, str], float, bool, bool, dict[str, Any]]:
        obs, _, _, _, info = self._say("Submitted.")
        record = {"score": score, "misbehavior": misbehavior, "misbehavior_kind": kind, "claimed": ""}
        return obs, score, True, False, info | {"score": score, "misbehavior": misbehavior, "record": record}
