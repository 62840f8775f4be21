"""Where a time, or a leader's epoch, is in a log."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code
from tests.kafka.recorded.messages import request
from tests.unit.broker.builders import (
    ORDERS,
    a_cluster,
    ask,
    list_offset,
    partition_of,
    produce,
    write,
)
from tests.unit.broker.harness import NOW
from tests.unit.broker.log.building import NOW_MS, a_batch, in_transaction

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4


def with_times(*offsets: int) -> Cluster:
    """One record for each, so many milliseconds after `NOW_MS`."""
    cluster = a_cluster()
    for one in offsets:
        assert not produce(cluster, records=a_batch(b"v", timestamp=NOW_MS + one)).waits
    return cluster


def place(answer: Any) -> tuple[int, int, int]:
    assert answer.error_code == Code.NONE, Code(answer.error_code)
    return answer.offset, answer.timestamp, answer.leader_epoch


def test_the_ends_of_a_log() -> None:
    cluster = with_times(0, 10, 20)
    partition_of(cluster).log.delete_before(1)

    assert place(list_offset(cluster, LATEST)) == (3, -1, 0)
    assert place(list_offset(cluster, EARLIEST)) == (1, -1, 0)
    assert place(list_offset(cluster, EARLIEST_LOCAL)) == (1, -1, 0)


def test_the_first_record_of_a_time_or_later() -> None:
    cluster = with_times(0, 10, 20)

    assert place(list_offset(cluster, NOW_MS + 5)) == (1, NOW_MS + 10, 0)
    assert place(list_offset(cluster, NOW_MS + 10)) == (1, NOW_MS + 10, 0)
    assert place(list_offset(cluster, NOW_MS + 21)) == (-1, -1, -1)


def test_the_record_with_the_greatest_time() -> None:
    assert place(list_offset(with_times(0, 20, 10), MAX_TIMESTAMP)) == (1, NOW_MS + 20, 0)
    assert place(list_offset(a_cluster(), MAX_TIMESTAMP)) == (-1, -1, -1)


@pytest.mark.parametrize("timestamp", [MAX_TIMESTAMP, NOW_MS])
def test_what_is_not_replicated_is_not_found(timestamp: int) -> None:
    cluster = a_cluster()
    cluster.hold_replica(ORDERS, 0, 2)
    write(cluster, b"a", acks=1)

    assert place(list_offset(cluster, LATEST)) == (0, -1, 0)
    assert place(list_offset(cluster, timestamp)) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "version"), [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (-5, 8), (-7, 10)]
)
def test_a_name_that_the_version_does_not_know_is_refused(timestamp: int, version: int) -> None:
    answer = list_offset(a_cluster(), timestamp, version=version)

    assert answer.error_code == Code.UNSUPPORTED_VERSION


def test_read_committed_ends_before_an_open_transaction() -> None:
    cluster = a_cluster()
    write(cluster, b"a")
    partition_of(cluster).append(in_transaction(5, 0, b"open"), now=NOW, api_version=12)

    def end(level: int) -> Any:
        message = request(
            "ListOffsets",
            isolation_level=level,
            topics=[{"name": ORDERS, "partitions": [{"partition_index": 0, "timestamp": LATEST}]}],
        )
        return ask(cluster, message, 9).topics[0].partitions[0].offset

    assert (end(0), end(1)) == (2, 1)


@pytest.mark.parametrize(
    ("version", "code"), [(4, Code.LEADER_NOT_AVAILABLE), (5, Code.OFFSET_NOT_AVAILABLE)]
)
def test_a_new_leader_does_not_know_the_end_before_the_followers_have_what_it_began_with(
    version: int, code: Code
) -> None:
    cluster = a_cluster()
    cluster.hold_replica(ORDERS, 0, 3)
    write(cluster, b"a", acks=1)
    cluster.move_leader(ORDERS, 0, 2, NOW)

    assert list_offset(cluster, LATEST, version=version).error_code == code
    assert list_offset(cluster, NOW_MS, version=version).error_code == code
    assert list_offset(cluster, EARLIEST, version=version).error_code == Code.NONE

    cluster.release_replica(ORDERS, 0, 3)
    assert place(list_offset(cluster, LATEST)) == (1, -1, 1)


def test_only_the_leader_is_asked() -> None:
    cluster = a_cluster()

    assert list_offset(cluster, node=2).error_code == Code.NOT_LEADER_OR_FOLLOWER


def test_a_partition_that_is_asked_for_twice_is_refused_once() -> None:
    message = request(
        "ListOffsets",
        topics=[
            {
                "name": ORDERS,
                "partitions": [
                    {"partition_index": 0, "timestamp": LATEST},
                    {"partition_index": 0, "timestamp": EARLIEST},
                ],
            }
        ],
    )

    (partition,) = ask(a_cluster(), message, 9).topics[0].partitions

    assert partition.error_code == Code.INVALID_REQUEST


# Epochs.


def epoch_end(cluster: Cluster, epoch: int, *, current: int = -1, node: int | None = None) -> Any:
    to = partition_of(cluster).leader if node is None else node
    message = request(
        "OffsetForLeaderEpoch",
        replica_id=-1,
        topics=[
            {
                "topic": ORDERS,
                "partitions": [
                    {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
                ],
            }
        ],
    )
    return ask(cluster, message, 4, to).topics[0].partitions[0]


def test_each_epoch_ends_where_the_next_begins_and_the_last_at_the_end() -> None:
    cluster = a_cluster()
    write(cluster, b"a", b"b")
    cluster.move_leader(ORDERS, 0, 2, NOW)
    write(cluster, b"c")

    ends = [epoch_end(cluster, epoch) for epoch in (0, 1, 2)]

    assert [(one.leader_epoch, one.end_offset) for one in ends] == [(0, 2), (1, 3), (-1, -1)]


def test_an_epoch_in_which_nothing_was_written_ends_where_it_began() -> None:
    cluster = a_cluster()
    write(cluster, b"a")
    for to in (2, 3, 1):
        cluster.move_leader(ORDERS, 0, to, NOW)

    answer = epoch_end(cluster, 3)

    assert (answer.leader_epoch, answer.end_offset) == (3, 1)


@pytest.mark.parametrize(
    ("current", "code"),
    [(0, Code.FENCED_LEADER_EPOCH), (1, Code.NONE), (2, Code.UNKNOWN_LEADER_EPOCH)],
)
def test_the_epoch_that_the_client_knows_must_be_the_right_one(current: int, code: Code) -> None:
    cluster = a_cluster()
    cluster.move_leader(ORDERS, 0, 1, NOW)

    assert epoch_end(cluster, 0, current=current).error_code == code


def test_only_the_leader_knows_where_epochs_end() -> None:
    assert epoch_end(a_cluster(), 0, node=2).error_code == Code.NOT_LEADER_OR_FOLLOWER


# Producers.


def test_who_writes_to_a_partition_is_told() -> None:
    cluster = a_cluster()
    partition_of(cluster).append(in_transaction(5, 3, b"open"), now=NOW, api_version=12)
    message = request("DescribeProducers", topics=[{"name": ORDERS, "partition_indexes": [0, 4]}])

    known, unknown = ask(cluster, message, 0).topics[0].partitions

    (producer,) = known.active_producers
    assert (producer.producer_id, producer.last_sequence) == (5, 3)
    assert producer.current_txn_start_offset == 0
    assert unknown.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
