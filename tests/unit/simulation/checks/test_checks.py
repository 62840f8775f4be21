"""All checks together; those of each module are tested in the module of its name."""

from __future__ import annotations

from pathlib import Path

from aktor.simulation import checks
from tests.unit.simulation.checks.builders import (
    ALL,
    assigned,
    at_position,
    back,
    committed,
    given,
    going,
    history,
    resolved,
    succeeded,
    synced,
    to_commit,
    written,
)

#: Two members, one after the other, as it should be.
GOOD = [
    written(0, 9),
    synced("x", 1),
    assigned("x"),
    resolved("x", 0),
    given("x", 0, 4),
    back("x"),
    to_commit("x", 5, "revocation"),
    committed(5),
    succeeded("x", 5),
    going("x", "revoked"),
    ("x", "partitions.released", {"partitions": {"a-0": 5}}),
    synced("y", 2),
    assigned("y"),
    resolved("y", 5),
    given("y", 5, 9),
    at_position("y", 10),
    back("y"),
    ("y", "user.commits", {"partitions": None}),
    to_commit("y", 10, "asked"),
    committed(10),
    succeeded("y", 10),
    ("y", "user.committed", {}),
    ALL,
]


def test_a_good_history_is_not_complained_about() -> None:
    assert checks.broken_promises(history(*GOOD)) == []


def test_every_module_of_checks_has_tests_of_its_name() -> None:
    modules = {check.__module__.rpartition(".")[2] for check in checks.CHECKS}
    tested = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert modules <= tested
