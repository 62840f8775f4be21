"""Which tests `make check` runs: see tests/changed.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.changed import units_of


@pytest.mark.parametrize(
    ("changed", "units"),
    [
        ("aktor/managers/fetch.py", ["tests/unit/managers/test_fetch.py"]),
        ("aktor/managers/claim.py", ["tests/unit/managers"]),  # it has no module of its own
        ("aktor/managers/fetch/room.py", ["tests/unit/managers/test_fetch.py"]),  # it has no folder
        ("aktor/values.py", ["tests/unit/test_values.py"]),
        ("tests/unit/managers/test_fetch.py", ["tests/unit/managers/test_fetch.py"]),
        ("tests/unit/managers/test_deleted.py", []),
        ("tests/kafka/test_commits.py", []),
        ("docs/testing.md", []),
    ],
)
def test_the_units_of_what_changed_are_found_by_its_name(
    changed: str, units: list[str], tmp_path: Path
) -> None:
    for one in ("managers/test_fetch.py", "test_values.py"):
        path = tmp_path / "tests" / "unit" / one
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    assert units_of([changed], tmp_path) == units
