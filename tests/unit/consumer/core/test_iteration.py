"""Handing records out one by one: where the position is, and what becomes of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.iteration import LOOK_EVERY, Iteration
from aktor.errors import WakeupError
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import Loss, RunRevokedCallback
from aktor.events.metadata import TopicsRefused
from aktor.events.polling import Poll
from aktor.events.positions import Position
from tests.unit.consumer.core.builders import EngineHarness, a_consumer, a_member
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk, a_chunk_of, a_refusal
from tests.unit.records.building import TRANSACTIONAL, a_batch, a_marker, values


def an_iteration(harness: EngineHarness) -> Iteration:
    return harness.engine.iteration


def take(
    iteration: Iteration, harness: EngineHarness, count: int = 1, *, limit: int = 500
) -> list[int]:
    """The offsets of what `next(consumer)` would give; nothing is waited for."""
    found = []
    for _ in range(count):
        record = iteration.next()
        if record is None:
            record = harness.run(harness.engine.next_record(harness.clock.now, limit))
        if record is None:
            break
        found.append(record.offset)
    iteration.settle()  # as a call in the loop's body would
    return found


def positions(harness: EngineHarness) -> dict[TopicPartition, int]:
    return {one: said.offset for one, said in harness.engine.delivery.consumed().items()}


# -- one by one


def test_the_position_moves_past_each_record_when_it_is_handed_out() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=3))
    iteration = an_iteration(harness)

    seen = [(take(iteration, harness), positions(harness)[A]) for _ in range(3)]

    assert seen == [([0], 1), ([1], 2), ([2], 3)]


def test_nothing_is_here_before_somebody_has_waited() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk())
    iteration = an_iteration(harness)

    assert iteration.next() is None
    assert harness.run(harness.engine.next_record(harness.clock.now, 500)).offset == 0
    assert iteration.next().offset == 1


def test_the_position_carries_the_leader_epoch_of_the_record() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=2, leader_epoch=5), a_chunk(offset=2, count=1, leader_epoch=6))
    iteration = an_iteration(harness)

    take(iteration, harness, 2)
    assert harness.engine.delivery.consumed() == {A: OffsetAndMetadata(2, "", 5)}

    take(iteration, harness)
    assert harness.engine.delivery.consumed() == {A: OffsetAndMetadata(3, "", 6)}


def test_iterating_goes_on_over_chunks_and_limits_in_order() -> None:
    harness = a_consumer()
    for offset in (0, 3, 6):
        harness.fetched(a_chunk(offset=offset, count=3))

    assert take(an_iteration(harness), harness, 9, limit=2) == list(range(9))


def test_records_of_two_partitions_come_one_partition_after_the_other() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(A, count=2, epoch=1), a_chunk(B, 0, count=2, epoch=2))
    iteration = an_iteration(harness)
    seen = []

    for _ in range(4):
        take(iteration, harness)
        seen.append(positions(harness))

    assert seen == [{A: 1, B: 0}, {A: 2, B: 0}, {A: 2, B: 1}, {A: 2, B: 2}]


def test_control_records_behind_the_last_record_are_passed_with_it() -> None:
    harness = a_consumer()
    records = a_batch(values(b"x"), flags=TRANSACTIONAL, producer_id=1)
    harness.fetched(a_chunk_of(records + a_marker(commit=True, offset=1, producer_id=1)))
    iteration = an_iteration(harness)
    assert take(iteration, harness) == [0]

    assert take(iteration, harness) == []

    assert positions(harness) == {A: 2}


def test_control_records_behind_the_last_record_are_passed_when_something_else_happens() -> None:
    harness = a_consumer()
    records = a_batch(values(b"x"), flags=TRANSACTIONAL, producer_id=1)
    harness.fetched(a_chunk_of(records + a_marker(commit=True, offset=1, producer_id=1)))
    iteration = an_iteration(harness)
    assert take(iteration, harness) == [0]

    iteration.stow()

    assert positions(harness) == {A: 2}


def test_without_records_an_iteration_waits_until_the_deadline() -> None:
    harness = a_consumer()

    assert harness.run(harness.engine.next_record(harness.clock.now + 5.0, 500)) is None
    assert harness.clock.now == 105.0


def test_a_record_that_comes_while_an_iteration_waits_is_handed_out_at_once() -> None:
    harness = a_consumer()
    harness.bell.at(102.0, lambda: harness.fetched(a_chunk()))

    assert harness.run(harness.engine.next_record(harness.clock.now + 5.0, 500)).offset == 0
    assert harness.clock.now == 102.0


# -- what is put back


def test_what_was_not_handed_out_is_put_back_and_the_next_poll_begins_with_it() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=4))
    iteration = an_iteration(harness)
    take(iteration, harness, 2)

    iteration.stow()

    assert positions(harness) == {A: 2}
    assert harness.poll(limit=1) == {A: [2]}
    assert positions(harness) == {A: 3}
    assert harness.poll() == {A: [3]}
    assert positions(harness) == {A: 4}


def test_a_position_moved_by_handing_out_is_told_with_the_next_poll() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=4))
    iteration = an_iteration(harness)
    take(iteration, harness, 2)

    iteration.stow()
    harness.poll(limit=1)

    assert harness.of(Poll)[-1].positions == {A: OffsetAndMetadata(2, "", 5)}


def test_records_of_all_partitions_are_put_back() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(A, epoch=1), a_chunk(B, 0, b"0", b"1", epoch=2))
    iteration = an_iteration(harness)
    take(iteration, harness, 1)

    iteration.stow()
    iteration.stow()

    assert harness.poll() == {A: [1, 2], B: [0, 1]}
    assert harness.poll() == {}


def test_what_is_put_back_comes_before_what_was_left_in_the_buffer() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=6))
    iteration = an_iteration(harness)
    take(iteration, harness, 2, limit=4)

    iteration.stow()

    assert take(iteration, harness, 1, limit=1) == [2]
    iteration.stow()
    assert take(iteration, harness, 9, limit=1) == [3, 4, 5]


def test_nothing_is_handed_out_after_it_was_put_back() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk())
    iteration = an_iteration(harness)
    take(iteration, harness, 1)

    iteration.stow()

    assert iteration.next() is None


def test_a_seek_drops_what_was_not_handed_out() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=4))
    iteration = an_iteration(harness)
    take(iteration, harness, 2)

    harness.engine.seek(A, Position(offset=40))
    assert iteration.next() is None
    assert positions(harness) == {A: 40}

    harness.fetched(a_chunk(offset=40, epoch=2))
    assert take(iteration, harness, 9) == [40, 41, 42]


def test_a_seek_of_a_partition_whose_turn_has_not_come_drops_its_records_only() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(A, epoch=1), a_chunk(B, 0, epoch=2))
    iteration = an_iteration(harness)
    take(iteration, harness, 1)

    harness.engine.seek(B, Position(offset=40))

    assert take(iteration, harness, 9) == [1, 2]
    assert positions(harness) == {A: 3, B: 40}


def test_records_of_a_partition_that_was_sought_are_not_put_back() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(A, epoch=1), a_chunk(B, 0, epoch=2))
    iteration = an_iteration(harness)
    take(iteration, harness, 1)

    harness.engine.seek(B, Position(offset=40))
    iteration.stow()

    assert harness.poll() == {A: [1, 2]}


def test_a_seek_back_hands_the_same_records_out_again() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=2))
    iteration = an_iteration(harness)
    assert take(iteration, harness, 2) == [0, 1]

    harness.engine.seek(A, Position(offset=0))
    harness.fetched(a_chunk(count=2, epoch=2))

    assert take(iteration, harness, 9) == [0, 1]


def test_a_pause_keeps_the_records_for_later() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=4))
    iteration = an_iteration(harness)
    take(iteration, harness, 2)

    harness.engine.delivery.pause([A], paused=True)
    iteration.stow()
    assert take(iteration, harness, 9) == []
    assert positions(harness) == {A: 2}

    harness.engine.delivery.pause([A], paused=False)
    assert take(iteration, harness, 9) == [2, 3]


def test_what_is_revoked_between_two_records_is_handed_out_no_more() -> None:
    harness = a_member()
    harness.fetched(a_chunk(count=4))
    iteration = an_iteration(harness)
    take(iteration, harness, 2)

    harness.hear(RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED))

    assert take(iteration, harness, 9) == []
    assert harness.engine.delivery.partitions == {}


def test_what_is_lost_while_a_commit_waits_is_handed_out_no_more() -> None:
    """A crash in the background: the commit in the loop's body gives up all partitions."""
    harness = a_member()
    harness.fetched(a_chunk(count=4))
    iteration = an_iteration(harness)
    take(iteration, harness, 2)

    harness.hear(ActorsRestarted(actors=("membership", "commits", "fetch"), because=MemoryError()))
    with pytest.raises(KafkaTimeoutError):
        harness.commit({A: OffsetAndMetadata(2, "", -1)}, harness.clock.now)

    assert harness.engine.delivery.partitions == {}
    assert take(iteration, harness, 9) == []


# -- looking up


def test_what_was_said_is_looked_at_before_the_next_record_and_costs_none() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=3))
    iteration = an_iteration(harness)
    take(iteration, harness)

    harness.hear(TopicsRefused(topics=frozenset({"x"}), error=TopicAuthorizationFailedError()))

    assert iteration.next() is None
    with pytest.raises(TopicAuthorizationFailedError):
        take(iteration, harness)
    assert take(iteration, harness, 9) == [1, 2]


def test_a_wakeup_comes_before_the_next_record_and_costs_none() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=3))
    iteration = an_iteration(harness)
    take(iteration, harness)

    harness.engine.call.wakeup()

    with pytest.raises(WakeupError):
        take(iteration, harness)
    assert take(iteration, harness, 9) == [1, 2]


def test_an_error_is_raised_after_the_records_before_it() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=2), a_refusal(TopicAuthorizationFailedError(), offset=2))
    iteration = an_iteration(harness)

    assert take(iteration, harness, 2) == [0, 1]
    with pytest.raises(TopicAuthorizationFailedError):
        take(iteration, harness)
    assert positions(harness) == {A: 2}


def test_a_slow_loop_polls_all_the_same() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=9))
    iteration = an_iteration(harness)

    for _ in range(9):
        take(iteration, harness)
        harness.clock.now += LOOK_EVERY * 1.5

    times = [one.now for one in harness.of(Poll)]
    assert times == [100.0 + turn * LOOK_EVERY * 1.5 for turn in range(1, 9)]


def test_a_fast_loop_is_left_alone() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=9))
    iteration = an_iteration(harness)

    assert take(iteration, harness, 9) == list(range(9))

    assert harness.said == []


def test_nothing_is_handed_out_once_the_session_is_over() -> None:
    harness = a_member(confirmed_until=100.5)
    harness.fetched(a_chunk(count=4))
    iteration = an_iteration(harness)
    assert take(iteration, harness) == [0]

    harness.clock.now = 100.6

    assert take(iteration, harness) == []
    assert positions(harness) == {A: 1}


def test_the_last_moment_of_a_session_still_hands_out() -> None:
    harness = a_member(confirmed_until=100.0)
    harness.fetched(a_chunk(count=4))

    assert take(an_iteration(harness), harness, 2) == [0, 1]


def test_a_restart_drops_what_was_not_handed_out_and_it_comes_again() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=4))
    iteration = an_iteration(harness)
    take(iteration, harness, 2)

    harness.hear(ActorsRestarted(actors=("fetch",), because=ZeroDivisionError()))
    assert take(iteration, harness) == []

    harness.fetched(a_chunk(offset=2, count=2, epoch=2))
    assert take(iteration, harness, 9) == [2, 3]


def test_every_record_comes_once_whatever_interrupts_the_loop() -> None:
    harness = a_consumer(A, B)
    iteration = an_iteration(harness)
    seen: list[Any] = []

    for turn in range(6):
        harness.fetched(
            a_chunk(A, 5 * turn, count=5, epoch=1), a_chunk(B, 5 * turn, count=5, epoch=2)
        )
        for _ in range(turn + 2):
            record = iteration.next() or harness.run(
                harness.engine.next_record(harness.clock.now, turn + 1)
            )
            seen.append((record.partition, record.offset))
        iteration.stow()
        for one, offsets in harness.poll(limit=turn + 1).items():
            seen += [(one.partition, offset) for offset in offsets]
    while (record := harness.run(harness.engine.next_record(harness.clock.now, 3))) is not None:
        seen.append((record.partition, record.offset))

    for partition in (A, B):
        mine = [offset for number, offset in seen if number == partition.partition]
        assert mine == list(range(30))


# -- the trace


def test_the_trace_tells_what_was_handed_out_when_the_iteration_ends_or_goes_on() -> None:
    harness = a_consumer(A, B)
    harness.fetched(a_chunk(count=3), a_chunk(B, count=2, epoch=2))
    iteration = an_iteration(harness)

    for _ in range(4):
        if iteration.next() is None:
            harness.run(harness.engine.next_record(harness.clock.now, 500))
    told_meanwhile = [one["offsets"] for one in harness.told("records.delivered")]
    iteration.stow()
    iteration.settle()

    assert told_meanwhile == [[[0, 2]]]
    assert [(one["partition"], one["offsets"]) for one in harness.told("records.delivered")] == [
        ("orders-0", [[0, 2]]),
        ("orders-1", [[0, 0]]),
    ]


def test_what_was_handed_out_before_the_partition_moved_on_is_told_all_the_same() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=3))
    iteration = an_iteration(harness)
    harness.run(harness.engine.next_record(harness.clock.now, 500))

    harness.engine.seek(A, Position(offset=9))
    iteration.stow()

    assert [one["offsets"] for one in harness.told("records.delivered")] == [[[0, 0]]]


def test_the_trace_tells_when_records_were_handed_out_if_it_tells_of_them_later() -> None:
    harness = a_consumer()
    harness.fetched(a_chunk(count=4))
    iteration = an_iteration(harness)
    harness.run(harness.engine.next_record(harness.clock.now, 500))
    harness.clock.now += 0.3
    iteration.next()
    harness.clock.now += 5.0
    iteration.stow()

    harness.run(harness.engine.next_record(harness.clock.now, 500))
    harness.clock.now += 2.0
    iteration.settle()

    assert [
        (one["offsets"], one["first_ago"], one["last_ago"])
        for one in harness.told("records.delivered")
    ] == [([[0, 1]], 5.3, 5.0), ([[2, 2]], 2.0, 2.0)]
