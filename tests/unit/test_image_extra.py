"""An environment's own Containerfile: what counts as one, what it depends on, where it is built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from karotte_gym import ConfigError
from karotte_gym.sandbox import image_rootfs
from karotte_gym.sandbox.image_extra import extra_of, signature

GOOD = "ARG BASE\nFROM ${BASE}\nRUN touch /etc/extra\n"


def write(folder: Path, text: str = GOOD, name: str = "Containerfile") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize("text", ["FROM debian:12\n", "ARG BASE\nFROM ${BASE}\nFROM debian:12\n", "", "RUN true\n"])
def test_what_does_not_build_on_the_base_is_refused_by_name(tmp_path: Path, text: str) -> None:
    extra = extra_of(write(tmp_path, text))
    assert extra is not None
    with pytest.raises(ConfigError, match="Containerfile must build on the base image"):
        _ = extra.digest


def test_stages_of_other_images_may_be_used_when_the_last_one_is_on_the_base(tmp_path: Path) -> None:
    extra = extra_of(write(tmp_path, "ARG BASE\nFROM golang AS build\nFROM ${BASE}\nCOPY --from=build /x /x\n"))
    assert extra is not None and len(extra.digest) == 64


def test_text_and_context_decide_and_the_rest_of_the_folder_does_not(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "root_data").mkdir()
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "tool.sh").write_text("true")

    def state() -> tuple[str, object]:
        return image_rootfs.rootfs_key(None, extra_of(path)), signature(path)

    first = state()
    (tmp_path / "root_data" / "key").write_text("secret")
    (tmp_path / "solution.json").write_text("[]")
    assert state() == first
    (tmp_path / "image" / "tool.sh").write_text("false")
    second = state()
    write(tmp_path, GOOD + "RUN true\n")
    third = state()
    assert len({first[0], second[0], third[0], image_rootfs.rootfs_key(None)}) == 4
    assert first[1] != second[1] != third[1]


def test_the_context_never_holds_the_folder_itself(tmp_path: Path) -> None:
    for name, context in (("Containerfile", "image"), ("grader.Containerfile", "grader_image")):
        extra = extra_of(write(tmp_path, name=name))
        assert extra is not None and extra.context == tmp_path / context
    assert extra_of(None) is None and signature(None) == ()
    os.unlink(tmp_path / "Containerfile")
    extra = extra_of(str(tmp_path / "Containerfile"))
    assert extra is not None
    with pytest.raises(ConfigError, match="can't be read"):
        _ = extra.digest
