"""What the cluster says of itself."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from aktor.broker.call import Call
from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code
from aktor.broker.wire import APIS
from tests.kafka.recorded.messages import request
from tests.unit.broker.builders import ORDERS, a_cluster, ask, partition_of, pass_time, write
from tests.unit.broker.harness import NOW


def metadata(
    cluster: Cluster,
    *names: str,
    every: bool = False,
    create: bool = False,
    version: int = 12,
    node: int = 1,
) -> Any:
    message = request(
        "Metadata",
        topics=None if every else [{"name": name} for name in names],
        allow_auto_topic_creation=create,
    )
    return ask(cluster, message, version, node)


def codes(answer: Any) -> dict[str, Code]:
    return {topic.name: Code(topic.error_code) for topic in answer.topics}


# Metadata.


def test_brokers_are_told_with_their_places_and_racks() -> None:
    cluster = a_cluster(racks=["a", "b", "c"])

    answer = metadata(cluster)

    assert [(one.node_id, one.host, one.port, one.rack) for one in answer.brokers] == [
        (1, "host-1", 9001, "a"),
        (2, "host-2", 9002, "b"),
        (3, "host-3", 9003, "c"),
    ]
    assert (answer.cluster_id, answer.controller_id) == (cluster.topology.cluster_id, 1)
    assert answer.topics == []


@pytest.mark.parametrize("version", range(14))
def test_every_version_tells_all_topics_and_single_ones(version: int) -> None:
    cluster = a_cluster(topics={"a": 1, "b": 2})

    every = metadata(cluster, every=version > 0, version=version)
    single = metadata(cluster, "b", version=version)

    assert codes(every) == {"a": Code.NONE, "b": Code.NONE}
    assert [len(topic.partitions) for topic in single.topics] == [2]


def test_no_topics_are_told_to_who_asks_for_none() -> None:
    assert metadata(a_cluster()).topics == []


def test_brokers_that_are_down_are_left_out_and_their_replicas_are_offline() -> None:
    cluster = a_cluster()
    cluster.broker_down(1, NOW)

    answer = metadata(cluster, ORDERS, node=2)

    assert [one.node_id for one in answer.brokers] == [2, 3]
    assert answer.controller_id == 2
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 2, 1)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1, 2, 3], [2, 3])
    assert partition.offline_replicas == [1]


def test_a_partition_that_nobody_leads_is_told_so() -> None:
    cluster = a_cluster(brokers=2)
    cluster.hold_replica(ORDERS, 0, 2)
    write(cluster, b"a", acks=1)
    pass_time(cluster, 31.0)
    cluster.broker_down(1, cluster.now)

    (partition,) = metadata(cluster, ORDERS, node=2).topics[0].partitions

    assert partition.error_code == Code.LEADER_NOT_AVAILABLE
    assert (partition.leader_id, partition.isr_nodes) == (-1, [1])


def test_a_topic_that_is_asked_for_is_made_and_is_there_the_next_time() -> None:
    cluster = a_cluster(partitions=4)

    first = metadata(cluster, "bills", create=True)
    second = metadata(cluster, "bills", create=True)

    assert codes(first) == {"bills": Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert codes(second) == {"bills": Code.NONE}
    assert cluster.topics.partitions("bills") == 4
    assert partition_of(cluster, "bills").replicas == (2, 3, 1)


def test_a_topic_is_not_made_unless_client_and_cluster_want_it() -> None:
    unwilling = a_cluster(auto_create_topics=False)
    willing = a_cluster()

    metadata(unwilling, "bills", create=True)
    metadata(willing, "bills", create=False)

    assert unwilling.topics.names() == willing.topics.names() == (ORDERS,)


def test_old_clients_cannot_say_that_they_want_no_topic_made() -> None:
    cluster = a_cluster()

    metadata(cluster, "bills", version=3)

    assert cluster.topics.names() == ("bills", ORDERS)


def test_kafkas_own_topics_are_made_as_kafka_needs_them() -> None:
    cluster = a_cluster(offsets_topic_partitions=7)

    metadata(cluster, "__consumer_offsets", create=True)

    topic = cluster.topics.get("__consumer_offsets")
    assert topic is not None
    assert (len(topic.partitions), topic.configs) == (7, {"cleanup.policy": "compact"})
    (told,) = metadata(cluster, "__consumer_offsets").topics
    assert told.is_internal


def test_a_name_that_cannot_be_is_refused() -> None:
    cluster = a_cluster()

    answer = metadata(cluster, "no good", ORDERS, create=True)

    assert codes(answer) == {"no good": Code.INVALID_TOPIC_EXCEPTION, ORDERS: Code.NONE}


def test_a_topic_that_cannot_be_made_does_not_hide_the_others() -> None:
    cluster = a_cluster(topics={}, replication_factor=4)
    cluster.create_topic(ORDERS, 1, 1)

    answer = metadata(cluster, "bills", ORDERS, create=True)

    assert codes(answer) == {"bills": Code.INVALID_REPLICATION_FACTOR, ORDERS: Code.NONE}


def test_topics_are_found_by_id() -> None:
    cluster = a_cluster()
    unknown = UUID(int=9)
    message = request(
        "Metadata",
        topics=[
            {"name": None, "topic_id": cluster.topics.topic_id(ORDERS)},
            {"name": None, "topic_id": unknown},
        ],
    )

    found, missing = ask(cluster, message, 12).topics

    assert (found.name, found.error_code) == (ORDERS, Code.NONE)
    assert (missing.name, missing.topic_id) == (None, unknown)
    assert missing.error_code == Code.UNKNOWN_TOPIC_ID


def test_what_a_client_may_do_is_told_only_if_asked() -> None:
    cluster = a_cluster()
    message = request(
        "Metadata", topics=[{"name": ORDERS}], include_topic_authorized_operations=True
    )

    assert ask(cluster, message, 12).topics[0].authorized_operations
    assert not metadata(cluster, ORDERS).topics[0].authorized_operations


# DescribeTopicPartitions.


def described(cluster: Cluster, *names: str, limit: int = 2000, cursor: Any = None) -> Any:
    message = request(
        "DescribeTopicPartitions",
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    return ask(cluster, message, 0)


def test_partitions_are_described_a_page_at_a_time() -> None:
    cluster = a_cluster(topics={"a": 3, "b": 2, "c": 1})
    seen, cursor = [], None

    for _ in range(10):
        page = described(cluster, limit=2, cursor=cursor)
        seen += [
            (topic.name, one.partition_index) for topic in page.topics for one in topic.partitions
        ]
        if page.next_cursor is None:
            break
        cursor = {
            "topic_name": page.next_cursor.topic_name,
            "partition_index": page.next_cursor.partition_index,
        }

    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


def test_topics_that_are_not_there_are_described_as_missing() -> None:
    answer = described(a_cluster(), "bills", "no good", ORDERS)

    assert codes(answer) == {
        "bills": Code.UNKNOWN_TOPIC_OR_PARTITION,
        "no good": Code.INVALID_TOPIC_EXCEPTION,
        ORDERS: Code.NONE,
    }


def test_a_cursor_before_the_first_partition_is_refused() -> None:
    cursor = {"topic_name": ORDERS, "partition_index": -1}

    answer = described(a_cluster(), ORDERS, cursor=cursor)

    assert codes(answer) == {ORDERS: Code.INVALID_REQUEST}


# The cluster, versions.


def test_the_cluster_is_described() -> None:
    cluster = a_cluster()
    cluster.broker_down(1, NOW)

    answer = ask(cluster, request("DescribeCluster", endpoint_type=1), 1, 2)

    assert (answer.error_code, answer.cluster_id) == (Code.NONE, cluster.topology.cluster_id)
    assert (answer.controller_id, [one.broker_id for one in answer.brokers]) == (2, [2, 3])


@pytest.mark.parametrize(
    ("kind", "code"), [(2, Code.MISMATCHED_ENDPOINT_TYPE), (3, Code.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_brokers_do_not_speak_for_controllers(kind: int, code: Code) -> None:
    answer = ask(a_cluster(), request("DescribeCluster", endpoint_type=kind), 1)

    assert answer.error_code == code


@pytest.mark.parametrize("version", range(5))
def test_what_is_spoken_is_told(version: int) -> None:
    message = request(
        "ApiVersions", client_software_name="aktor", client_software_version="1.0-rc.1"
    )

    answer = ask(a_cluster(), message, version)

    assert {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys} == {
        key: (api.min_version, api.max_version) for key, api in APIS.items()
    }


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "ä"])
def test_a_client_must_have_a_sound_name(name: str) -> None:
    answers: list[Any] = []
    message = request("ApiVersions", client_software_name=name, client_software_version="1")

    a_cluster().receive(Call(message, answer=answers.append, version=3, now=NOW), "ApiVersions")

    assert [one.error_code for one in answers] == [Code.INVALID_REQUEST]


def test_who_asks_in_an_unknown_version_is_told_which_there_are() -> None:
    answers: list[Any] = []

    a_cluster().receive(Call(None, answer=answers.append, version=0, now=NOW), "ApiVersions")

    (answer,) = answers
    assert answer.error_code == Code.UNSUPPORTED_VERSION
    assert [one.api_key for one in answer.api_keys] == [18]


# Coordinators.


def coordinators(cluster: Cluster, *keys: str, kind: int = 0, node: int = 1) -> Any:
    message = request("FindCoordinator", key_type=kind, coordinator_keys=list(keys))
    return ask(cluster, message, 5, node).coordinators


def test_everybody_names_the_same_coordinator() -> None:
    cluster = a_cluster()

    told = {coordinators(cluster, "g", node=node)[0].node_id for node in (1, 2, 3)}

    (coordinator,) = told
    found = coordinators(cluster, "g")[0]
    assert (found.host, found.port) == (f"host-{coordinator}", 9000 + coordinator)


def test_each_key_has_a_coordinator_of_its_own() -> None:
    found = coordinators(a_cluster(), *(f"group-{number}" for number in range(20)))

    assert {one.node_id for one in found} == {1, 2, 3}
    assert [one.key for one in found] == [f"group-{number}" for number in range(20)]


@pytest.mark.parametrize("version", range(4))
def test_old_versions_ask_for_one(version: int) -> None:
    cluster = a_cluster()
    expected = coordinators(cluster, "g")[0].node_id

    answer = ask(cluster, request("FindCoordinator", key="g"), version)

    assert (answer.error_code, answer.node_id) == (Code.NONE, expected)


@pytest.mark.parametrize("kind", [0, 1])
def test_the_coordinator_moves_when_its_broker_goes_down_and_stays_there(kind: int) -> None:
    cluster = a_cluster()
    before = coordinators(cluster, "k", kind=kind)[0].node_id
    other = before % 3 + 1

    cluster.broker_down(before, NOW)
    after = coordinators(cluster, "k", kind=kind, node=other)[0].node_id
    cluster.broker_up(before, NOW)

    assert after != before
    assert coordinators(cluster, "k", kind=kind)[0].node_id == after


def test_where_nobody_coordinates_that_is_said() -> None:
    cluster = a_cluster(brokers=2, topics={}, replication_factor=1)
    names = [f"group-{number}" for number in range(10)]
    before = {one.key: one.node_id for one in coordinators(cluster, *names)}

    cluster.broker_down(2, NOW)

    for one in coordinators(cluster, *names):
        expected = Code.NONE if before[one.key] == 1 else Code.COORDINATOR_NOT_AVAILABLE
        assert one.error_code == expected
        assert one.node_id == (1 if before[one.key] == 1 else -1)


@pytest.mark.parametrize("kind", [2, 3, -1])
def test_other_coordinators_there_are_none(kind: int) -> None:
    assert coordinators(a_cluster(), "k", kind=kind)[0].error_code == Code.INVALID_REQUEST
