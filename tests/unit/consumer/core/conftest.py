"""Fixtures for the tests of the engine."""

from __future__ import annotations

import pytest

from tests.unit.consumer.core.builders import EngineHarness


@pytest.fixture(params=[True, False], ids=["at once", "generator"])
def both_ways_to_poll(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever holds for a poll holds for both."""
    monkeypatch.setattr(EngineHarness, "at_once", request.param)
