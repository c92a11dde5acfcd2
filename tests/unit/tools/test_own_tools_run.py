"""What an author's tool does wrong is an answer, never the end: results, failures, time-outs, interrupts."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from pathlib import Path

import pytest
from own_tools import Load, run

from karotte_gym import MachineDied, StudentMisbehavior, ToolContext
from karotte_gym.tools.definition import CallSite
from karotte_gym.tools.own_result import MAX_WARNINGS


def returning(expression: str) -> str:
    return f'from karotte_gym import *\ndef look_up():\n    """Do."""\n    return {expression}\n'


@pytest.mark.parametrize(
    ("expression", "text", "exit_code"),
    [
        ("None", "", 0),
        ("'plain'", "plain", 0),
        ("{'a': [1, None, 'ü']}", '{"a": [1, null, "ü"]}', 0),
        ("(1, 2)", "[1, 2]", 0),
        ("Scoring(0.5).score", "0.5", 0),
        ("ToolResult('said', exit_code=3)", "said", 3),
        ("CommandResult(b'out\\n', 2, False, 0, 0.1)", "out\n[exit code 2]", 2),
        ("'\\x1b]0;title\\x07a\\0b\\ud800'", "a\u2400b?", 0),
    ],
)
def test_what_a_tool_returns_becomes_a_clean_text(
    load: Load, site: CallSite, expression: str, text: str, exit_code: int
) -> None:
    result = run(load(returning(expression)), site)
    assert (result.text, result.exit_code, result.failed) == (text, exit_code, False)
    assert result.duration_s > 0


@pytest.mark.parametrize("expression", ["'x' * 10_000_000", "CommandResult(b'x' * 10_000_000, 0, False, 0, 0.1)"])
def test_a_long_result_is_cut_and_says_so(load: Load, site: CallSite, expression: str) -> None:
    result = run(load(returning(expression)), site)
    assert len(result.text) <= site.limits.max_output_bytes
    assert result.truncated and "left out" in result.text and result.bytes_out == 10_000_000


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ValueError('no order 7')", "error: look_up failed: ValueError: no order 7"),
        ("open('/srv/secret place/answers.txt')", "<path>"),
        ("raise ValueError('see file:///srv/x, FILE://host/srv/x')", "see <path>, <path>"),
        ("raise ValueError('C:/srv/x')", "C:<path>"),
        ("raise ValueError('at:/srv/x')", "at:<path>"),
        ("raise ValueError('https://example.org/x')", "https://example.org/x"),
        ("raise ValueError('file:///workdir/x')", "file:///workdir/x"),
        ("raise KeyError('/workdir/data/x')", "'/workdir/data/x'"),
        ("import sys; sys.exit(1)", "SystemExit"),
        ("return object()", "TypeError"),
        ("return float('nan')", "ValueError"),
        ("return {1: {2}}['x']", "KeyError"),
        ("raise RuntimeError('\\x1b[31m' + 'x' * 10_000)", "RuntimeError: xxx"),
        ("raise Bad", "Bad"),
        ("raise Worse", "Worse"),
        ("return ToolResult(None)", "TypeError: the text of"),
        ("return ToolResult('x', exit_code='a')", "TypeError: the exit_code of"),
        ("return ToolResult('x', exit_code=True)", "TypeError: the exit_code of"),
        ("return ToolResult('x', exit_code=2**64)", "TypeError: the exit_code of"),
        ("return ToolResult('x', duration_s='long')", "TypeError: the duration_s of"),
        ("return ToolResult('x', duration_s=float('nan'))", "TypeError: the duration_s of"),
        ("return ToolResult('x', duration_s=-1)", "TypeError: the duration_s of"),
        ("return ToolResult('x', bytes_out=None)", "TypeError: the bytes_out of"),
        ("return ToolResult('x', timed_out='no')", "TypeError: the timed_out of"),
        ("return ToolResult('x', failed=None)", "TypeError: the failed of"),
        ("return ToolResult('x', images=[1])", "TypeError: the images of"),
        ("return ToolResult('x', images=None)", "TypeError: the images of"),
        ("return CommandResult(b'x', 'a', False, 0, 0.1)", "TypeError"),
        ("return CommandResult(None, 0, False, 0, 0.1)", "error: look_up failed"),
        ("def f(): return f()\n    return f()", "RecursionError"),
    ],
)
def test_an_exception_is_an_answer_and_a_warning_with_the_line(load: Load, site: CallSite, body: str, told: str) -> None:
    source = "from karotte_gym import ToolResult\nfrom karotte_gym.sandbox.contract import CommandResult\n"
    source += "class Bad(Exception):\n    def __str__(self): raise OSError\n"
    source += "class Worse(Exception):\n    def __str__(self): raise SystemExit(3)\n"
    tool = load(f'{source}def look_up():\n    """Do."""\n    {body}\n')
    with pytest.warns(RuntimeWarning, match=r"look_up.py(:\d+)?: the tool look_up failed"):
        result = run(tool, site)
    assert told in result.text and len(result.text) < 700 and "\n" not in result.text and "\x1b" not in result.text
    assert "Traceback" not in result.text and "/srv" not in result.text and str(Path.cwd()) not in result.text
    assert (result.exit_code, result.failed) == (1, True)


def test_a_tool_that_fails_ends_no_run_where_warnings_are_errors(
    load: Load, site: CallSite, caplog: pytest.LogCaptureFixture
) -> None:
    tool = load('def look_up():\n    """Do."""\n    raise ValueError(7)\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run(tool, site)
    assert result.text == "error: look_up failed: ValueError: 7"
    assert "the tool look_up failed: ValueError: 7" in caplog.text


@pytest.mark.parametrize(
    "error", [StudentMisbehavior("custody", "x"), MachineDied("gone", cause="exited"), KeyboardInterrupt()]
)
def test_what_the_student_did_to_the_machine_passes_through(load: Load, site: CallSite, error: BaseException) -> None:
    site.context.store  # noqa: B018
    tool = load(
        'from karotte_gym import ToolContext\ndef look_up(c: ToolContext):\n    """Do."""\n    raise c.task_config.error\n'
    )
    context = ToolContext(type("Holder", (), {"error": error})(), site.context.store, site.context.rng, 1, 7)  # type: ignore[arg-type]
    with pytest.raises(type(error)):
        run(tool, CallSite(site.sandbox, site.limits, context))


def test_a_tool_over_its_time_is_given_up_and_its_handle_revoked(load: Load, site: CallSite) -> None:
    tool = load('''
import threading
from karotte_gym import StudentSandbox, ToolContext, tool
seen, go = [], threading.Event()

@tool(timeout_s=0.2)
def look_up(sandbox: StudentSandbox):
    """Do."""
    go.wait(100)
    for handle in (sandbox, sandbox.as_root):
        try:
            seen.append(handle.bash("true", timeout_s=1.0))
        except BaseException as error:
            seen.append(error)
    go.clear()
''')
    started = time.monotonic()
    with pytest.warns(RuntimeWarning, match=r"took over 0.2 s"):
        result = run(tool, site)
    assert time.monotonic() - started < 60, "and not until the tool goes on"
    assert result.timed_out and result.failed and "given up" in result.text
    module = tool._made.__globals__  # type: ignore[attr-defined]
    module["go"].set()
    for thread in [one for one in threading.enumerate() if one.name == "karotte-tool"]:
        thread.join(30)
    assert [type(one).__name__ for one in module["seen"]] == ["Revoked", "Revoked"]
    assert site.sandbox.world.asked == []  # type: ignore[attr-defined]


def test_a_tool_whose_handle_runs_out_first_is_given_up_as_well(load: Load, site: CallSite) -> None:
    """The handle's clock and the waiting thread's agree only to some milliseconds."""
    tool = load('''
from karotte_gym import StudentSandbox

def look_up(sandbox: StudentSandbox):
    """Do."""
    sandbox._deadline = 0
    sandbox.bash("true")
''')
    with pytest.warns(RuntimeWarning, match=r"took over 5 s"):
        result = run(tool, site)
    assert result.timed_out and result.failed and "given up after 5 s" in result.text


def test_root_is_only_reached_by_its_name(load: Load, site: CallSite) -> None:
    """What an unguarded handle would give: `put_file` of the machine itself writes as root."""
    source = (
        'from karotte_gym import Sandbox\ndef look_up(path: str, s: Sandbox):\n    """Do."""\n    {}.put_file(path, b"x")\n'
    )
    with pytest.warns(RuntimeWarning, match="as_root.put_file"):
        assert run(load(source.format("s")), site, path="/etc/shadow").failed
    assert site.sandbox.files == {}  # type: ignore[attr-defined]
    assert not run(load(source.format("s.as_root")), site, path="/etc/shadow").failed
    assert site.sandbox.files == {"/etc/shadow": b"x"}  # type: ignore[attr-defined]


def test_an_interrupt_in_the_middle_of_a_tool_leaves_the_machine_to_the_next_call(load: Load, site: CallSite) -> None:
    """Ctrl-C reaches the thread that waits, not the tool; a handle still good would act beside the next call."""
    tool = load('''
import threading
from karotte_gym import StudentSandbox
begun, go, done, seen = threading.Event(), threading.Event(), threading.Event(), []

def look_up(sandbox: StudentSandbox):
    """Do."""
    begun.set()
    go.wait(100)
    try:
        sandbox.bash("true")
    except Exception as error:
        seen.append(type(error).__name__)
    done.set()
''')
    module = tool._made.__globals__  # type: ignore[attr-defined]

    main = threading.get_ident()

    def interrupt() -> None:
        module["begun"].wait(30)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run(tool, site)
    module["go"].set()
    assert module["done"].wait(30)
    assert (module["seen"], site.sandbox.world.asked) == (["Revoked"], [])  # type: ignore[attr-defined]


def test_a_student_can_not_fill_the_memory_with_warnings(load: Load, site: CallSite) -> None:
    """Python keeps every text that it warned of; each of these would be a new one."""
    tool = load('def look_up(number: int):\n    """Do."""\n    raise ValueError(number)\n')
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in range(MAX_WARNINGS + 10):
            assert str(number) in run(tool, site, number=number).text
    assert len(told) == MAX_WARNINGS
    assert "transcripts alone" in str(told[-1].message)
