"""The counter's speed: plausible, repeatable, and absent where the processor has none."""

from __future__ import annotations

import platform

import pytest

from karotte_gym.sandbox import host_clock

x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86_64 has this counter")


@x86_64
def test_two_measurements_agree_within_one_percent():
    host_clock.tsc_khz.cache_clear()
    one = host_clock.tsc_khz()
    host_clock.tsc_khz.cache_clear()
    two = host_clock.tsc_khz()
    assert one is not None
    assert two is not None
    assert 500_000 < one < 10_000_000
    assert abs(one - two) < one / 100


@x86_64
def test_the_kernel_is_told_in_its_own_words():
    assert host_clock.kernel_argument() == f"tsc_early_khz={host_clock.tsc_khz()}"


@x86_64
def test_a_policy_against_writable_code_falls_back_to_the_listed_speed(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_arguments: object, **_keywords: object) -> None:
        raise PermissionError

    monkeypatch.setattr(host_clock.mmap, "mmap", refuse)
    host_clock.tsc_khz.cache_clear()
    assert host_clock.tsc_khz() == host_clock._listed_khz()
    host_clock.tsc_khz.cache_clear()


def test_other_processors_need_no_word(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host_clock.platform, "machine", lambda: "aarch64")
    host_clock.tsc_khz.cache_clear()
    assert host_clock.kernel_argument() == ""
    host_clock.tsc_khz.cache_clear()
