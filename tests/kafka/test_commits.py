"""Commits: where a group goes on, and when that is written down."""

from __future__ import annotations

import threading
import time
from typing import Any

import kafka as kafka_python
import pytest
from kafka.errors import (
    CommitFailedError,
    IllegalStateError,
    OffsetMetadataTooLargeError,
    UnknownTopicOrPartitionError,
)

from aktor import OffsetAndMetadata, TopicPartition
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import (
    SOON_S,
    Group,
    Notes,
    named,
    numbered,
    offsets,
    poll,
    poll_until,
    quick,
    raised_within,
    read,
    read_for,
    traced,
    values,
    wait_until,
)


@pytest.fixture
def orders(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic with ten records."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(10))
    return TopicPartition(topic, 0)


def at(offset: int, metadata: str = "") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, metadata, -1)


def committed(kafka: Cluster, group: str, partition: TopicPartition) -> int | None:
    """What somebody else sees."""
    other = kafka_python.KafkaConsumer(
        group_id=group, bootstrap_servers=kafka.bootstrap_servers, enable_auto_commit=False
    )
    try:
        found: int | None = other.committed(partition)
        return found
    finally:
        other.close()


def test_the_next_member_goes_on_exactly_where_the_last_one_committed(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group, max_poll_records=4) as first:
        assert values(read(first, 4)) == numbered(4)
        first.commit()
        read(first, 4)

    with quick(kafka, orders.topic, group_id=group) as second:
        assert values(read(second, 6)) == numbered(6, start=4)


def test_an_explicit_commit_of_offsets_is_what_others_see(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        read(consumer, 10)
        consumer.commit({orders: at(7)})

        assert consumer.committed(orders) == 7
        assert consumer.position(orders) == 10
        assert committed(kafka, group, orders) == 7


def test_nothing_is_committed_before_anybody_did(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        assert consumer.committed(orders) is None
        assert consumer.committed(orders, metadata=True) is None


def test_commit_metadata_comes_back_as_it_was_written(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        read(consumer, 10)
        consumer.commit({orders: at(3, "half done: ünïcode ✓")})

        found = consumer.committed(orders, metadata=True)
        assert isinstance(found, OffsetAndMetadata)
        assert (found.offset, found.metadata) == (3, "half done: ünïcode ✓")


def test_metadata_that_is_too_long_is_refused_by_name_and_the_consumer_goes_on(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        read(consumer, 10)

        with pytest.raises(OffsetMetadataTooLargeError):
            consumer.commit({orders: at(3, "x" * 5000)})

        consumer.commit({orders: at(4)})
        assert consumer.committed(orders) == 4


def test_callbacks_of_asynchronous_commits_run_in_order_on_the_application_thread(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    calls: list[tuple[int, Any, str]] = []

    def note(committed: Any, outcome: Any) -> None:
        calls.append((committed[orders].offset, outcome, threading.current_thread().name))

    with quick(kafka, orders.topic, group_id=group) as consumer:
        read(consumer, 10)
        futures = [consumer.commit_async({orders: at(n)}, note) for n in range(1, 8)]
        poll_until(consumer, lambda: len(calls) == 7, "all callbacks were called")

        assert [offset for offset, _, _ in calls] == list(range(1, 8))
        assert {thread for _, _, thread in calls} == {threading.current_thread().name}
        assert not any(isinstance(outcome, Exception) for _, outcome, _ in calls)
        assert all(future.succeeded() for future in futures)
        assert consumer.committed(orders) == 7


def test_the_future_of_an_asynchronous_commit_ends_without_any_further_call(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        read(consumer, 10)

        future = consumer.commit_async()
        wait_until(lambda: future.is_done, "the future ended")

        assert future.succeeded()
        assert committed(kafka, group, orders) == 10


def test_a_poll_that_waits_for_records_runs_the_callback_of_a_commit_at_once(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    # Nothing else may happen meanwhile that would end the wait.
    calm = {
        "fetch_max_wait_ms": 25_000,
        "heartbeat_interval_ms": 25_000,
        "session_timeout_ms": 60_000,
        "metadata_max_age_ms": 60_000,
    }

    with quick(kafka, orders.topic, group_id=group, **calm) as consumer:
        read(consumer, 10)
        # Had it to wait for the end of the poll, there would be no record for that poll.
        consumer.commit_async(
            None, lambda *_: topics.produce(kafka.bootstrap_servers, orders.topic, ["committed"])
        )

        assert values(poll(consumer, 20_000)) == [b"committed"]


def test_unsubscribing_finishes_the_commits_under_way_first(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 60_000}

    with quick(kafka, orders.topic, group_id=group, max_poll_records=4, **settings) as consumer:
        read(consumer, 4)
        consumer.commit_async({orders: at(1)})  # the last commit has to wait behind this one
        consumer.unsubscribe()
        wait_until(lambda: committed(kafka, group, orders) == 4, "the last commit is written")


def test_a_callback_that_raises_is_raised_from_poll_and_the_next_one_still_runs(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    calls: list[int] = []

    def refuse(_offsets: Any, _outcome: Any) -> None:
        raise RuntimeError("no")

    with quick(kafka, orders.topic, group_id=group) as consumer:
        read(consumer, 10)
        consumer.commit_async({orders: at(1)}, refuse)
        consumer.commit_async({orders: at(2)}, lambda *_: calls.append(2))

        error = raised_within(SOON_S, lambda: consumer.poll(20))
        poll_until(consumer, lambda: calls, "the second callback ran")

        assert "no" in f"{error!r} {error.__cause__!r}"


def test_commits_that_are_under_way_at_close_are_finished_and_their_callbacks_called(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    calls: list[Any] = []

    with quick(kafka, orders.topic, group_id=group) as consumer:
        read(consumer, 10)
        consumer.commit_async({orders: at(6)}, lambda _offsets, outcome: calls.append(outcome))

    assert len(calls) == 1
    assert not isinstance(calls[0], Exception)
    assert committed(kafka, group, orders) == 6


def test_auto_commit_writes_the_consumed_position_every_interval(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}

    with quick(kafka, orders.topic, group_id=group, max_poll_records=6, **settings) as consumer:
        read(consumer, 6)
        poll_until(
            consumer, lambda: committed(kafka, group, orders) == 10, "the position is committed"
        )


def test_auto_commit_never_covers_records_the_application_still_works_on(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}

    with quick(kafka, orders.topic, group_id=group, max_poll_records=4, **settings) as consumer:
        read(consumer, 4)
        # While these four are being worked on nothing may be committed: only a poll says "done".
        time.sleep(0.5)

        assert committed(kafka, group, orders) in (None, 0)


def test_auto_commit_at_close_writes_the_last_position_down(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 60_000}

    with quick(kafka, orders.topic, group_id=group, max_poll_records=7, **settings) as consumer:
        read(consumer, 7)
    assert committed(kafka, group, orders) == 7

    with quick(kafka, orders.topic, group_id=group, max_poll_records=2, **settings) as consumer:
        read(consumer, 2)
        consumer.close(autocommit=False)
    assert committed(kafka, group, orders) == 7


def test_a_block_left_by_an_exception_commits_nothing(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 60_000}

    def fail_halfway() -> None:
        with quick(kafka, orders.topic, group_id=group, **settings) as consumer:
            read(consumer, 10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()

    assert committed(kafka, group, orders) is None


def test_auto_commit_happens_before_partitions_go_to_somebody_else(
    kafka: Cluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
    for partition in (0, 1):
        topics.produce(kafka.bootstrap_servers, topic, numbered(5), partition=partition)
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 60_000}

    with Group(kafka, topic, group, **settings) as members:
        members.join("a")
        wait_until(lambda: len(members.seen) == 10, "all was read")
        members.join("b")
        members.settled(partitions=2, members=2)
        topics.produce(kafka.bootstrap_servers, topic, [b"new"], partition=0)
        topics.produce(kafka.bootstrap_servers, topic, [b"new"], partition=1)
        wait_until(lambda: len(members.seen) >= 12, "the new ones come")

        assert len(members.seen) == 12


def test_a_commit_inside_the_revoked_callback_is_where_the_next_owner_starts(
    kafka: Cluster, topic: str, group: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=2)
    for partition in (0, 1):
        topics.produce(kafka.bootstrap_servers, topic, numbered(10), partition=partition)

    with quick(kafka, group_id=group) as first, quick(kafka, topic, group_id=group) as second:
        notes = Notes(revoked=lambda gone: first.commit({one: at(7) for one in gone}))
        first.subscribe([topic], listener=notes)
        read(first, 20)
        deadline = time.monotonic() + SOON_S
        found: list[Any] = []
        while len(found) < 3:
            assert time.monotonic() < deadline, notes.told
            first.poll(20)
            found += [r for records in second.poll(20).values() for r in records]

        assert offsets(found) == [7, 8, 9]
        assert notes.told[1][0] == "revoked"


def test_positions_can_be_asked_and_all_be_committed_inside_the_revoked_callback(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    positions: list[Any] = []
    with quick(kafka, group_id=group, max_poll_records=4) as consumer:

        def revoked(gone: set[TopicPartition]) -> None:
            positions.extend(consumer.position(one) for one in gone)
            consumer.commit()

        consumer.subscribe([orders.topic], listener=Notes(revoked=revoked))
        read(consumer, 4)

    assert positions == [4]
    assert committed(kafka, group, orders) == 4


def test_manual_assignment_with_a_group_commits_and_resumes(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, group_id=group, max_poll_records=6) as consumer:
        consumer.assign([orders])
        read(consumer, 6)
        consumer.commit()

    with quick(kafka, group_id=group) as consumer:
        consumer.assign([orders])
        assert values(read(consumer, 4)) == numbered(4, start=6)


def test_manual_assignment_commits_by_itself_if_told(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}

    with quick(kafka, group_id=group, **settings) as consumer:
        consumer.assign([orders])
        read(consumer, 10)
        poll_until(consumer, lambda: consumer.committed(orders) == 10, "it is committed")


def test_a_consumer_without_a_group_reads_all_partitions_and_cannot_commit(
    kafka: Cluster, topic: str
) -> None:
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=3)
    for partition in range(3):
        topics.produce(kafka.bootstrap_servers, topic, [b"x"], partition=partition)

    with quick(kafka, topic) as one, quick(kafka, topic) as other:
        for consumer in (one, other):
            assert {record.partition for record in read(consumer, 3)} == {0, 1, 2}
            for call in (consumer.commit, consumer.commit_async):
                with pytest.raises(IllegalStateError):
                    call()
            with pytest.raises(IllegalStateError):
                consumer.committed(TopicPartition(topic, 0))


def test_a_commit_after_the_group_moved_on_fails_and_says_why(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with (
        quick(kafka, orders.topic, group_id=group, max_poll_interval_ms=700) as slow,
        quick(kafka, orders.topic, group_id=group) as other,
    ):
        read(slow, 10)
        poll_until(other, other.assignment, "the group gave the partition to somebody else")

        with pytest.raises(CommitFailedError, match="poll"):
            slow.commit()

        assert committed(kafka, group, orders) is None


def test_commits_of_a_steady_member_are_sent_once_each(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with traced() as events, quick(kafka, orders.topic, group_id=group) as consumer:
        read(consumer, 10)
        for offset in range(1, 6):
            consumer.commit({orders: at(offset)})
        read_for(consumer, 0.2)

    sent = [e for e in named(events, "request.sent") if e["api"] == "OffsetCommit"]
    assert len(sent) == 5
    assert not named(events, "commit.failed")


def test_offsets_of_the_wrong_kind_are_refused_before_anything_is_sent(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        wrong: list[Any] = [{orders.topic: at(1)}, {orders: 1}, {orders: (1, "")}]
        for offsets_ in wrong:
            with pytest.raises((TypeError, AttributeError)):
                consumer.commit(offsets_)


def test_a_negative_offset_is_refused(kafka: Cluster, orders: TopicPartition, group: str) -> None:
    with quick(kafka, orders.topic, group_id=group) as consumer:
        read(consumer, 10)
        with pytest.raises(ValueError, match=f"-5 of {orders.topic}-0"):
            consumer.commit({orders: at(-5)})
        consumer.commit({orders: at(5)})

        assert consumer.committed(orders) == 5


def test_what_is_added_to_the_future_of_a_commit_may_not_call_the_consumer(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    """It runs on the background thread, which would wait for itself."""
    with quick(kafka, orders.topic, group_id=group) as consumer:
        poll_until(consumer, consumer.assignment, "no assignment")
        met: list[tuple[threading.Thread, Exception | None]] = []

        def note(_value: Any) -> None:
            try:
                consumer.commit(timeout_ms=1000)
                met.append((threading.current_thread(), None))
            except Exception as error:
                met.append((threading.current_thread(), error))

        # The answer may be there before it is listened for: then this is the application thread.
        while not met or met[-1][0] is threading.current_thread():
            before = len(met)
            consumer.commit_async().add_callback(note)
            wait_until(lambda: len(met) > before, "no answer")  # noqa: B023  # called here
        error = met[-1][1]
        assert isinstance(error, IllegalStateError)
        assert "background thread" in str(error)
        consumer.commit()


@pytest.mark.parametrize("by", ["subscribe", "assign"])
def test_a_commit_and_a_close_do_not_wait_for_a_topic_that_was_deleted(
    kafka: Cluster, orders: TopicPartition, group: str, by: str
) -> None:
    """They waited for their whole time-outs: 30 s, and 22 s."""
    doomed = TopicPartition(f"{orders.topic}-doomed", 0)
    topics.create_topic(kafka.bootstrap_servers, doomed.topic)
    topics.produce(kafka.bootstrap_servers, doomed.topic, numbered(10))

    with quick(kafka, group_id=group, enable_auto_commit=True) as consumer:
        if by == "assign":
            consumer.assign([orders, doomed])
        else:
            consumer.subscribe([orders.topic, doomed.topic])
        read(consumer, 20)
        topics.delete_topic(kafka.bootstrap_servers, doomed.topic)
        with pytest.raises(UnknownTopicOrPartitionError, match=doomed.topic):
            consumer.commit({orders: at(7), doomed: at(7)})
        assert consumer.committed(orders) == 7
        began = time.monotonic()

    assert time.monotonic() - began < 10.0
    assert committed(kafka, group, orders) == 10
