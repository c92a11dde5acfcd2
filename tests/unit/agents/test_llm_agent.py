"""`LLMAgent` and the loop against a real server on loopback: real litellm, real sockets, both protocols, both ways."""

from __future__ import annotations

import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from karotte_gym.agents import Episode, LLMAgent, ProviderError, RetryPolicy, Stopped, StopSignal, rollout
from karotte_gym.agents.rollout import NUDGE_EMPTY
from tests.model_server import Cut, Fail, Hang, ModelServer, Redirect, Reply, Request, Reset, Say, Trickle, call
from tests.unit.agents.conftest import CANARY, QUICK, agent_for
from tests.unit.agents.little_env import PIXEL, LittleEnv
from tests.unit.agents.test_rollout import well_formed

ANSWER = Say(calls=[call("bash", {"command": "answer 42"})])
SUBMIT = Say(calls=[call("submit", {"message": "done"})])
TOOLS = LittleEnv().reset()[1]["tools"]
HELLO = [{"role": "system", "content": "s"}, {"role": "user", "content": "hello"}]
Dialect = tuple[str, bool]


def play(dialect: Dialect, script: Any, env: LittleEnv | None = None, **options: Any) -> tuple[Episode, ModelServer]:
    with ModelServer(script) as server:
        agent = agent_for(server, dialect[0], stream=dialect[1], **options)
        return rollout(env or LittleEnv(), agent, seed=1), server


def test_the_honest_model_earns_one(dialect: Dialect) -> None:
    episode, server = play(dialect, [ANSWER, SUBMIT])
    assert (episode.status, episode.reward) == ("scored", 1.0)
    assert (episode.tokens.input_tokens, episode.tokens.output_tokens) == (200, 40)
    assert len(server.requests) == 2 and well_formed(episode.messages)


TRANSIENT = {
    "429": [Fail(429)],
    "429 with retry-after": [Fail(429, {"retry-after": "0.2"})],
    "429 five times": [Fail(429)] * 5,
    "500": [Fail(500)],
    "503": [Fail(503)],
    "529": [Fail(529)],
    "reset before the answer": [Reset()],
    "reset mid-answer": [Reset(of=Say("half " * 60), after_bytes=200)],
    "reset mid-call": [Reset(of=Say(calls=[call("bash", {"command": "answer 41" * 20})]), after_bytes=230)],
    "answer cut politely": [Cut(of=Say("half " * 60), after_bytes=250)],
    "hang": [Hang()],
    "trickle": [Trickle()],
    "401 while keys rotate": [Fail(401)],
    "one of each": [Fail(429), Fail(500), Reset(), Fail(529), Fail(401)],
}


@pytest.mark.parametrize("faults", TRANSIENT.values(), ids=TRANSIENT.keys())
def test_what_passes_is_retried_and_costs_the_student_nothing(dialect: Dialect, faults: list[Reply]) -> None:
    started = time.monotonic()
    silent = any(isinstance(fault, Hang | Trickle) for fault in faults)
    # A busy host needs seconds for an answer; one that came and was given up would be missing from the script.
    timeout_s = 5.0 if silent else 30.0
    episode, server = play(dialect, [*faults, ANSWER, *faults, SUBMIT], timeout_s=timeout_s)
    assert (episode.status, episode.reward) == ("scored", 1.0)
    assert len(server.requests) == 2 * len(faults) + 2
    assert sum(len(turn.failures) for turn in episode.turns) == 2 * len(faults)
    assert "half" not in str(episode.messages) and "answer 41" not in str(episode.messages)
    assert time.monotonic() - started < 55  # neither a retry's longest pause nor the agent's own patience


def test_retry_after_is_waited_for(dialect: Dialect) -> None:
    _, server = play(dialect, [Fail(429, {"retry-after": "0.4"}), ANSWER, SUBMIT])
    assert 0.4 <= server.times[1] - server.times[0] < 30


FOR_GOOD: dict[str, tuple[list[Reply], str, int]] = {
    "400": ([Fail(400)], "refused", 1),
    "404": ([Fail(404)], "refused", 1),
    "422": ([Fail(422)], "refused", 1),
    "401 twice": ([Fail(401)] * 2, "authentication", 2),
    "403 twice": ([Fail(403)] * 2, "authentication", 2),
    "500 for ever": ([Fail(500)] * 4, "server", 4),
    "429 for ever": ([Fail(429)] * 3, "rate_limit", 3),
    "429 for a day": ([Fail(429, {"retry-after": "86400"})], "rate_limit", 1),
    "hangs for ever": ([Hang()] * 2, "timeout", 2),
    "redirect": ([Redirect("http://127.0.0.1:9/elsewhere")], "refused", 1),
}


@pytest.mark.parametrize(("faults", "kind", "requests"), FOR_GOOD.values(), ids=FOR_GOOD.keys())
def test_what_does_not_pass_is_an_error_and_never_a_score(
    dialect: Dialect, faults: list[Reply], kind: str, requests: int
) -> None:
    silent = kind == "timeout"  # the others are not to be given up because a busy host answers late, nor is ANSWER
    retries = RetryPolicy(**QUICK, server=1 if silent else 3, rate_limit=2)  # type: ignore[arg-type]
    episode, server = play(dialect, [ANSWER, *faults], retries=retries, timeout_s=5.0 if silent else 30.0)
    assert (episode.status, episode.reward, episode.score) == ("error", None, None)
    assert episode.error is not None and (episode.error.kind, len(server.requests)) == (kind, requests + 1)
    assert len(episode.messages) == 4 and CANARY not in episode.model_dump_json()


def test_nobody_there_is_unreachable(dialect: Dialect) -> None:
    with ModelServer([]) as server:
        agent = agent_for(server, dialect[0], stream=dialect[1])
    episode = rollout(LittleEnv(), agent)
    assert episode.error is not None and episode.error.kind == "unreachable"
    assert len(episode.error.failures) == RetryPolicy().unreachable + 1


def test_an_empty_and_a_reasoning_only_turn_are_nudged(dialect: Dialect) -> None:
    script = [Say(), Say(reasoning="hm", finish="length"), ANSWER, Say(reasoning="so"), SUBMIT]
    episode, server = play(dialect, script)
    assert (episode.reward, len(server.requests)) == (1.0, 5)
    assert "was empty" in str(server.requests[1].body["messages"][-1])


def test_three_empty_turns_end_with_a_typed_error(dialect: Dialect) -> None:
    episode, _ = play(dialect, [ANSWER, Say(), Say(reasoning="hm"), Say(finish="length")])
    assert episode.error is not None and (episode.error.kind, episode.reward) == ("empty_turns", 0.0)


def test_a_content_filter_stop_ends_the_step(dialect: Dialect) -> None:
    episode, _ = play(dialect, [ANSWER, Say("I can't", finish="content_filter")])
    assert (episode.status, episode.reward) == ("scored", 1.0)


def test_malformed_arguments_become_an_error_for_the_model(dialect: Dialect) -> None:
    episode, server = play(dialect, [Say(calls=[call("bash", '{"command": "x')]), ANSWER, SUBMIT])
    assert episode.reward == 1.0
    assert "error" in str(server.requests[1].body["messages"][-1])


def test_parallel_calls_run_in_order_and_are_answered_in_order(dialect: Dialect) -> None:
    env = LittleEnv()
    looks = [call("bash", {"command": f"look {number}"}) for number in range(4)]
    episode, server = play(dialect, [Say("now", calls=looks), ANSWER, SUBMIT], env)
    assert env.commands == ["look 0", "look 1", "look 2", "look 3", "answer 42"] and episode.reward == 1.0
    sent = str(server.requests[1].body["messages"])
    assert sent.index("did look 0") < sent.index("did look 1") < sent.index("did look 3")


def test_ids_that_repeat_are_made_new(dialect: Dialect) -> None:
    again = [Say(calls=[call("bash", {"command": f"look {n}"}, "call_0")]) for n in range(3)]
    episode, _ = play(dialect, [*again, ANSWER, SUBMIT])
    ids = [each["id"] for message in episode.messages for each in message.get("tool_calls") or ()]
    assert len(set(ids)) == len(ids) == 5 and well_formed(episode.messages)


def test_a_picture_reaches_the_model_in_its_own_form(dialect: Dialect) -> None:
    episode, server = play(dialect, [Say(calls=[call("bash", {"command": "picture"})] * 2), ANSWER, SUBMIT])
    messages = server.requests[1].body["messages"]
    assert episode.reward == 1.0
    if dialect[0] == "openai":  # takes none in a tool's result
        assert [part["type"] for part in messages[-1]["content"]] == ["text", "image_url", "image_url"]
        assert messages[-1]["role"] == "user" and messages[-1]["content"][1]["image_url"]["url"] == PIXEL
    else:
        inner = messages[-1]["content"][0]["content"]
        assert [part["type"] for part in inner] == ["text", "image"]
        assert inner[1]["source"]["data"] == PIXEL.partition(",")[2]


def test_a_picture_by_url_is_never_fetched_by_the_host(dialect: Dialect) -> None:
    with ModelServer([]) as bait:
        stolen = Say(calls=[call("bash", {"command": f"picture {bait.url}/x.png"})])
        episode, server = play(dialect, [stolen, ANSWER, SUBMIT])
        assert episode.reward == 1.0 and bait.requests == []
    assert bait.url not in str(server.requests[1].body["messages"][-1])


def test_reasoning_goes_back_only_where_it_is_wanted(dialect: Dialect) -> None:
    say = Say(reasoning="because", calls=[call("bash", {"command": "answer 42"})])
    episode, server = play(dialect, [say, SUBMIT])
    sent = next(message for message in server.requests[1].body["messages"] if message["role"] == "assistant")
    if dialect[0] == "openai":
        assert "because" not in str(sent)
    else:
        assert sent["content"][0] == {"type": "thinking", "thinking": "because", "signature": "signature-0"}
    assert episode.messages[2]["reasoning_content"] == "because"  # and it is kept for who reads the transcript


def test_cache_marks_are_set_for_anthropic_and_kept_out_of_the_transcript() -> None:
    episode, server = play(("anthropic", False), [ANSWER, SUBMIT])
    body = server.requests[1].body
    assert "cache_control" in str(body["system"]) and "cache_control" in str(body["messages"][-1])
    assert str(body).count("cache_control") <= 4
    assert "cache_control" not in episode.model_dump_json()
    _, other = play(("openai", False), [ANSWER, SUBMIT])
    assert "cache_control" not in str(other.requests[1].body)


def test_token_ids_and_logprobs_are_kept_where_a_server_gives_them() -> None:
    logprobs = [{"token": "x", "logprob": -0.5, "bytes": None, "top_logprobs": []}]
    say = Say(calls=[call("bash", {"command": "answer 42"})], logprobs=logprobs, token_ids=[11, 12])
    with ModelServer([say, SUBMIT]) as server:
        agent = LLMAgent("hosted_vllm/policy", api_base=server.url + "/v1", logprobs=True)
        episode = rollout(LittleEnv(), agent)
    assert episode.turns[0].token_ids == [11, 12] and episode.turns[0].logprobs == logprobs
    assert server.requests[0].body["logprobs"] is True and server.requests[0].body["return_token_ids"] is True


def test_reasoning_effort_is_the_providers_own_word() -> None:
    with ModelServer([ANSWER, SUBMIT]) as server:
        agent = LLMAgent("openai/gpt-5-mini", api_key=CANARY, api_base=server.url + "/v1", reasoning_effort="min")
        rollout(LittleEnv(), agent)
    assert server.requests[0].body["reasoning_effort"] == "minimal"


def test_a_key_does_not_follow_a_redirect(dialect: Dialect) -> None:
    with ModelServer([Say("got it")] * 3) as thief:
        episode, server = play(dialect, [Redirect(f"{thief.url}/v1/messages")])
        assert thief.requests == [] and len(server.requests) == 1
    assert episode.status == "error"


def test_a_server_that_repeats_the_key_spreads_it_nowhere(dialect: Dialect, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    echo = Say(f"your key is {CANARY}", calls=[call("bash", {"command": f"echo {CANARY}"})], reasoning=CANARY)
    env = LittleEnv()
    episode, server = play(dialect, [Fail(500, message=f"bad key {CANARY}"), echo, ANSWER, Fail(401, message=CANARY)], env)
    assert server.requests[0].headers.get("authorization", "") + server.requests[0].headers.get("x-api-key", "")
    assert all(CANARY in str(request.headers) for request in server.requests)  # it did go out, in the header
    assert all(CANARY not in str(request.body) + request.path for request in server.requests)
    assert CANARY not in episode.model_dump_json() and CANARY not in str(env.commands) and CANARY not in caplog.text


def test_stopping_ends_a_call_in_flight_at_once(dialect: Dialect) -> None:
    stop = StopSignal()

    def reply(_: Request) -> Reply:
        threading.Timer(0.3, stop.set).start()  # begins when the call is in flight, however late that is
        return Hang()

    with ModelServer(reply) as server:
        agent = agent_for(server, dialect[0], stream=dialect[1], stop=stop, timeout_s=60)
        started = time.monotonic()
        with pytest.raises(Stopped):
            agent.act(HELLO, TOOLS)
        assert time.monotonic() - started < 30, "and not the minute for which it would have waited"


def test_stopping_ends_a_wait_at_once() -> None:
    stop = StopSignal()

    def reply(_: Request) -> Reply:
        threading.Timer(0.3, stop.set).start()
        return Fail(429, {"retry-after": "60"})

    with ModelServer(reply) as server:
        agent = agent_for(server, "openai", stop=stop, retries=RetryPolicy())
        started = time.monotonic()
        with pytest.raises(Stopped):
            agent.act(HELLO, TOOLS)
        assert time.monotonic() - started < 30, "and not the minute for which it would have waited"


@pytest.mark.parametrize("sent", [0, 1, 60])
def test_an_answer_that_nobody_can_read_is_the_servers_failure(dialect: Dialect, sent: int) -> None:
    episode, _ = play(dialect, [Cut(of=Say("x" * 99), after_bytes=sent), ANSWER, SUBMIT])
    assert episode.reward == 1.0 and episode.turns[0].failures[0]["kind"] == "server"


def test_an_error_with_status_200_is_an_error(dialect: Dialect) -> None:
    episode, _ = play(dialect, [ANSWER, *[Fail(200)] * 9])
    assert (episode.status, episode.reward) == ("error", None)


def test_an_unreadable_key_in_a_proxy_url_is_no_help_to_a_thief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:{CANARY}@127.0.0.1:9")
    agent = LLMAgent("openai/some-model", api_key="another-key-altogether", retries=RetryPolicy(**QUICK, unreachable=0))  # type: ignore[arg-type]
    with pytest.raises(ProviderError) as caught:
        agent.act(HELLO, TOOLS)
    assert CANARY not in str(caught.value)


FAULTS: list[Any] = [
    lambda _: Fail(429),
    lambda _: Fail(429, {"retry-after": "0.02"}),
    lambda _: Fail(500),
    lambda _: Fail(529),
    lambda _: Reset(),
    lambda chance: Reset(of=Say("x" * 400), after_bytes=chance.randrange(10, 300)),
    lambda chance: Cut(of=Say("x" * 400), after_bytes=chance.randrange(10, 300)),
    lambda _: Trickle(),
    lambda _: Say(calls=[call("bash", '{"command": ')]),
]
EMPTY: list[Any] = [lambda _: Say(), lambda _: Say(reasoning="hm", finish="length")]


def test_two_hundred_episodes_with_a_server_that_fails_a_fifth_of_its_calls() -> None:
    """No lost transcript, no episode without a verdict, no wrong verdict: every second student answers wrongly."""
    chance = random.Random(6)
    lock = threading.Lock()

    def reply(request: Request) -> Reply:
        said = str(request.body["messages"])
        with lock:
            if chance.random() < 0.2:
                # a third empty turn in a row would be the student's limit and no fault of the server's
                return chance.choice(FAULTS if NUDGE_EMPTY in said else FAULTS + EMPTY)(chance)
        wrong = re.search(r"seed \d*[13579]\)", said)
        if "did answer" in said:
            return SUBMIT
        return Say(calls=[call("bash", {"command": f"answer {41 if wrong else 42}"})])

    kept: dict[int, Episode] = {}
    with ModelServer(reply) as server:

        def one(index: int) -> None:
            agent = agent_for(server, "openai", timeout_s=3.0)
            rollout(LittleEnv(), agent, seed=index, sink=lambda episode: kept.__setitem__(index, episode))

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(one, range(200)))
    assert len(kept) == 200 and len(server.requests) > 430
    assert {index: episode.reward for index, episode in kept.items()} == {n: float(n % 2 == 0) for n in range(200)}
    assert all(episode.status == "scored" and well_formed(episode.messages) for episode in kept.values())
