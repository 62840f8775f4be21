"""Our own groups move to the consumer protocol and back, member by member, on a real Kafka.

On the embedded one, and with other clients, they do in tests/clients/test_migration.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from tests.clients.migration import change_and_change_back
from tests.clients.support import PARTITIONS, At
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import ready

pytestmark = pytest.mark.real("it has its tests on the embedded one")


@pytest.mark.parametrize(
    "settings",
    [{}, {"partition_assignment_strategy": [CooperativeStickyAssignor]}],
    ids=["eager", "cooperative"],
)
def test_a_group_of_ours_changes_its_protocol_under_load_and_changes_back(
    kafka: Cluster, topic: str, group: str, settings: dict[str, Any]
) -> None:
    servers = kafka.bootstrap_servers
    topics.create_topic(servers, topic, partitions=len(PARTITIONS))
    ready(kafka, topic, group)

    change_and_change_back(
        At(bootstrap_servers=",".join(servers)),
        topic,
        group,
        classic="aktor",
        settings=settings,
        consumer="aktor",
        count=2,
    )
