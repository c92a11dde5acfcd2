"""A person at the terminal, played by a list of lines."""

from __future__ import annotations

from karotte_gym.agents import HumanAgent, rollout
from karotte_gym.agents.plain_text import encodable, visible
from tests.unit.agents.little_env import LittleEnv


def person(*lines: str) -> tuple[HumanAgent, list[str]]:
    left, shown = list(lines), []

    def read(_: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    return HumanAgent(read, shown.append), shown


def test_a_person_plays_an_episode() -> None:
    agent, shown = person("look", "", "/tools", "/help", '/call bash {"command": "answer 42"}', "/submit there you are")
    env = LittleEnv()
    episode = rollout(env, agent)
    assert (episode.reward, env.commands) == (1.0, ["look", "answer 42"])
    assert "did look" in shown and any("bash" in text for text in shown)


def test_the_end_of_input_submits() -> None:
    assert rollout(LittleEnv(), person("answer 42")[0]).reward == 1.0


def test_a_person_may_mistype_a_call() -> None:
    assert rollout(LittleEnv(), person('/call bash {"command', "/call nothing", "answer 42", "/say done")[0]).reward == 1.0


def test_what_a_terminal_would_obey_is_shown() -> None:
    agent, shown = person("look \x1b[2J\x07")
    rollout(LittleEnv(), agent)
    assert not any("\x1b" in text or "\x07" in text for text in shown) and any("\u241b[2J" in text for text in shown)


def test_visible_keeps_letters_and_lines() -> None:
    assert visible("é\t☃\n中") == "é\t☃\n中"
    assert visible("\x00\x7f\x9b\u202e") == "\u2400\u2421<U+009B><U+202E>"
    assert encodable({"a\ud800": ["\udc00", "😀", 1, None]}) == {"a\ufffd": ["\ufffd", "😀", 1, None]}
