"""Rebalances as the application sees them: which callback, when, on which thread, with what."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import (
    CommitFailedError,
    IllegalStateError,
    UnknownTopicOrPartitionError,
)

from aktor import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
    KafkaConsumer,
    TopicPartition,
)
from aktor.errors import ConsumerClosedError, UserCallbackError, WakeupError
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import (
    PROMPT_S,
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
    read_through,
    traced,
    values,
    wait_until,
)

#: Short, and longer than a machine that others share may stand still, with the brokers on it.
SESSION_S = 3.0
SESSION_MS = round(SESSION_S * 1000)

COOPERATIVE = {"partition_assignment_strategy": [CooperativeStickyAssignor]}


@pytest.fixture
def four(kafka: Cluster, topic: str) -> str:
    """A topic of four partitions with five records each."""
    topics.create_topic(kafka.bootstrap_servers, topic, partitions=4)
    with topics.producer(kafka.bootstrap_servers) as producer:
        for partition in range(4):
            for value in numbered(5):
                producer.send(topic, value=value, partition=partition)
    return topic


@contextmanager
def listened(
    kafka: Cluster, topic: str, group: str, listener: Any, **settings: Any
) -> Iterator[KafkaConsumer]:
    """A member with this listener, which owns everything it is given."""
    with quick(kafka, group_id=group, **settings) as consumer:
        consumer.subscribe([topic], listener=listener)
        yield consumer


def both_poll_until(one: Any, other: Any, happened: Any, within: float = SOON_S) -> None:
    """Let two members of this thread take turns."""
    deadline = time.monotonic() + within
    while not happened():
        assert time.monotonic() < deadline, "the group does not get there"
        one.poll(20)
        other.poll(20)


def test_nothing_waits_for_a_fetch_or_a_join_group_that_the_broker_keeps(
    kafka: Cluster, four: str, group: str
) -> None:
    partitions = [TopicPartition(four, one) for one in range(4)]

    def look(consumer: KafkaConsumer) -> None:
        began = time.monotonic()
        consumer.committed(partitions[0])
        consumer.end_offsets(partitions)
        assert time.monotonic() - began < PROMPT_S

    with quick(kafka, four, group_id=group, fetch_max_wait_ms=20_000) as first:
        read(first, 20)
        first.poll(500)
        look(first)
        with quick(kafka, four, group_id=group) as second:
            second.poll(500)  # its JoinGroup waits for that of the first, which does not poll
            assert not second.assignment()
            look(second)
            look(first)
            first.commit()
            assert first.committed(partitions[0]) == 5
        counted = first.metrics()["consumer-coordinator-metrics"]
        assert counted["heartbeat-response-time-max"] < PROMPT_S * 1000


def test_eager_members_give_everything_up_and_get_their_share_anew(
    kafka: Cluster, four: str, group: str
) -> None:
    notes = Notes()

    with listened(kafka, four, group, notes) as first:
        read(first, 20)
        with quick(kafka, four, group_id=group) as second:
            both_poll_until(
                first, second, lambda: len(first.assignment()) == len(second.assignment()) == 2
            )
            assert notes.told[:2] == [
                ("assigned", frozenset({0, 1, 2, 3})),
                ("revoked", frozenset({0, 1, 2, 3})),
            ]
            what, share = notes.told[2]
            assert (what, len(share)) == ("assigned", 2)


def test_cooperative_members_give_up_and_get_only_what_moves(
    kafka: Cluster, four: str, group: str
) -> None:
    notes = Notes()

    with listened(kafka, four, group, notes, **COOPERATIVE) as first:
        read(first, 20)
        with quick(kafka, four, group_id=group, **COOPERATIVE) as second:
            both_poll_until(first, second, lambda: len(second.assignment()) == 2)
            moved = [share for what, share in notes.told if what == "revoked" and share]
            gained = [share for what, share in notes.told if what == "assigned" and share]

            assert gained == [frozenset({0, 1, 2, 3})]
            assert len(moved) == 1
            assert len(moved[0]) == 2
            assert {one.partition for one in second.assignment()} == moved[0]


def test_a_rebalance_does_not_wait_for_a_topic_that_does_not_exist(
    kafka: Cluster, four: str, group: str
) -> None:
    """Each one took 1.5 s. The quickest is judged: a machine may stand still in some."""
    missing = f"{four}-missing"
    with traced() as events, quick(kafka, four, group_id=group) as first:
        for _ in range(3):
            with quick(kafka, four, missing, group_id=group) as second:

                def polled() -> bool:
                    with contextlib.suppress(UnknownTopicOrPartitionError):
                        second.poll(20)
                    with contextlib.suppress(UnknownTopicOrPartitionError):
                        first.poll(20)
                    return len(first.assignment()) == len(second.assignment()) == 2

                wait_until(polled, "the two share the partitions")

    took: list[float] = []
    for event in events:
        if event["event"] == "rebalance.joined" and event["leads"]:
            began = event["t"]
        elif event["event"] == "rebalance.assigned" and missing in event["missing"]:
            took.append(event["t"] - began)
    assert len(took) >= 3
    assert min(took) < 1.0, took


def test_callbacks_run_inside_poll_on_the_thread_that_polls(
    kafka: Cluster, four: str, group: str
) -> None:
    threads: set[str] = set()

    def note(_: Any) -> None:
        threads.add(threading.current_thread().name)

    with listened(kafka, four, group, Notes(assigned=note, revoked=note)) as consumer:
        time.sleep(0.5)
        assert threads == set()
        read(consumer, 20)
        assert threads == {threading.current_thread().name}


def test_nothing_is_delivered_before_the_assigned_callback_returned(
    kafka: Cluster, four: str, group: str
) -> None:
    happened: list[str] = []

    def assigned(_: Any) -> None:
        time.sleep(0.3)
        happened.append("assigned")

    with listened(kafka, four, group, Notes(assigned=assigned)) as consumer:
        happened += ["record"] * len(read(consumer, 20))

        assert happened == ["assigned"] + ["record"] * 20


def test_a_seek_inside_the_assigned_callback_is_where_reading_starts(
    kafka: Cluster, four: str, group: str
) -> None:
    with quick(kafka, group_id=group) as consumer:

        def assigned(partitions: set[TopicPartition]) -> None:
            for one in partitions:
                consumer.seek(one, 3)

        consumer.subscribe([four], listener=Notes(assigned=assigned))
        records = read(consumer, 8)

        assert sorted(offsets(records)) == [3, 3, 3, 3, 4, 4, 4, 4]


def test_the_assigned_callback_may_ask_positions_pause_and_look_up_offsets(
    kafka: Cluster, four: str, group: str
) -> None:
    found: dict[TopicPartition, Any] = {}
    with quick(kafka, group_id=group) as consumer:

        def assigned(partitions: set[TopicPartition]) -> None:
            ends = consumer.end_offsets(list(partitions))
            for one in partitions:
                found[one] = (consumer.position(one), consumer.committed(one), ends[one])
            consumer.pause(*[one for one in partitions if one.partition])

        consumer.subscribe([four], listener=Notes(assigned=assigned))
        records = read(consumer, 5)

        assert set(found.values()) == {(0, None, 5)}
        assert {record.partition for record in records} == {0}
        assert read_for(consumer, 0.2) == []


@pytest.mark.parametrize("method", ["poll", "subscribe", "unsubscribe", "assign"])
def test_what_makes_no_sense_inside_a_callback_is_refused_there(
    kafka: Cluster, four: str, group: str, method: str
) -> None:
    arguments: dict[str, Any] = {"subscribe": [["other"]], "assign": [[TopicPartition(four, 0)]]}
    with quick(kafka, group_id=group) as consumer:

        def assigned(_: Any) -> None:
            getattr(consumer, method)(*arguments.get(method, []))

        consumer.subscribe([four], listener=Notes(assigned=assigned))
        error = raised_within(SOON_S, lambda: consumer.poll(200))

        assert isinstance(error, UserCallbackError)
        assert isinstance(error.__cause__, IllegalStateError)
        assert len(read(consumer, 20)) == 20


def test_a_close_inside_a_callback_is_put_off_until_the_poll_ends(
    kafka: Cluster, four: str, group: str
) -> None:
    consumer = quick(kafka, group_id=group)
    consumer.subscribe([four], listener=Notes(assigned=lambda _: consumer.close()))

    error = raised_within(SOON_S, lambda: consumer.poll(200))

    assert isinstance(error, ConsumerClosedError)
    assert consumer.status().state == "closed"
    with quick(kafka, four, group_id=group) as successor:
        assert len(read(successor, 20)) == 20


@pytest.mark.parametrize("which", ["assigned", "revoked"])
def test_a_listener_that_raises_is_reported_once_from_poll_and_the_consumer_goes_on(
    kafka: Cluster, four: str, group: str, which: str
) -> None:
    raised: list[Exception] = []

    def refuse(_: Any) -> None:
        if not raised:
            raised.append(ZeroDivisionError("the listener's own"))
            raise raised[0]

    settings = {"enable_auto_commit": True}
    with listened(kafka, four, group, Notes(**{which: refuse}), **settings) as first:
        found, errors = read_through(first, 20, UserCallbackError)
        topics.produce(kafka.bootstrap_servers, four, numbered(8))
        with quick(kafka, four, group_id=group, **settings) as second:
            deadline = time.monotonic() + SOON_S
            while not (errors and len(first.assignment()) == len(second.assignment()) == 2):
                assert time.monotonic() < deadline, errors
                try:
                    found += poll(first, 20)
                except Exception as error:
                    errors.append(error)
                found += poll(second, 20)
            found += read_until_count(first, second, 28 - len(found))

        assert len(errors) == 1
        assert isinstance(errors[0], UserCallbackError)
        assert errors[0].__cause__ is raised[0]
        assert f"on_partitions_{which}" in str(errors[0])
        assert len({(record.partition, record.offset) for record in found}) == 28


def read_until_count(one: Any, other: Any, count: int) -> list[Any]:
    """Let two members read so many records together."""
    found: list[Any] = []
    deadline = time.monotonic() + SOON_S
    while len(found) < count:
        assert time.monotonic() < deadline
        found += poll(one, 20) + poll(other, 20)
    return found


def test_a_listener_that_raises_at_close_is_reported_and_the_consumer_is_closed(
    kafka: Cluster, four: str, group: str
) -> None:
    def refuse(_: Any) -> None:
        raise ZeroDivisionError

    consumer = quick(kafka, group_id=group)
    consumer.subscribe([four], listener=Notes(revoked=refuse))
    read(consumer, 20)
    with pytest.raises(UserCallbackError):
        consumer.close()

    assert consumer.status().state == "closed"
    with quick(kafka, four, group_id=group) as successor:
        began = time.monotonic()
        poll_until(successor, successor.assignment, "the group was left in good order")
        assert time.monotonic() - began < PROMPT_S


def test_a_listener_that_blocks_longer_than_the_session_keeps_its_membership(
    kafka: Cluster, four: str, group: str
) -> None:
    notes = Notes(assigned=lambda _: time.sleep(SESSION_S + 1))

    with (
        traced() as events,
        listened(kafka, four, group, notes, session_timeout_ms=SESSION_MS) as consumer,
    ):
        read(consumer, 20)
        read_for(consumer, 0.3)

        assert consumer.group_metadata().generation_id == 1
        assert [what for what, _ in notes.told] == ["assigned"]
        assert len(named(events, "rebalance.completed")) == 1


def test_an_application_that_works_longer_than_the_session_keeps_its_membership(
    kafka: Cluster, four: str, group: str
) -> None:
    with listened(kafka, four, group, Notes(), session_timeout_ms=SESSION_MS) as consumer:
        read(consumer, 20)
        time.sleep(SESSION_S + 1)
        topics.produce(kafka.bootstrap_servers, four, ["after"], partition=0)

        assert values(read(consumer, 1)) == [b"after"]
        consumer.commit()
        assert consumer.group_metadata().generation_id == 1


def test_an_application_that_works_longer_than_it_may_loses_its_partitions_and_rejoins(
    kafka: Cluster, four: str, group: str
) -> None:
    notes = Notes()

    with listened(kafka, four, group, notes, max_poll_interval_ms=600) as consumer:
        poll_until(consumer, lambda: len(consumer.assignment()) == 4, "it has it all")
        with quick(kafka, four, group_id=group) as other:
            poll_until(other, lambda: len(other.assignment()) == 4, "the other one has it all")
            both_poll_until(consumer, other, lambda: len(consumer.assignment()) == 2)

            assert notes.told[1] == ("lost", frozenset({0, 1, 2, 3}))
            assert notes.told[2][0] == "assigned"


def test_a_listener_that_blocks_longer_than_the_poll_interval_loses_no_record_in_the_end(
    kafka: Cluster, four: str, group: str
) -> None:
    blocked: list[int] = []

    def block(_: Any) -> None:
        if not blocked:
            blocked.append(1)
            time.sleep(1.5)

    notes = Notes(assigned=block)
    with listened(kafka, four, group, notes, max_poll_interval_ms=600) as consumer:
        found: set[tuple[int, int]] = set()
        deadline = time.monotonic() + SOON_S
        # Refused where this thread stands still for longer than the interval once more.
        while len(found) < 20 or consumer.committed(TopicPartition(four, 0)) != 5:
            assert time.monotonic() < deadline, notes.told
            found |= {(record.partition, record.offset) for record in poll(consumer)}
            with contextlib.suppress(CommitFailedError):
                consumer.commit()


def test_an_asynchronous_listener_is_awaited(kafka: Cluster, four: str, group: str) -> None:
    import asyncio

    told: list[str] = []

    class Listener(AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await asyncio.sleep(0.01)
            told.append("revoked")

        async def on_partitions_assigned(self, assigned: Any) -> None:
            await asyncio.sleep(0.01)
            told.append("assigned")

    with listened(kafka, four, group, Listener()) as consumer:
        read(consumer, 20)
        assert told == ["assigned"]
    assert told == ["assigned", "revoked"]


def test_a_listener_without_a_lost_callback_hears_of_a_loss_as_a_revocation(
    kafka: Cluster, four: str, group: str
) -> None:
    told: list[str] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            told.append("revoked")

        def on_partitions_assigned(self, assigned: Any) -> None:
            told.append("assigned")

    with listened(kafka, four, group, Listener(), max_poll_interval_ms=2000) as consumer:
        read(consumer, 20)
        time.sleep(3.0)
        poll_until(consumer, lambda: told.count("assigned") == 2, "it is in again")

        assert told == ["assigned", "revoked", "assigned"]


def test_no_record_comes_after_the_revoked_callback_and_none_is_skipped(
    kafka: Cluster, four: str, group: str
) -> None:
    with Group(
        kafka, four, group, enable_auto_commit=True, max_poll_records=1, fetch_max_wait_ms=50
    ) as members:
        members.join("a")
        members.join("b")
        members.settled(partitions=4, members=2)
        for _ in range(3):
            late = members.join(f"late-{_}")
            for partition in range(4):
                topics.produce(kafka.bootstrap_servers, four, numbered(10), partition=partition)
            members.settled(partitions=4, members=3)
            late.leave()
            members.settled(partitions=4, members=2)
        deadline = time.monotonic() + SOON_S
        while len({(one.partition, one.offset) for one in members.seen}) < 4 * 35:
            assert time.monotonic() < deadline, len(members.seen)
            time.sleep(0.05)

        assert len(members.seen) == 4 * 35


def test_a_wakeup_during_a_rebalance_interrupts_the_call_and_not_the_rebalance(
    kafka: Cluster, four: str, group: str
) -> None:
    notes = Notes()

    with listened(kafka, four, group, notes) as consumer:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(5000)
        assert len(read(consumer, 20)) == 20

        assert notes.told == [("assigned", frozenset({0, 1, 2, 3}))]


def test_a_group_whose_members_come_and_go_ends_up_balanced(
    kafka: Cluster, four: str, group: str
) -> None:
    with Group(kafka, four, group, **COOPERATIVE) as members:
        for name in "abcd":
            members.join(name)
        members.settled(partitions=4, members=4)
        for name in "abc":
            members.members[name].leave()

        members.settled(partitions=4, members=1)


def test_the_group_is_known_to_the_broker_by_the_members_own_names(
    kafka: Cluster, four: str, group: str
) -> None:
    with quick(kafka, four, group_id=group, client_id="billing-7") as consumer:
        read(consumer, 20)
        with topics.admin(kafka.bootstrap_servers) as admin:
            described = str(admin.describe_groups([group]))
        member = consumer.group_metadata().member_id

        assert member.startswith("billing-7-")
        assert member in described
