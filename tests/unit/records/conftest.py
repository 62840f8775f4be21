"""The tests of this folder run with each reader of record batches: in Python, and compiled. Those
that say themselves which reader they mean run once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.records import building

#: Modules and tests that compare all readers; who takes `reader` has it as a parameter.
COMPARE = (
    *("test_twins.py", "test_lz4.py"),
    "test_columns.py::test_both_readers_fill_columns_alike",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    test = metafunc.definition.nodeid.rpartition("/")[2]
    says_which = "reader" in metafunc.fixturenames or test.startswith(COMPARE)
    readers = ["python"] if says_which else list(building.READERS)
    metafunc.parametrize("reader_in_use", readers, indirect=True, scope="module")


@pytest.fixture(scope="module")
def reader_in_use(request: pytest.FixtureRequest) -> Iterator[None]:
    building.in_use.append(building.READERS[request.param])
    yield
    building.in_use.pop()


@pytest.fixture(autouse=True)
def _with_each_reader(request: pytest.FixtureRequest, reader_in_use: Any) -> None:
    """Every test of the folder depends on the reader in use."""
