"""The embedded cluster says what a real Kafka said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.recorded import record
from tests.kafka.recorded.embedded import Ticking, embedded_kafka
from tests.kafka.recorded.known import KNOWN
from tests.kafka.recorded.scenarios import all_scenarios
from tests.kafka.recorded.world import Scenario, use_up_the_first_producer_id

SCENARIOS = all_scenarios()
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def embedded() -> Iterator[str]:
    """The address of an embedded broker, shared by all scenarios."""
    with Ticking() as clock, embedded_kafka(clock) as cluster:
        use_up_the_first_producer_id(cluster.address(1))
        yield cluster.address(1)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: f"{each.module}-{each.name}")
def test_the_embedded_cluster_behaves_as_recorded(embedded: str, scenario: Scenario) -> None:
    recorded = record.read(scenario.module).get(scenario.name)

    observed = scenario.run(embedded)

    different = record.differences(recorded, observed)
    if f"{scenario.module}.{scenario.name}" in KNOWN:
        assert different, "it agrees with Kafka: strike it off the known differences"
    else:
        assert not different, "\n".join(different)


def test_known_differences_are_of_scenarios_and_told_to_users() -> None:
    told = " ".join((ROOT / "docs" / "embedded.md").read_text().split())

    assert set(KNOWN) <= {f"{scenario.module}.{scenario.name}" for scenario in SCENARIOS}
    assert [reason for reason in KNOWN.values() if reason not in told] == []


def test_nothing_is_recorded_that_no_scenario_asks_for() -> None:
    for module in {scenario.module for scenario in SCENARIOS}:
        names = {scenario.name for scenario in SCENARIOS if scenario.module == module}
        assert set(record.read(module)) == names
