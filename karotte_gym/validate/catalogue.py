"""All checks in the order in which they are done: what only reads comes first, what takes dozens of machines last."""

from __future__ import annotations

from karotte_gym.errors import ConfigError
from karotte_gym.validate import (
    attacks_fail,
    broken_submissions,
    capacity,
    elsewhere,
    grader_code,
    paths_named,
    scores,
    scripts_there,
    secrets_in_data,
    secrets_in_machine,
    secrets_in_tools,
    submit_messages,
    tools_load,
)
from karotte_gym.validate.check import Check

__all__ = ["CHECKS", "chosen"]

CHECKS = (
    Check("solution-file", "read", scripts_there.check_solution_file, "solution.json is a script of calls that fit the tools"),
    Check("attack-files", "read", scripts_there.check_attack_files, "there are enough attacks, and each of them submits"),
    Check("paths-named", "read", paths_named.check_paths_named, "the instructions name every submission path"),
    Check("tools", "read", tools_load.check_tools, "every tool loads"),
    Check("hardware", "read", capacity.check_hardware, "an episode fits onto this host"),
    Check("submission-limits", "read", capacity.check_submission_limits, "what custody takes fits onto the disks"),
    Check("original-path", "read", grader_code.check_original_path, "no script opens the student's own paths"),
    Check("bounded-reads", "read", grader_code.check_bounds, "every read of a submission has a bound"),
    Check("no-execution", "read", grader_code.check_execution, "no script runs what was handed in"),
    Check("secrets-in-data", "read", secrets_in_data.check_secrets_in_data, "no string of root_data is in the data"),
    Check("solution-pays", "few", scores.check_solution_pays, "the solution scores 1"),
    Check("nothing-pays-nothing", "few", scores.check_nothing_pays, "submitting at once scores 0"),
    Check(
        "secrets-in-machine", "few", secrets_in_machine.check_secrets_in_machine, "the student can read no string of the answer"
    ),
    Check("secrets-in-tools", "few", secrets_in_tools.check_secrets_in_tools, "no tool holds or says a string of the answer"),
    Check("submit-message", "few", submit_messages.check_submit_messages, "no made-up message scores"),
    Check("reads-the-copy", "few", elsewhere.check_elsewhere, "the script scores the copy, wherever it lies, and nothing else"),
    Check("same-score", "few", scores.check_same_score, "the same submission has the same score"),
    Check("other-seed", "few", scores.check_other_seed, "the solution scores 1 from another seed"),
    Check("huge-submission", "few", broken_submissions.check_huge, "the largest file does no harm"),
    Check("broken-submissions", "many", broken_submissions.check_broken, "noise does no harm and scores 0"),
    Check("wrong-forms", "many", broken_submissions.check_wrong_forms, "no wrong form of the answer scores"),
    Check("own-attacks", "many", attacks_fail.check_own_attacks, "no attack of the task's own pays"),
    Check("generic-attacks", "many", attacks_fail.check_generic_attacks, "no attack of the pack pays"),
)
SLOW = ("generic-attacks", "other-seed", "huge-submission")  # left out of a quick run


def chosen(only: tuple[str, ...], *, quick: bool = False) -> tuple[Check, ...]:
    """The checks of these ids, or all; ConfigError names the choices."""
    known = [check.id for check in CHECKS]
    for name in only:
        if name not in known:
            raise ConfigError(f"there is no check {name!r}; there are: {', '.join(known)}")
    return tuple(check for check in CHECKS if (check.id in only if only else not (quick and check.id in SLOW)))
