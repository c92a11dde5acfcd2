"""The page as text and as a service, without a browser: nothing ends early, nothing of a client's is a path."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from karotte_gym.errors import ConfigError
from karotte_gym.report import Store, ViewServer, write_report
from tests.unit.report.samples import HOSTILE, episode, many, write_run


class Elements(HTMLParser):
    """Every element with its attributes, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


@pytest.fixture
def hostile_run(tmp_path: Path) -> Path:
    chance = random.Random(4)
    return write_run(tmp_path / "run", [episode(index, chance, HOSTILE, HOSTILE) for index in range(8)], HOSTILE)


def test_hostile_texts_add_no_element_and_no_attribute(hostile_run: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "clean", many(8))
    write_report(hostile_run, tmp_path / "hostile.html")
    write_report(tmp_path / "clean", tmp_path / "clean.html")
    hostile, clean = Elements(), Elements()
    hostile.feed((tmp_path / "hostile.html").read_text())
    clean.feed((tmp_path / "clean.html").read_text())
    assert hostile.seen == clean.seen
    assert "pwned" not in re.sub(r"<script type=.*?</script>", "", (tmp_path / "hostile.html").read_text())


def test_the_page_names_nothing_outside_itself(tmp_path: Path) -> None:
    write_report(write_run(tmp_path / "run", many(2)), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    elements = Elements()
    elements.feed(text)
    assert not any({"src", "href", "style"} & set(attributes) for _, attributes in elements.seen)
    assert not any(name.startswith("on") for _, attributes in elements.seen for name in attributes)
    policy = next(each["content"] for _, each in elements.seen if each.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy and "connect-src" not in policy and "http" not in policy


def test_a_report_that_can_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", many(1))
    with pytest.raises(ConfigError, match="can't be written"):
        write_report(run, tmp_path / "no such folder" / "page.html")


def test_a_damaged_episode_is_a_note_and_no_row(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", many(3))
    (run / "episodes/00001.json").write_text('{"reward": 1.0, "status": "')
    overview = Store(run).overview()
    assert len(overview["rows"]) == 2 and "00001.json" in overview["notes"][0]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        Store(tmp_path)


@pytest.mark.parametrize("named", ["", "20260101T000000-a-0", "20260101T000000-a-0/record.json"])
def test_what_is_no_run_of_a_model_is_named_with_what_to_use_instead(tmp_path: Path, named: str) -> None:
    folder = tmp_path / "20260101T000000-a-0"
    folder.mkdir()
    for name in ("record.json", "transcript.jsonl"):
        (folder / name).write_text("{}")
    with pytest.raises(ConfigError) as caught:
        Store(tmp_path / named)
    place = tmp_path if not named else folder
    said = str(caught.value)
    assert f"{tmp_path / named} holds 1 episode of no model" in said
    assert f"`karotte-gym verify {place}`" in said and str(folder / "transcript.jsonl") in said


def test_a_part_of_a_run_is_named_with_its_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", many(1))
    for part in (run / "episodes", run / "evidence" / "x" / "record.json"):
        with pytest.raises(ConfigError, match=f"is a part of the run {run}: name that directory"):
            Store(part)


def test_runs_below_a_folder_are_found_and_changes_are_seen(tmp_path: Path) -> None:
    write_run(tmp_path / "one", many(2))
    write_run(tmp_path / "deep/two", many(1))
    store = Store(tmp_path)
    assert [run["name"] for run in store.overview()["runs"]] == ["deep/two", "one"]
    write_run(tmp_path / "three", many(1))
    assert len(store.overview()["rows"]) == 4


def ask(server: ViewServer, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    port = int(server.url.rstrip("/").rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.headers.get("content-encoding") == "gzip":
        content = gzip.decompress(content)
    return answer.status, content, {name.lower(): value for name, value in answer.headers.items()}


def test_the_server_gives_the_page_the_rows_and_single_episodes(tmp_path: Path) -> None:
    with ViewServer(Store(write_run(tmp_path / "run", many(3)))) as server:
        status, content, headers = ask(server, "/")
        assert status == 200 and b"</html>" in content and "frame-ancestors 'none'" in headers["content-security-policy"]
        rows = json.loads(ask(server, "/overview")[1])["rows"]
        found = json.loads(ask(server, f"/episode?id={rows[2]['id']}")[1])
        assert found["seed"] == 2 and "token_ids" not in found["turns"][0]


@pytest.mark.parametrize(
    "path",
    [
        "/../run.json",
        "/episode?id=../../etc/passwd/0",
        "/episode?id=run/99",
        "/episode?id=run/-1",
        "/episode?id=run/0/0",
        "/episode?id=run%2f%00",
        "/episode",
        "/x",
    ],
)
def test_what_was_not_listed_is_not_there(tmp_path: Path, path: str) -> None:
    with ViewServer(Store(write_run(tmp_path / "run", many(1)))) as server:
        assert ask(server, path)[0] == 404


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Host": "127.0.0.1:1"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": ""}]
)
def test_other_sites_read_nothing(tmp_path: Path, headers: dict[str, str]) -> None:
    with ViewServer(Store(write_run(tmp_path / "run", many(1)))) as server:
        status, content, _ = ask(server, "/overview", **headers)
        assert status == 403 and b"run" not in content
