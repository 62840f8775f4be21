"""The real Kafka still says what was recorded of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.real import KafkaCluster
from tests.kafka.recorded import record
from tests.kafka.recorded.scenarios import all_scenarios
from tests.kafka.recorded.world import Scenario, use_up_the_first_producer_id

pytestmark = pytest.mark.real("it asks whether the records are true")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a broker is that has the settings of the records."""
    with KafkaCluster(settings=record.SETTINGS) as cluster:
        use_up_the_first_producer_id(cluster.bootstrap_servers[0])
        yield cluster.bootstrap_servers[0]


@pytest.mark.parametrize("scenario", all_scenarios(), ids=lambda each: f"{each.module}-{each.name}")
def test_the_real_kafka_behaves_as_recorded(address: str, scenario: Scenario) -> None:
    recorded = record.read(scenario.module).get(scenario.name)

    observed = scenario.run(address)

    different = record.differences(recorded, observed)
    assert not different, "\n".join(different)
