"""The embedded cluster says what a real Kafka said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aktor.broker.embedded import EmbeddedKafka
from tests.reality import record
from tests.reality.scenarios import all_scenarios
from tests.reality.world import Scenario

SCENARIOS = all_scenarios()


@pytest.fixture(scope="module")
def embedded() -> Iterator[str]:
    """The address of an embedded broker, shared by all scenarios."""
    with EmbeddedKafka(brokers=1) as cluster:
        servers = cluster.bootstrap_servers
        yield servers if isinstance(servers, str) else servers[0]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: f"{each.module}-{each.name}")
def test_the_embedded_cluster_behaves_as_recorded(embedded: str, scenario: Scenario) -> None:
    recorded = record.read(scenario.module).get(scenario.name)

    observed = scenario.run(embedded)

    different = record.differences(recorded, observed)
    assert not different, "\n".join(different)


def test_nothing_is_recorded_that_no_scenario_asks_for() -> None:
    for module in {scenario.module for scenario in SCENARIOS}:
        names = {scenario.name for scenario in SCENARIOS if scenario.module == module}
        assert set(record.read(module)) == names
