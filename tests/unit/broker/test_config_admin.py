"""Configs changed at run time: codes and texts are those that a real Kafka gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code
from tests.kafka.recorded.messages import request
from tests.unit.broker.builders import ORDERS, a_cluster, ask, partition_of
from tests.unit.broker.harness import Journal

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

Change = tuple[str, int, str | None]


def resource(name: str, kind: int, configs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def change(
    cluster: Cluster,
    *changes: Change,
    name: str = ORDERS,
    kind: int = TOPIC,
    validate_only: bool = False,
) -> tuple[Code, str | None]:
    configs = [
        {"name": config, "config_operation": operation, "value": value}
        for config, operation, value in changes
    ]
    message = request(
        "IncrementalAlterConfigs",
        resources=[resource(name, kind, configs)],
        validate_only=validate_only,
    )
    (result,) = ask(cluster, message, 1).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return Code(result.error_code), result.error_message


def replace(cluster: Cluster, configs: Mapping[str, str], name: str = ORDERS) -> Code:
    wanted = [{"name": config, "value": value} for config, value in configs.items()]
    message = request(
        "AlterConfigs", resources=[resource(name, TOPIC, wanted)], validate_only=False
    )
    (result,) = ask(cluster, message, 2).responses
    return Code(result.error_code)


def configs_of(cluster: Cluster) -> dict[str, str]:
    topic = cluster.topics.get(ORDERS)
    assert topic is not None
    return topic.configs


DONE = (Code.NONE, None)


def test_a_config_is_set_and_taken_back_and_the_log_heeds_it_at_once() -> None:
    cluster = a_cluster()

    assert change(cluster, ("retention.ms", SET, " 5000 ")) == DONE
    assert configs_of(cluster) == {"retention.ms": "5000"}
    assert partition_of(cluster).log.config.retention_ms == 5000

    assert change(cluster, ("retention.ms", DELETE, None)) == DONE
    assert configs_of(cluster) == {}
    assert partition_of(cluster).log.config.retention_ms > 5000


def test_what_was_set_outlives_a_restart() -> None:
    journal = Journal()
    change(a_cluster(journal=journal), ("retention.ms", SET, "5000"))

    restarted = a_cluster(kept=journal.values())

    assert configs_of(restarted) == {"retention.ms": "5000"}
    assert partition_of(restarted).log.config.retention_ms == 5000


def test_items_are_added_to_lists_and_taken_away() -> None:
    cluster = a_cluster()

    for operation, item, left in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
    ):
        assert change(cluster, ("cleanup.policy", operation, item)) == DONE
        assert configs_of(cluster) == {"cleanup.policy": left}


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ([("nonsense", SET, "1")], Code.INVALID_CONFIG, "Unknown topic config name: nonsense"),
        ([("nonsense", DELETE, None)], Code.NONE, None),
        (
            [("retention.ms", SET, "x")],
            Code.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            [("retention.ms", SET, None)],
            Code.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
            Code.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            [("retention.ms", APPEND, "5")],
            Code.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        ([("retention.ms", 9, "5")], Code.UNKNOWN_SERVER_ERROR, None),
        (
            [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
            Code.INVALID_CONFIG,
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
    ],
)
def test_bad_changes_are_refused_and_change_nothing(
    changes: list[Change], code: Code, text: str | None
) -> None:
    cluster = a_cluster()

    assert change(cluster, *changes) == (code, text)

    assert configs_of(cluster) == {}


def test_a_change_that_is_only_tried_changes_nothing() -> None:
    cluster = a_cluster()

    assert change(cluster, ("segment.ms", SET, "1000"), validate_only=True) == DONE
    assert change(cluster, ("segment.ms", SET, "0"), validate_only=True)[0] is Code.INVALID_CONFIG

    assert configs_of(cluster) == {}


def test_the_topic_must_be_there_and_named_once() -> None:
    cluster = a_cluster()
    twice = [resource(ORDERS, TOPIC, []), resource(ORDERS, TOPIC, [])]

    missing = change(cluster, ("segment.ms", SET, "1"), name="nope")
    nameless = change(cluster, ("segment.ms", SET, "1"), name="")
    message = request("IncrementalAlterConfigs", resources=twice, validate_only=False)
    doubled = ask(cluster, message, 1).responses

    assert missing == (Code.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist.")
    assert nameless == (Code.INVALID_REQUEST, "Default topic resources are not allowed.")
    assert [one.error_code for one in doubled] == [Code.INVALID_REQUEST] * 2


def test_alter_configs_replaces_all_that_was_set() -> None:
    cluster = a_cluster()
    change(cluster, ("retention.ms", SET, "5000"))

    assert replace(cluster, {"segment.ms": "7000"}) is Code.NONE
    assert configs_of(cluster) == {"segment.ms": "7000"}

    assert replace(cluster, {"nonsense": "1"}) is Code.INVALID_CONFIG
    assert replace(cluster, {}) is Code.NONE
    assert configs_of(cluster) == {}


def test_configs_of_brokers_are_set_at_their_start_only() -> None:
    cluster = a_cluster()

    assert change(cluster, ("num.partitions", SET, "3"), name="1", kind=BROKER) == (
        Code.INVALID_REQUEST,
        "Cannot update these configs dynamically: [num.partitions]",
    )
    assert (
        change(cluster, ("leader.replication.throttled.rate", DELETE, None), name="1", kind=BROKER)
        == DONE
    )
    assert change(cluster, name="7", kind=BROKER) == (
        Code.INVALID_REQUEST,
        "Unexpected broker id, expected 1, but received 7",
    )
    assert change(cluster, name="x", kind=BROKER)[0] is Code.INVALID_REQUEST
    assert change(cluster, name="g", kind=GROUP)[0] is Code.INVALID_REQUEST
    assert change(cluster, name="g", kind=77) == (
        Code.INVALID_REQUEST,
        "Unknown resource type 77",
    )


def test_who_has_configs_is_listed() -> None:
    cluster = a_cluster(topics={"b": 1, "a": 1})

    def listed(version: int, *kinds: int) -> tuple[Code, list[tuple[int, str]]]:
        fields = {"resource_types": list(kinds)} if version else {}
        answer = ask(cluster, request("ListConfigResources", **fields), version)
        found = [(one.resource_type, one.resource_name) for one in answer.config_resources]
        return Code(answer.error_code), found

    topics = [(TOPIC, "a"), (TOPIC, "b")]
    brokers = [(BROKER, str(node)) for node in (1, 2, 3)]
    loggers = [(LOGGER, str(node)) for node in (1, 2, 3)]
    assert listed(1, TOPIC) == (Code.NONE, topics)
    assert listed(1, METRICS, GROUP, BROKER) == (Code.NONE, brokers)
    assert listed(1) == (Code.NONE, loggers + brokers + topics)
    assert listed(1, 99) == (Code.UNSUPPORTED_VERSION, [])
    assert listed(0) == (Code.NONE, [])
