"""All checks together; those of each module are tested in the module of its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from aktor.simulation import checks
from aktor.trace.schema import EVENTS
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


def test_no_check_reads_a_key_that_its_event_has_only_sometimes() -> None:
    """Unless the guard of the case asks for it: a check that raises ends the whole simulation."""
    folder = Path(checks.__file__).parent
    cases = [
        (path.name, case)
        for path in sorted(folder.glob("*.py"))
        for case in ast.walk(ast.parse(path.read_text()))
        if isinstance(case, ast.match_case)
    ]
    assert len(cases) > 50
    assert [(name, read) for name, case in cases for read in _read_unasked(case)] == []


def test_a_case_that_reads_such_a_key_is_found() -> None:
    reads = 'match event["event"]:\n    case "commit.failed"{}:\n        event["partitions"]'
    found = []
    for guard in ("", ' if "partitions" in event'):
        (match,) = ast.parse(reads.format(guard)).body
        assert isinstance(match, ast.Match)
        found.append(list(_read_unasked(match.cases[0])))
    assert found == [["commit.failed: partitions"], []]


def _read_unasked(case: ast.match_case) -> Iterator[str]:
    asked = _texts(case.guard) if case.guard else []
    for node in (node for line in case.body for node in ast.walk(line)):
        match node:
            case ast.Subscript(ast.Name("event"), ast.Constant(str() as key)) if key not in asked:
                for name in _texts(case.pattern):
                    if name in EVENTS and key in EVENTS[name].sometimes:
                        yield f"{name}: {key}"


def _texts(node: ast.AST) -> list[str]:
    constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return [value for value in constants if isinstance(value, str)]
