"""Nothing that somebody else can write is inherited or started by a privileged process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from as_user import PYTHON, needs_root

from karotte_gym.guest import hygiene

HYGIENE = Path(hygiene.__file__)
HOSTILE = {
    "LD_PRELOAD": "/tmp/evil.so",
    "LD_AUDIT": "/tmp/evil.so",
    "LD_LIBRARY_PATH": "/tmp:/usr/lib::.",
    "LD_DEBUG_OUTPUT": "/tmp/x",
    "PYTHONPATH": "/tmp",
    "PYTHONSTARTUP": "/tmp/x.py",
    "PYTHONHOME": "/tmp",
    "PYTHONBREAKPOINT": "os.system",
    "BASH_ENV": "/tmp/x.sh",
    "ENV": "/tmp/x.sh",
    "IFS": "/",
    "GLOBIGNORE": "*",
    "SHELLOPTS": "xtrace",
    "PERL5LIB": "/tmp",
    "GCONV_PATH": "/tmp",
    "BASH_FUNC_ls%%": "() { evil; }",
    "NODE_OPTIONS": "--require /tmp/x",
}


@pytest.fixture
def open_directory(tmp_path: Path) -> Path:
    """A directory that anybody can write to, with a program in it."""
    directory = tmp_path / "bin"
    directory.mkdir()
    directory.chmod(0o777)
    (directory / "tar").write_text("#!/bin/sh\necho evil\n")
    (directory / "tar").chmod(0o755)
    return directory


def test_every_dangerous_variable_is_gone(open_directory: Path) -> None:
    reduced = hygiene.reduce(HOSTILE | {"PATH": f"{open_directory}:.::/usr/bin", "LANG": "C.UTF-8"})
    assert reduced == {"LANG": "C.UTF-8", "LD_LIBRARY_PATH": "/usr/lib", "PATH": "/usr/bin"}


@pytest.mark.parametrize("value", ["", ".", "relative/bin", "/nowhere", "/tmp", "/proc/self/cwd"])
def test_a_path_of_nothing_trusted_becomes_the_systems(value: str) -> None:
    assert "/usr/bin" in hygiene.reduce({"PATH": value})["PATH"].split(":")
    assert value not in hygiene.reduce({"PATH": value})["PATH"].split(":")


def test_values_that_could_be_code_are_dropped() -> None:
    assert hygiene.reduce({"LANG": "$(id)", "TERM": "x" * 1000, "HOME": "/a\nb"}).keys() == {"PATH"}


def test_programs_are_looked_up_in_fixed_places_only(open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(open_directory))
    found = subprocess.run(["/bin/sh", "-c", "command -v tar"], capture_output=True, text=True).stdout.strip()
    assert found == f"{open_directory}/tar", "the attack would have worked"
    assert hygiene.trusted_program("tar") == "/usr/bin/tar"


@pytest.mark.parametrize("name", ["", "../tmp/x", "/bin/sh", "no-such-program-here"])
def test_what_is_no_program_of_the_systems_is_not_found(name: str) -> None:
    with pytest.raises(FileNotFoundError):
        hygiene.trusted_program(name)


@needs_root
def test_trust_ends_at_the_first_thing_that_others_can_change(tmp_path: Path) -> None:
    safe = tmp_path / "safe"
    safe.mkdir()
    assert not hygiene.is_trusted(str(safe)), "below a temporary directory, which everybody can write to"
    assert hygiene.is_trusted("/usr/bin")
    link = tmp_path / "link"
    link.symlink_to("/usr/bin")
    assert not hygiene.is_trusted(str(link)), "the link itself can be exchanged"
    assert not hygiene.is_trusted("/usr/bin/nothing-there")


@needs_root
def test_a_chain_of_links_is_only_as_good_as_its_weakest_place(tmp_path: Path) -> None:
    first, second = Path(f"/opt/karotte-test-{os.getpid()}"), tmp_path / "second"
    second.symlink_to("/usr/bin/env")
    first.symlink_to(second)
    try:
        assert os.path.realpath(first) == "/usr/bin/env", "both its ends look trustworthy"
        assert not hygiene.is_trusted(str(first))
        first.unlink()
        first.symlink_to(first)
        assert not hygiene.is_trusted(str(first))
        first.unlink()
        first.symlink_to("../usr/bin/env")
        assert hygiene.is_trusted(str(first))
    finally:
        first.unlink()


def test_a_process_starts_again_so_that_the_loader_sees_the_clean_environment(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('evil')")
    script = tmp_path / "script.py"
    script.write_text(
        "import json, os, sys\n"
        f"sys.path.insert(0, {str(HYGIENE.parent)!r})\n"
        "import hygiene\n"
        "print('pass', os.environ.get('LD_LIBRARY_PATH'))\n"
        "sys.stdout.flush()\n"
        "hygiene.restart_clean([__file__, *sys.argv[1:]])\n"
        "print(json.dumps([dict(os.environ), sys.flags.isolated, sys.argv[1:], sys.path[0]]))\n"
    )
    hostile = {"PYTHONPATH": str(tmp_path), "LD_LIBRARY_PATH": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin"}
    done = subprocess.run(
        [PYTHON, str(script), "an argument"], env=os.environ | hostile, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "evil", "the attack would have worked"
    assert lines[1:3] == [f"pass {tmp_path}", "pass None"]
    environment, isolated, arguments, _ = json.loads(lines[3])
    assert isolated and arguments == ["an argument"] and len(lines) == 4
    assert environment["PATH"] == "/usr/bin" and not {"PYTHONPATH", "LD_LIBRARY_PATH"} & environment.keys()
