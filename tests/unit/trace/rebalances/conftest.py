"""Three members of one host, and what all members tell."""

from __future__ import annotations

import pytest

from aktor.trace.rebalances.lines import Event
from tests.unit.trace.rebalances.told import Member


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def alice(events: list[Event]) -> Member:
    return Member(events, "alice", "vm")


@pytest.fixture
def bob(events: list[Event]) -> Member:
    return Member(events, "bob", "vm")


@pytest.fixture
def carol(events: list[Event]) -> Member:
    return Member(events, "carol", "vm")
