"""Record batches into the logs, answered when enough replicas have them."""

from __future__ import annotations

import pytest

from aktor.broker.call import CLOSE
from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code
from tests.kafka.recorded.messages import request
from tests.unit.broker.builders import (
    ORDERS,
    a_cluster,
    partition_of,
    pass_time,
    produce,
    produced,
    send,
    write,
)
from tests.unit.broker.harness import NOW, Asked
from tests.unit.broker.log.building import a_batch, values

PRODUCE_VERSIONS = range(3, 14)


def code_of(asked: Asked) -> Code:
    return Code(produced(asked).error_code)


def log_of(cluster: Cluster) -> list[bytes | None]:
    return values(partition_of(cluster).log)


def held(cluster: Cluster, *nodes: int) -> Cluster:
    for node in nodes or (2,):
        cluster.hold_replica(ORDERS, 0, node)
    return cluster


# At once.


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_a_batch_is_appended_and_its_offset_told(version: int, acks: int) -> None:
    cluster = a_cluster()
    write(cluster, b"first")

    answer = produced(produce(cluster, b"a", b"b", acks=acks, version=version))

    assert (answer.error_code, answer.index, answer.base_offset) == (Code.NONE, 0, 1)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert log_of(cluster) == [b"first", b"a", b"b"]


def test_with_acks_0_nothing_is_answered() -> None:
    cluster = a_cluster()

    assert produce(cluster, b"a", acks=0).answer is None

    assert log_of(cluster) == [b"a"]


def test_with_acks_0_an_error_closes_the_connection() -> None:
    cluster = a_cluster()

    assert produce(cluster, b"a", acks=0, node=2).answer is CLOSE
    assert produce(cluster, acks=0, records=b"garbage").answer is CLOSE


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_other_acks_are_refused(acks: int) -> None:
    cluster = a_cluster()

    assert code_of(produce(cluster, b"a", acks=acks)) is Code.INVALID_REQUIRED_ACKS
    assert log_of(cluster) == []


def test_what_is_not_there_is_refused_and_not_made() -> None:
    cluster = a_cluster()

    wrong_topic = produce(cluster, b"a", topic="bills", node=1)
    wrong_partition = produce(cluster, b"a", partition=7, node=1)
    wrong_id = produce(cluster, b"a", topic="bills", node=1, version=13)

    assert code_of(wrong_topic) is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(wrong_partition) is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(wrong_id) is Code.UNKNOWN_TOPIC_ID
    assert cluster.topics.names() == (ORDERS,)


def test_nobody_writes_to_kafkas_own_topics() -> None:
    cluster = a_cluster(topics={"__consumer_offsets": 1})

    asked = produce(cluster, b"a", topic="__consumer_offsets")

    assert code_of(asked) is Code.INVALID_TOPIC_EXCEPTION


def test_each_partition_is_answered_on_its_own() -> None:
    cluster = a_cluster(topics={ORDERS: 2})
    message = request(
        "Produce",
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            {
                "name": ORDERS,
                "partition_data": [
                    {"index": 0, "records": a_batch(b"a")},
                    {"index": 1, "records": a_batch(b"b")},
                    {"index": 2, "records": a_batch(b"c")},
                ],
            }
        ],
    )

    (topic,) = send(cluster, message, 9, node=1).answer.responses

    assert [(one.index, Code(one.error_code)) for one in topic.partition_responses] == [
        (0, Code.NONE),
        (1, Code.NOT_LEADER_OR_FOLLOWER),
        (2, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_who_asks_another_broker_than_the_leader_is_told_whom_to_ask() -> None:
    cluster = a_cluster()

    asked = produce(cluster, b"a", node=3, version=10)

    leader = produced(asked).current_leader
    assert code_of(asked) is Code.NOT_LEADER_OR_FOLLOWER
    assert (leader.leader_id, leader.leader_epoch) == (1, 0)
    (endpoint,) = asked.answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, "host-1", 9001)


def test_where_nobody_leads_nobody_is_named() -> None:
    cluster = a_cluster(brokers=2)
    held(cluster)
    write(cluster, b"a", acks=1)
    pass_time(cluster, 31.0)
    cluster.broker_down(1, cluster.now)

    asked = produce(cluster, b"a", node=2)

    assert code_of(asked) is Code.NOT_LEADER_OR_FOLLOWER
    assert produced(asked).current_leader.leader_id == -1
    assert not asked.answer.node_endpoints


# acks=all.


def test_acks_all_waits_for_the_follower_that_is_held() -> None:
    cluster = held(a_cluster())
    asked = produce(cluster, b"a")
    assert asked.waits

    cluster.release_replica(ORDERS, 0, 2)

    assert (code_of(asked), produced(asked).base_offset) == (Code.NONE, 0)


def test_acks_1_waits_for_nobody() -> None:
    cluster = held(a_cluster())

    assert code_of(produce(cluster, b"a", acks=1)) is Code.NONE


def test_acks_all_waits_no_longer_than_its_timeout() -> None:
    cluster = held(a_cluster())
    asked = produce(cluster, b"a", timeout=5.0)

    pass_time(cluster, 4.9)
    assert asked.waits

    pass_time(cluster, 0.1)
    assert code_of(asked) is Code.REQUEST_TIMED_OUT
    assert partition_of(cluster).log.end_offset == 1


def test_acks_all_goes_on_when_the_laggard_is_out_of_sync() -> None:
    cluster = held(a_cluster(replica_lag_max=10.0))
    asked = produce(cluster, b"a")

    pass_time(cluster, 9.9)
    assert asked.waits

    pass_time(cluster, 0.1)
    assert code_of(asked) is Code.NONE
    assert partition_of(cluster).isr == [1, 3]


def test_acks_all_goes_on_when_the_laggard_goes_down() -> None:
    cluster = held(a_cluster())
    asked = produce(cluster, b"a")

    cluster.broker_down(2, NOW)

    assert code_of(asked) is Code.NONE


def test_acks_all_needs_as_many_in_sync_as_the_topic_says() -> None:
    cluster = a_cluster(min_insync_replicas=2)
    cluster.broker_down(2, NOW)
    assert code_of(produce(cluster, b"a")) is Code.NONE

    cluster.broker_down(3, NOW)
    asked = produce(cluster, b"b")

    assert code_of(asked) is Code.NOT_ENOUGH_REPLICAS
    assert produced(asked).base_offset == -1
    assert log_of(cluster) == [b"a"]


def test_acks_1_is_taken_with_too_few_in_sync_but_nobody_reads_it_before_there_are_enough() -> None:
    cluster = a_cluster(min_insync_replicas=2)
    cluster.broker_down(2, NOW)
    cluster.broker_down(3, NOW)

    assert code_of(produce(cluster, b"a", acks=1)) is Code.NONE
    assert log_of(cluster) == []

    cluster.broker_up(3, NOW)
    assert log_of(cluster) == [b"a"]


def test_who_waits_while_too_few_stay_in_sync_waits_for_them() -> None:
    cluster = held(a_cluster(min_insync_replicas=2, replica_lag_max=10.0), 2, 3)
    asked = produce(cluster, b"a", timeout=60.0)

    pass_time(cluster, 20.0)
    assert partition_of(cluster).isr == [1]
    assert asked.waits

    cluster.release_replica(ORDERS, 0, 3)
    assert code_of(asked) is Code.NONE


def test_a_topic_may_ask_for_more_than_the_cluster() -> None:
    cluster = a_cluster(topics={})
    cluster.create_topic(ORDERS, 1, 3, {"min.insync.replicas": "3"})
    cluster.broker_down(3, NOW)

    assert code_of(produce(cluster, b"a")) is Code.NOT_ENOUGH_REPLICAS


def test_one_replica_is_enough_where_there_is_but_one() -> None:
    cluster = a_cluster(brokers=1, min_insync_replicas=2)

    assert code_of(produce(cluster, b"a")) is Code.NONE


def test_who_waits_is_told_at_once_that_the_leader_moved_and_where_to() -> None:
    cluster = held(a_cluster(), 3)
    asked = produce(cluster, b"lost?", timeout=500.0, version=10)

    cluster.move_leader(ORDERS, 0, 2, NOW)

    assert code_of(asked) is Code.NOT_LEADER_OR_FOLLOWER
    leader = produced(asked).current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 1)
    assert [one.node_id for one in asked.answer.node_endpoints] == [2]


def test_who_waits_is_told_at_once_that_the_topic_is_deleted() -> None:
    cluster = held(a_cluster())
    asked = produce(cluster, b"a", timeout=500.0)
    topic = cluster.topics.get(ORDERS)
    assert topic is not None

    cluster.delete_topic(topic, NOW)

    assert code_of(asked) is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_who_waits_at_a_broker_that_goes_down_is_never_answered() -> None:
    cluster = held(a_cluster())
    asked = produce(cluster, b"a", timeout=5.0)

    cluster.broker_down(1, NOW)
    pass_time(cluster, 10.0)

    assert asked.waits


def test_who_waits_for_several_partitions_is_answered_when_all_have_it() -> None:
    cluster = a_cluster(brokers=2, topics={ORDERS: 2})
    cluster.move_leader(ORDERS, 1, 1, NOW)
    cluster.hold_replica(ORDERS, 0, 2)
    cluster.hold_replica(ORDERS, 1, 2)
    data = [{"index": index, "records": a_batch(b"a")} for index in (0, 1)]
    message = request(
        "Produce",
        acks=-1,
        timeout_ms=60_000,
        topic_data=[{"name": ORDERS, "partition_data": data}],
    )
    asked = send(cluster, message, 9)

    cluster.release_replica(ORDERS, 0, 2)
    assert asked.waits

    cluster.release_replica(ORDERS, 1, 2)
    assert [one.error_code for one in asked.answer.responses[0].partition_responses] == [0, 0]


def test_of_several_partitions_only_the_late_ones_time_out() -> None:
    cluster = a_cluster(brokers=2, topics={ORDERS: 2})
    cluster.move_leader(ORDERS, 1, 1, NOW)
    cluster.hold_replica(ORDERS, 0, 2)
    data = [{"index": index, "records": a_batch(b"a")} for index in (0, 1)]
    message = request(
        "Produce", acks=-1, timeout_ms=1000, topic_data=[{"name": ORDERS, "partition_data": data}]
    )
    asked = send(cluster, message, 9)

    pass_time(cluster, 1.0)

    codes = [Code(one.error_code) for one in asked.answer.responses[0].partition_responses]
    assert codes == [Code.REQUEST_TIMED_OUT, Code.NONE]


# Idempotence.


def idempotent(sequence: int, *values: bytes) -> bytes:
    return a_batch(*values, producer_id=9, producer_epoch=0, base_sequence=sequence)


def test_a_batch_that_is_sent_again_is_written_once() -> None:
    cluster = a_cluster()

    first = produced(produce(cluster, records=idempotent(0, b"a", b"b")))
    again = produced(produce(cluster, records=idempotent(0, b"a", b"b")))

    assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, Code.NONE)
    assert log_of(cluster) == [b"a", b"b"]


def test_a_batch_that_is_sent_again_waits_for_the_replicas_as_the_first_did() -> None:
    cluster = held(a_cluster())
    produce(cluster, records=idempotent(0, b"a"), timeout=1.0)
    pass_time(cluster, 2.0)

    again = produce(cluster, records=idempotent(0, b"a"))
    assert again.waits

    cluster.release_replica(ORDERS, 0, 2)
    assert produced(again).base_offset == 0


def test_a_batch_that_was_lost_with_the_leader_can_be_sent_again() -> None:
    cluster = held(a_cluster(), 2, 3)
    produce(cluster, records=idempotent(0, b"a"))
    cluster.broker_down(1, NOW)
    cluster.release_replica(ORDERS, 0, 3)
    assert partition_of(cluster).log.end_offset == 0

    answer = produced(produce(cluster, records=idempotent(0, b"a")))

    assert (answer.error_code, answer.base_offset) == (Code.NONE, 0)
