"""The tests of this folder run with each reader of record batches: in Python, and compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.records import building


@pytest.fixture(scope="module", params=building.READERS)
def reader_in_use(request: pytest.FixtureRequest) -> Iterator[None]:
    building.in_use.append(building.READERS[request.param])
    yield
    building.in_use.pop()


@pytest.fixture(autouse=True)
def _with_each_reader(request: pytest.FixtureRequest, reader_in_use: Any) -> None:
    """Every test of the folder depends on the reader in use."""
