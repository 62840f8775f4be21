"""What a look at the assigned partitions notes, and what follows from it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from kafka.structs import TopicPartition

from aktor.consumer.present.picture import ApplicationNow, Picture
from aktor.consumer.present.reasons.partition import of_partition, of_partitions
from aktor.consumer.present.reasons.reason import WaitingFor
from aktor.consumer.present.seen import kinds, see, with_records
from aktor.events.fetching import Chunk
from aktor.events.metadata import Cluster, PartitionInfo, TopicInfo
from aktor.events.positions import EndsListed, LogEnd
from aktor.events.present import BrokerNow, FetchNow, Hindrance, NetworkNow, Throttle
from aktor.values import replace
from tests.unit.consumer.core.builders import EngineHarness, a_consumer
from tests.unit.consumer.core.builders_chunks import A, B, C, a_chunk, a_chunk_of
from tests.unit.records.building import a_batch, a_record, values

#: The time at which the harness begins.
BEGIN = 100.0


def a_picture(harness: EngineHarness, **said: Any) -> Picture:
    """Of a consumer without a group, whose three partitions are led by broker 1."""
    now, late = harness.clock(), said.pop("late", 0.0)
    leads = PartitionInfo(leader=1, leader_epoch=1)
    orders = TopicInfo(topic_id=None, partitions=dict.fromkeys(range(3), leads))
    application = ApplicationNow(
        polled_at=now - late,
        waits=False,
        waits_in="",
        callback="",
        callback_since=-math.inf,
        line="",
        delivered_at=-math.inf,
    )
    known: dict[str, Any] = {
        "now": now,
        "wall": now,
        "assigned_by_user": True,
        "session_timeout": 10.0,
        "max_poll_interval": 300.0,
        "room": 1_000_000,
        "cluster": Cluster(version=1, topics={"orders": orders}),
        "application": application,
        "partitions": see(harness.engine),
    }
    return Picture(**known | said)


def test_records_are_here_since_they_came_and_not_since_a_poll_has_taken_them_over() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(A, came_at=BEGIN), a_chunk(B, epoch=2, came_at=BEGIN))
    assert see(harness.engine)[B].here_since == BEGIN

    harness.clock.now = BEGIN + 8.0  # the application waited in another call
    assert harness.poll(limit=1) == {A: [0]}

    assert see(harness.engine)[B].here_since == BEGIN
    reason = of_partitions(a_picture(harness))[B]
    assert reason.waiting_for is WaitingFor.TURN
    assert (
        reason.text == "its records have been here for 8.0 s, and come with one of the next polls"
    )


def test_an_end_is_as_old_as_the_answer_that_told_it_and_not_as_the_poll_that_took_it_over() -> (
    None
):
    harness = a_consumer(A)
    harness.fetched(a_chunk(A, came_at=BEGIN, high_watermark=3))
    harness.clock.now = BEGIN + 8.0
    assert see(harness.engine)[A].told_at == BEGIN

    harness.poll()

    assert see(harness.engine)[A].told_at == BEGIN


def test_of_two_ends_the_one_counts_that_was_told_later() -> None:
    """A Fetch has told one, and the leader was asked for the other, as somebody looks."""
    harness = a_consumer(A)
    harness.fetched(a_chunk(A, came_at=BEGIN, high_watermark=3))
    harness.poll()

    def seen(listed_at: float) -> tuple[int | None, float]:
        harness.port.handle(EndsListed(ends={A: LogEnd(offset=60, at=listed_at)}))
        it = see(harness.engine)[A]
        return it.end, it.told_at

    assert seen(BEGIN - 1.0) == (3, BEGIN)
    assert seen(BEGIN + 1.0) == (60, BEGIN + 1.0)
    harness.fetched(a_chunk(A, 3, came_at=BEGIN + 2.0, high_watermark=70))  # not taken over yet
    assert see(harness.engine)[A].end == 70


def test_what_comes_later_does_not_make_the_first_records_younger() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(B, epoch=2, count=20, came_at=BEGIN))
    for later in range(1, 8):
        harness.fetched(
            Chunk(partition=B, epoch=2, offset=20, high_watermark=3, came_at=BEGIN + later)
        )
        harness.poll(limit=1)

    assert see(harness.engine)[B].here_since == BEGIN


def test_records_that_no_poll_has_taken_over_are_part_of_the_lag_and_of_what_is_buffered() -> None:
    harness = a_consumer(A)
    harness.fetched(a_chunk(A, high_watermark=3))

    it = see(harness.engine)[A]

    assert (it.position, it.end, it.lag, it.records) == (0, 3, 3, 3)
    assert it.buffered == it.arrived > 0
    harness.poll(limit=1)
    assert see(harness.engine)[A].arrived == 0
    assert see(harness.engine)[A].buffered == it.buffered


def test_the_timestamp_of_the_next_record_is_known_wherever_that_is() -> None:
    def chunk(first: int) -> Chunk:
        records = [a_record(delta, timestamp_delta=first + delta) for delta in range(3)]
        batch = a_batch(records, base_offset=first, base_timestamp=1000, max_timestamp=1000)
        return a_chunk_of(batch, offset=first, end=first + 3, high_watermark=9)

    def next_at() -> int:
        return see(harness.engine)[A].next_at

    harness = a_consumer(A)
    harness.fetched(chunk(0))
    assert next_at() == 1000  # no poll has taken it over
    harness.poll(limit=1)
    assert next_at() == 1001  # it is decoded by the next one
    harness.fetched(chunk(3))
    harness.poll(limit=2)
    assert next_at() == 1000  # of a batch that is not decoded
    harness.run(harness.engine.next_record(harness.clock.now, 500))
    assert next_at() == 1004  # taken by an iteration, and not handed out
    harness.engine.iteration.stow()
    assert next_at() == 1004  # held for the next poll
    harness.poll()
    assert next_at() == 1000  # not here: the newest of what was read


def test_what_was_fetched_before_a_seek_is_not_here() -> None:
    harness = a_consumer(A)
    harness.fetched(a_chunk(A, epoch=0))

    assert not see(harness.engine)[A].is_here
    assert not with_records(see(harness.engine))


def test_a_chunk_that_is_being_taken_over_is_counted_once() -> None:
    harness = a_consumer(A)
    chunk = a_chunk(A)
    harness.engine.delivery.put(chunk)
    harness.fetched(chunk)  # as between the two steps of `take_chunks`

    assert see(harness.engine)[A].buffered == chunk.size


def test_a_look_stays_as_it_was_and_keeps_no_records() -> None:
    harness = a_consumer(A)
    data = bytearray(a_batch(values(b"a", b"b", b"c")))
    view: Any = memoryview(data)
    chunk = a_chunk_of(view, end=3, high_watermark=3)
    harness.fetched(chunk)
    harness.poll(limit=1)
    look = see(harness.engine)

    harness.poll()
    harness.engine.delivery.pause([A], paused=True)
    del chunk, view

    data.clear()  # it cannot be changed as long as anything refers to the records
    it = look[A]
    assert (it.position, it.end, it.lag, it.paused, it.is_here) == (1, 3, 2, False, True)


def with_a_dead_broker(node: int) -> NetworkNow:
    """It has refused connections for 50 s; another one, which leads nothing, is well."""
    dead = BrokerNow(
        node=node,
        address=f"kafka-{node}:9092",
        connected=False,
        connecting_since=None,
        failing_since=BEGIN - 50.0,
        failed_at=BEGIN,
        attempts=14,
        error="Connection refused",
        retry_at=BEGIN + 1.0,
        refused_since=None,
        throttle=Throttle(),
        fetch_throttle=Throttle(),
        group_throttle=Throttle(),
        heard=(),
    )
    well = replace(dead, node=9, connected=True, failing_since=None)
    return NetworkNow(brokers={node: dead, 9: well})


def the_end(partition: TopicPartition, end: int, *, stable: int | None = None) -> Chunk:
    """News of the end of its log."""
    return Chunk(
        partition=partition,
        epoch=1 + partition.partition,
        offset=0,
        high_watermark=end,
        last_stable_offset=end if stable is None else stable,
    )


#: What partition B is like, and what the actors show then: whether A, which has read all, is told
#: apart from C, or not, each is told the same as if it were alone.
STATES: dict[str, tuple[Any, dict[str, Any]]] = {
    "all have read all": (lambda harness: None, {}),
    "paused": (lambda harness: harness.engine.delivery.pause([B], paused=True), {}),
    "about to be revoked": (lambda harness: harness.engine.delivery.hold_back([B]), {}),
    "not subscribed": (lambda harness: harness.engine.delivery.follow_subscription("".split), {}),
    "behind": (lambda harness: harness.fetched(the_end(B, 5)), {}),
    "behind, as its leader said when it was asked": (
        lambda harness: harness.port.handle(
            EndsListed(ends={tp: LogEnd(offset=50 * tp.partition, at=BEGIN + 1.0) for tp in (A, B)})
        ),
        {},
    ),
    "with records": (lambda harness: harness.fetched(a_chunk(B, epoch=2, high_watermark=3)), {}),
    "with an open transaction": (lambda harness: harness.fetched(the_end(B, 5, stable=0)), {}),
    "hindered": (
        lambda harness: None,
        {
            "fetch": FetchNow(
                hindered={
                    B: Hindrance(state="failing", since=9.0, node=1, until=BEGIN, trouble="FENCED")
                }
            )
        },
    ),
    "read from a replica that is down": (
        lambda harness: None,
        {"fetch": FetchNow(replicas={B: 3}), "network": with_a_dead_broker(3)},
    ),
    "crowded": (lambda harness: None, {"crowded": frozenset({B}), "late": 8.0}),
    "no leader": (
        lambda harness: None,
        {"cluster": Cluster(version=1, topics={"orders": TopicInfo(topic_id=None, partitions={})})},
    ),
    "an unknown topic": (lambda harness: None, {"cluster": Cluster(version=1)}),
    "the leader is down": (lambda harness: None, {"network": with_a_dead_broker(1)}),
}


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("state", STATES)
def test_partitions_that_are_alike_are_told_what_each_would_be_told_alone(
    state: str, isolation: str
) -> None:
    harness = a_consumer(A, B, C, isolation_level=isolation)
    harness.fetched(the_end(A, 0), the_end(B, 0), the_end(C, 0))
    harness.poll()
    make, shown = STATES[state]
    make(harness)
    p = a_picture(harness, **{"network": NetworkNow(), **shown})

    alone = {tp: of_partition(p, tp, it) for tp, it in p.partitions.items()}

    assert dict(of_partitions(p)) == alone
    assert A in dict(kinds(p.partitions))


def test_a_partition_of_which_something_else_is_known_is_of_another_kind() -> None:
    behind = ("behind", "behind, as its leader said when it was asked")
    for name in ("paused", "about to be revoked", *behind, "with records"):
        harness = a_consumer(A, B, C)
        harness.fetched(the_end(A, 0), the_end(B, 0), the_end(C, 0))
        harness.poll()
        STATES[name][0](harness)

        found = dict(kinds(see(harness.engine)))

        assert found[A] == found[C] != found.get(B), name
