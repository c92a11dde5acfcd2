"""The grader of repair-service against the service itself, repaired wholly, in part, or not at all."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from karotte_gym.envs.repair_service.items import as_json, draw_items
from scoring_script import GRADING, run_script

from karotte_gym import ExecutableJudge
from karotte_gym.registration import load_task

FOLDER = load_task("repair-service").folder()
PLACE = "/workdir/data/service"
SOLUTION = json.loads((FOLDER / "solution.json").read_text())[0]["arguments"]["command"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service as the reference solution leaves it."""
    place = tmp_path_factory.mktemp("repaired") / "service"
    shutil.copytree(FOLDER / "student_data" / "service", place)
    repairs = SOLUTION.split("(setsid", 1)[0].replace(PLACE, str(place))
    subprocess.run(["/bin/bash", "-ec", repairs], check=True, timeout=60)
    return place


@contextlib.contextmanager
def running(place: Path, port: int) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-I", "-c", _START, str(place)], stderr=subprocess.DEVNULL, cwd="/")
    try:
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.02)
        yield
    finally:
        process.kill()
        process.wait()


_START = "import runpy, sys; sys.path[:0] = [sys.argv[1]]; runpy.run_path(sys.argv[1] + '/server.py', run_name='__main__')"


def grade(service: Path, tmp_path: Path) -> dict[str, object]:
    """As in a machine, but for the port, which is one that is free here."""
    port = free_port()
    submission = tmp_path / "submission" / PLACE.lstrip("/")
    shutil.copytree(service, submission)
    config = submission / "config.json"
    config.write_text(config.read_text().replace("8080", str(port)))
    script = tmp_path / "grade.py"
    script.write_text((FOLDER / "grade.py").read_text().replace("PORT = 8080", f"PORT = {port}"))
    result = tmp_path / "result.json"
    with running(submission, port):
        run_script(script, tmp_path / "submission", FOLDER / "root_data", result, timeout_s=300)
    return json.loads(result.read_text())  # type: ignore[no-any-return]


def test_the_repaired_service_scores_1_and_the_broken_one_0(repaired: Path, tmp_path: Path) -> None:
    assert grade(repaired, tmp_path / "good") == {
        "score": 1.0,
        "metadata": {"reason": "all answers are right", "passed": ["health", "pages", "quotes", "buying"]},
    }
    assert grade(FOLDER / "student_data" / "service", tmp_path / "broken")["score"] == 0.0


def hunks(name: str, repaired: Path) -> list[str]:
    """The repaired file with each of its repairs undone in turn."""
    good = (repaired / name).read_text().splitlines(keepends=True)
    bad = (FOLDER / "student_data" / "service" / name).read_text().splitlines(keepends=True)
    codes = [code for code in difflib.SequenceMatcher(None, good, bad, autojunk=False).get_opcodes() if code[0] != "equal"]
    return ["".join([*good[:start], *bad[low:high], *good[end:]]) for _, start, end, low, high in codes]


@pytest.mark.parametrize(("name", "faults"), [("server.py", 3), ("shop.py", 7)])
def test_every_single_fault_that_is_left_in_costs_the_score(repaired: Path, tmp_path: Path, name: str, faults: int) -> None:
    texts = hunks(name, repaired)
    assert len(texts) >= faults
    for number, text in enumerate(texts):
        service = tmp_path / f"service-{number}"
        shutil.copytree(repaired, service)
        (service / name).write_text(text)
        assert grade(service, tmp_path / f"graded-{number}")["score"] == 0.0, f"fault {number} of {name}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(price_cents * quantity * percent + 50) // 100", "round(price_cents * quantity * percent / 100)"),
        ("(price_cents * quantity * percent + 50) // 100", "price_cents * quantity * percent // 100"),
        ("quantity >= 100", "quantity > 99.5 + (quantity == 100)"),
    ],
)
def test_a_careless_repair_is_no_repair(repaired: Path, tmp_path: Path, old: str, new: str) -> None:
    service = tmp_path / "service"
    shutil.copytree(repaired, service)
    text = (service / "shop.py").read_text()
    assert old in text
    (service / "shop.py").write_text(text.replace(old, new))
    assert grade(service, tmp_path)["score"] == 0.0


def test_fewer_items_are_not_graded(repaired: Path, tmp_path: Path) -> None:
    service = tmp_path / "service"
    shutil.copytree(repaired, service)
    (service / "items.json").write_text(json.dumps(json.loads((service / "items.json").read_text())[:1]))
    assert grade(service, tmp_path)["metadata"] == {"reason": "items.json was changed", "passed": []}


# Answers that never end -----------------------------------------------------------------------------------------------

NEVER_ENDING = {  # what is sent at once, and what again and again
    "nothing": (b"", b""),
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "status line": (b"HTTP/1.1 ", b"2"),
    "header": (b"HTTP/1.1 200 OK\r\n", b"x"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b" "),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
}


@pytest.fixture
def grader(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """grade.py as a module, with what it may import in the machine."""
    monkeypatch.syspath_prepend(str(GRADING))
    spec = importlib.util.spec_from_file_location("repair_service_grade", FOLDER / "grade.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def never_ending(first: bytes, again: bytes) -> Iterator[int]:
    """The port of a service that always says something, but for `again` empty, and never all of it."""
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(first)
            while not over.wait(0.05):
                connection.sendall(again)

    def accept(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not over.is_set():
                threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, args=(listening,), daemon=True).start()
        yield int(listening.getsockname()[1])
        over.set()


def outcome_in_time(ask: Callable[[], object]) -> str:
    """What `ask` raised, when it ended at all."""
    raised: list[str] = []

    def asking() -> None:
        try:
            ask()
        except Exception as error:
            raised.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=asking, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it still waits"
    return raised[0]


@pytest.mark.parametrize("kind", NEVER_ENDING)
def test_an_answer_that_never_ends_is_none_in_time(grader: ModuleType, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(grader, "ANSWER_TIMEOUT_S", 0.5)
    with never_ending(*NEVER_ENDING[kind]) as port:
        monkeypatch.setattr(grader, "PORT", port)
        assert outcome_in_time(lambda: grader.ask("GET", "/health")) == "Wrong: no answer in time"


def test_the_examination_ends_at_its_deadline_within_an_answer(grader: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grader, "ANSWER_TIMEOUT_S", 1000.0)
    monkeypatch.setattr(grader, "DEADLINE_S", 0.5)
    items = json.loads((FOLDER / "student_data" / "service" / "items.json").read_text())
    with never_ending(*NEVER_ENDING["body"]) as port:
        monkeypatch.setattr(grader, "PORT", port)
        examiner = grader.Examiner(items, 1)
        assert outcome_in_time(examiner.health) == "Wrong: no answer in time"
        with pytest.raises(grader.Wrong, match="time was up"):
            examiner.health()


def test_the_examination_is_over_well_before_its_judge_is_ended(grader: ModuleType) -> None:
    (step,) = load_task("repair-service").steps
    assert isinstance(step.judge, ExecutableJudge)
    assert grader.ANSWER_TIMEOUT_S < grader.DEADLINE_S < step.judge.timeout_s - 30


@pytest.mark.parametrize("seed", range(5))
def test_drawn_items_have_enough_of_everything(seed: int) -> None:
    items = json.loads(as_json(draw_items(np.random.default_rng(seed))))
    assert len({item["id"] for item in items}) == len(items) >= 40
    assert len({item["category"] for item in items}) == 4
    assert all(item["price_cents"] % 2 == 1 and item["stock"] >= 12 for item in items)
    assert any(item["price_cents"] % 10 == 5 for item in items), "else no total ends in half a cent"


def test_the_students_files_hold_nothing_of_the_graders() -> None:
    seed = (FOLDER / "root_data" / "seed.txt").read_text().strip()
    for top, _, files in os.walk(FOLDER):
        for file in files:
            if Path(top).name != "root_data" and "__pycache__" not in top:
                assert seed not in Path(top, file).read_text(encoding="utf-8")
