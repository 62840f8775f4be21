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
from tests.unit.consumer.core.builders import Site, a_member, a_site
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk, a_chunk_of, a_refusal
from tests.unit.records.building import TRANSACTIONAL, a_batch, a_marker, values


def an_iteration(site: Site) -> Iteration:
    return site.engine.iteration


def take(iteration: Iteration, site: Site, count: int = 1, *, limit: int = 500) -> list[int]:
    """The offsets of what `next(consumer)` would give; nothing is waited for."""
    found = []
    for _ in range(count):
        record = iteration.next()
        if record is None:
            record = site.run(site.engine.next_record(site.clock.now, limit))
        if record is None:
            break
        found.append(record.offset)
    iteration.settle()  # as a call in the loop's body would
    return found


def positions(site: Site) -> dict[TopicPartition, int]:
    return {one: said.offset for one, said in site.engine.delivery.consumed().items()}


# -- one by one


def test_the_position_moves_past_each_record_when_it_is_handed_out() -> None:
    site = a_site()
    site.fetched(a_chunk(count=3))
    iteration = an_iteration(site)

    seen = [(take(iteration, site), positions(site)[A]) for _ in range(3)]

    assert seen == [([0], 1), ([1], 2), ([2], 3)]


def test_nothing_is_here_before_somebody_has_waited() -> None:
    site = a_site()
    site.fetched(a_chunk())
    iteration = an_iteration(site)

    assert iteration.next() is None
    assert site.run(site.engine.next_record(site.clock.now, 500)).offset == 0
    assert iteration.next().offset == 1


def test_the_position_carries_the_leader_epoch_of_the_record() -> None:
    site = a_site()
    site.fetched(a_chunk(count=2, leader_epoch=5), a_chunk(offset=2, count=1, leader_epoch=6))
    iteration = an_iteration(site)

    take(iteration, site, 2)
    assert site.engine.delivery.consumed() == {A: OffsetAndMetadata(2, "", 5)}

    take(iteration, site)
    assert site.engine.delivery.consumed() == {A: OffsetAndMetadata(3, "", 6)}


def test_iterating_goes_on_over_chunks_and_limits_in_order() -> None:
    site = a_site()
    for offset in (0, 3, 6):
        site.fetched(a_chunk(offset=offset, count=3))

    assert take(an_iteration(site), site, 9, limit=2) == list(range(9))


def test_records_of_two_partitions_come_one_partition_after_the_other() -> None:
    site = a_site(A, B)
    site.fetched(a_chunk(A, count=2, epoch=1), a_chunk(B, 0, count=2, epoch=2))
    iteration = an_iteration(site)
    seen = []

    for _ in range(4):
        take(iteration, site)
        seen.append(positions(site))

    assert seen == [{A: 1, B: 0}, {A: 2, B: 0}, {A: 2, B: 1}, {A: 2, B: 2}]


def test_control_records_behind_the_last_record_are_passed_with_it() -> None:
    site = a_site()
    records = a_batch(values(b"x"), flags=TRANSACTIONAL, producer_id=1)
    site.fetched(a_chunk_of(records + a_marker(commit=True, offset=1, producer_id=1)))
    iteration = an_iteration(site)
    assert take(iteration, site) == [0]

    assert take(iteration, site) == []

    assert positions(site) == {A: 2}


def test_control_records_behind_the_last_record_are_passed_when_something_else_happens() -> None:
    site = a_site()
    records = a_batch(values(b"x"), flags=TRANSACTIONAL, producer_id=1)
    site.fetched(a_chunk_of(records + a_marker(commit=True, offset=1, producer_id=1)))
    iteration = an_iteration(site)
    assert take(iteration, site) == [0]

    iteration.stow()

    assert positions(site) == {A: 2}


def test_without_records_an_iteration_waits_until_the_deadline() -> None:
    site = a_site()

    assert site.run(site.engine.next_record(site.clock.now + 5.0, 500)) is None
    assert site.clock.now == 105.0


def test_a_record_that_comes_while_an_iteration_waits_is_handed_out_at_once() -> None:
    site = a_site()
    site.bell.at(102.0, lambda: site.fetched(a_chunk()))

    assert site.run(site.engine.next_record(site.clock.now + 5.0, 500)).offset == 0
    assert site.clock.now == 102.0


# -- what is put back


def test_what_was_not_handed_out_is_put_back_and_the_next_poll_begins_with_it() -> None:
    site = a_site()
    site.fetched(a_chunk(count=4))
    iteration = an_iteration(site)
    take(iteration, site, 2)

    iteration.stow()

    assert positions(site) == {A: 2}
    assert site.poll(limit=1) == {A: [2]}
    assert positions(site) == {A: 3}
    assert site.poll() == {A: [3]}
    assert positions(site) == {A: 4}


def test_a_position_moved_by_handing_out_is_told_with_the_next_poll() -> None:
    site = a_site()
    site.fetched(a_chunk(count=4))
    iteration = an_iteration(site)
    take(iteration, site, 2)

    iteration.stow()
    site.poll(limit=1)

    assert site.of(Poll)[-1].positions == {A: OffsetAndMetadata(2, "", 5)}


def test_records_of_all_partitions_are_put_back() -> None:
    site = a_site(A, B)
    site.fetched(a_chunk(A, epoch=1), a_chunk(B, 0, b"0", b"1", epoch=2))
    iteration = an_iteration(site)
    take(iteration, site, 1)

    iteration.stow()
    iteration.stow()

    assert site.poll() == {A: [1, 2], B: [0, 1]}
    assert site.poll() == {}


def test_what_is_put_back_comes_before_what_was_left_in_the_buffer() -> None:
    site = a_site()
    site.fetched(a_chunk(count=6))
    iteration = an_iteration(site)
    take(iteration, site, 2, limit=4)

    iteration.stow()

    assert take(iteration, site, 1, limit=1) == [2]
    iteration.stow()
    assert take(iteration, site, 9, limit=1) == [3, 4, 5]


def test_nothing_is_handed_out_after_it_was_put_back() -> None:
    site = a_site()
    site.fetched(a_chunk())
    iteration = an_iteration(site)
    take(iteration, site, 1)

    iteration.stow()

    assert iteration.next() is None


def test_a_seek_drops_what_was_not_handed_out() -> None:
    site = a_site()
    site.fetched(a_chunk(count=4))
    iteration = an_iteration(site)
    take(iteration, site, 2)

    site.engine.seek(A, Position(offset=40))
    assert iteration.next() is None
    assert positions(site) == {A: 40}

    site.fetched(a_chunk(offset=40, epoch=2))
    assert take(iteration, site, 9) == [40, 41, 42]


def test_a_seek_of_a_partition_whose_turn_has_not_come_drops_its_records_only() -> None:
    site = a_site(A, B)
    site.fetched(a_chunk(A, epoch=1), a_chunk(B, 0, epoch=2))
    iteration = an_iteration(site)
    take(iteration, site, 1)

    site.engine.seek(B, Position(offset=40))

    assert take(iteration, site, 9) == [1, 2]
    assert positions(site) == {A: 3, B: 40}


def test_records_of_a_partition_that_was_sought_are_not_put_back() -> None:
    site = a_site(A, B)
    site.fetched(a_chunk(A, epoch=1), a_chunk(B, 0, epoch=2))
    iteration = an_iteration(site)
    take(iteration, site, 1)

    site.engine.seek(B, Position(offset=40))
    iteration.stow()

    assert site.poll() == {A: [1, 2]}


def test_a_seek_back_hands_the_same_records_out_again() -> None:
    site = a_site()
    site.fetched(a_chunk(count=2))
    iteration = an_iteration(site)
    assert take(iteration, site, 2) == [0, 1]

    site.engine.seek(A, Position(offset=0))
    site.fetched(a_chunk(count=2, epoch=2))

    assert take(iteration, site, 9) == [0, 1]


def test_a_pause_keeps_the_records_for_later() -> None:
    site = a_site()
    site.fetched(a_chunk(count=4))
    iteration = an_iteration(site)
    take(iteration, site, 2)

    site.engine.delivery.pause([A], paused=True)
    iteration.stow()
    assert take(iteration, site, 9) == []
    assert positions(site) == {A: 2}

    site.engine.delivery.pause([A], paused=False)
    assert take(iteration, site, 9) == [2, 3]


def test_what_is_revoked_between_two_records_is_handed_out_no_more() -> None:
    site = a_member()
    site.fetched(a_chunk(count=4))
    iteration = an_iteration(site)
    take(iteration, site, 2)

    site.hear(RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED))

    assert take(iteration, site, 9) == []
    assert site.engine.delivery.partitions == {}


def test_what_is_lost_while_a_commit_waits_is_handed_out_no_more() -> None:
    """A crash in the background: the commit in the loop's body gives up all partitions."""
    site = a_member()
    site.fetched(a_chunk(count=4))
    iteration = an_iteration(site)
    take(iteration, site, 2)

    site.hear(ActorsRestarted(actors=("membership", "commits", "fetch"), because=MemoryError()))
    with pytest.raises(KafkaTimeoutError):
        site.commit({A: OffsetAndMetadata(2, "", -1)}, site.clock.now)

    assert site.engine.delivery.partitions == {}
    assert take(iteration, site, 9) == []


# -- looking up


def test_what_was_said_is_looked_at_before_the_next_record_and_costs_none() -> None:
    site = a_site()
    site.fetched(a_chunk(count=3))
    iteration = an_iteration(site)
    take(iteration, site)

    site.hear(TopicsRefused(topics=frozenset({"x"}), error=TopicAuthorizationFailedError()))

    assert iteration.next() is None
    with pytest.raises(TopicAuthorizationFailedError):
        take(iteration, site)
    assert take(iteration, site, 9) == [1, 2]


def test_a_wakeup_comes_before_the_next_record_and_costs_none() -> None:
    site = a_site()
    site.fetched(a_chunk(count=3))
    iteration = an_iteration(site)
    take(iteration, site)

    site.engine.call.wakeup()

    with pytest.raises(WakeupError):
        take(iteration, site)
    assert take(iteration, site, 9) == [1, 2]


def test_an_error_is_raised_after_the_records_before_it() -> None:
    site = a_site()
    site.fetched(a_chunk(count=2), a_refusal(TopicAuthorizationFailedError(), offset=2))
    iteration = an_iteration(site)

    assert take(iteration, site, 2) == [0, 1]
    with pytest.raises(TopicAuthorizationFailedError):
        take(iteration, site)
    assert positions(site) == {A: 2}


def test_a_slow_loop_polls_all_the_same() -> None:
    site = a_site()
    site.fetched(a_chunk(count=9))
    iteration = an_iteration(site)

    for _ in range(9):
        take(iteration, site)
        site.clock.now += LOOK_EVERY * 1.5

    times = [one.now for one in site.of(Poll)]
    assert times == [100.0 + turn * LOOK_EVERY * 1.5 for turn in range(1, 9)]


def test_a_fast_loop_is_left_alone() -> None:
    site = a_site()
    site.fetched(a_chunk(count=9))
    iteration = an_iteration(site)

    assert take(iteration, site, 9) == list(range(9))

    assert site.said == []


def test_nothing_is_handed_out_once_the_session_is_over() -> None:
    site = a_member(confirmed_until=100.5)
    site.fetched(a_chunk(count=4))
    iteration = an_iteration(site)
    assert take(iteration, site) == [0]

    site.clock.now = 100.6

    assert take(iteration, site) == []
    assert positions(site) == {A: 1}


def test_the_last_moment_of_a_session_still_hands_out() -> None:
    site = a_member(confirmed_until=100.0)
    site.fetched(a_chunk(count=4))

    assert take(an_iteration(site), site, 2) == [0, 1]


def test_a_restart_drops_what_was_not_handed_out_and_it_comes_again() -> None:
    site = a_site()
    site.fetched(a_chunk(count=4))
    iteration = an_iteration(site)
    take(iteration, site, 2)

    site.hear(ActorsRestarted(actors=("fetch",), because=ZeroDivisionError()))
    assert take(iteration, site) == []

    site.fetched(a_chunk(offset=2, count=2, epoch=2))
    assert take(iteration, site, 9) == [2, 3]


def test_every_record_comes_once_whatever_interrupts_the_loop() -> None:
    site = a_site(A, B)
    iteration = an_iteration(site)
    seen: list[Any] = []

    for turn in range(6):
        site.fetched(a_chunk(A, 5 * turn, count=5, epoch=1), a_chunk(B, 5 * turn, count=5, epoch=2))
        for _ in range(turn + 2):
            record = iteration.next() or site.run(site.engine.next_record(site.clock.now, turn + 1))
            seen.append((record.partition, record.offset))
        iteration.stow()
        for one, offsets in site.poll(limit=turn + 1).items():
            seen += [(one.partition, offset) for offset in offsets]
    while (record := site.run(site.engine.next_record(site.clock.now, 3))) is not None:
        seen.append((record.partition, record.offset))

    for partition in (A, B):
        mine = [offset for number, offset in seen if number == partition.partition]
        assert mine == list(range(30))


# -- the trace


def test_the_trace_tells_what_was_handed_out_when_the_iteration_ends_or_goes_on() -> None:
    site = a_site(A, B)
    site.fetched(a_chunk(count=3), a_chunk(B, count=2, epoch=2))
    iteration = an_iteration(site)

    for _ in range(4):
        if iteration.next() is None:
            site.run(site.engine.next_record(site.clock.now, 500))
    told_meanwhile = [one["offsets"] for one in site.told("records.delivered")]
    iteration.stow()
    iteration.settle()

    assert told_meanwhile == [[[0, 2]]]
    assert [(one["partition"], one["offsets"]) for one in site.told("records.delivered")] == [
        ("orders-0", [[0, 2]]),
        ("orders-1", [[0, 0]]),
    ]


def test_what_was_handed_out_before_the_partition_moved_on_is_told_all_the_same() -> None:
    site = a_site()
    site.fetched(a_chunk(count=3))
    iteration = an_iteration(site)
    site.run(site.engine.next_record(site.clock.now, 500))

    site.engine.seek(A, Position(offset=9))
    iteration.stow()

    assert [one["offsets"] for one in site.told("records.delivered")] == [[[0, 0]]]
