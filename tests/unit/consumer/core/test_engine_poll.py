"""What a poll tells, when it need not wait, and what of it is traced."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from kafka.errors import UnsupportedCodecError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.poll_heartbeat import NEWS_EVERY, POLL_REPEAT
from aktor.events.membership import Loss, RevokePartitions
from aktor.events.polling import Poll
from aktor.events.positions import Position, ResetStrategy
from tests.unit.consumer.core.builders import Site, a_member, a_restart, a_site
from tests.unit.consumer.core.builders_chunks import A, B, a_chunk, a_refusal, offsets

pytestmark = pytest.mark.usefixtures("both_ways_to_poll")


# -- the Poll that is told


def test_the_first_poll_tells_the_background_even_if_it_may_not_wait() -> None:
    site = Site()
    site.assign([A])
    site.forget()

    assert site.poll(0) == {}

    assert site.said == [Poll(now=100.0, positions={}, freed_bytes=0)]


def test_polls_with_no_news_are_told_only_so_often() -> None:
    site = a_site()

    for _ in range(4):
        site.clock.now += POLL_REPEAT / 2
        site.poll()

    assert [one.now for one in site.of(Poll)] == [100.0 + POLL_REPEAT, 100.0 + 2 * POLL_REPEAT]
    assert site.wakes == [False, False]


def test_a_position_that_moved_is_told_with_the_next_poll_and_wakes_nobody() -> None:
    site = a_site()
    site.fetched(chunk := a_chunk(count=3))
    assert site.poll() == {A: [0, 1, 2]}
    assert site.of(Poll) == []

    site.clock.now += NEWS_EVERY
    site.fetched(a_chunk(offset=3))
    assert site.poll() == {A: [3, 4, 5]}

    now = 100.0 + NEWS_EVERY
    assert site.of(Poll) == [
        Poll(now=now, positions={A: OffsetAndMetadata(3, "", 5)}, freed_bytes=chunk.size)
    ]
    assert site.wakes == [False]


def test_records_that_are_here_are_given_without_waiting() -> None:
    site = a_site()
    site.fetched(a_chunk(count=3))
    site.bell.waits.clear()

    assert site.poll(10, limit=2) == {A: [0, 1]}
    assert site.poll(10, limit=2) == {A: [2]}

    assert site.bell.waits == []


def test_the_background_is_woken_when_a_quarter_of_the_buffer_was_freed() -> None:
    size = a_chunk(count=3).size
    site = a_site(max_buffered_bytes=8 * size)

    for turn in range(4):
        site.fetched(a_chunk(A, 3 * turn, b"0", b"1", b"2"))
        site.poll()
        site.clock.now += NEWS_EVERY
    site.poll()

    assert [one.freed_bytes for one in site.of(Poll)] == [size, 2 * size, 3 * size, 4 * size]
    assert site.wakes == [False, True, False, True]


def test_what_was_freed_is_told_before_waiting_so_that_fetching_goes_on() -> None:
    site = a_site()
    site.fetched(dropped := a_chunk(epoch=9))

    site.poll(1.0)

    assert site.of(Poll)[0] == Poll(now=100.0, positions={}, freed_bytes=dropped.size)
    assert site.wakes[0]


@pytest.mark.parametrize("timeout", [0.0, 5.0])
def test_what_was_said_without_a_wake_is_made_to_be_read_by_a_poll_that_gives_nothing(
    timeout: float,
) -> None:
    site = a_site(A, B)
    site.fetched(chunk := a_chunk(), a_chunk(B, epoch=2))
    site.poll(limit=3)
    site.engine.pause([B], paused=True)
    site.forget()
    site.clock.now += NEWS_EVERY

    site.poll(timeout)

    assert [one.freed_bytes for one in site.of(Poll)][:2] == [chunk.size] * 2
    assert site.wakes[:2] == [False, True]
    assert not any(site.wakes[2:])


def test_what_was_given_out_last_is_told_with_a_wake_by_a_poll_that_has_nothing_else() -> None:
    site = a_site()
    site.fetched(chunk := a_chunk())
    site.poll()
    site.forget()

    site.poll(5.0)

    assert [one.freed_bytes for one in site.of(Poll)][:1] == [chunk.size]
    assert site.wakes[:1] == [True]
    assert not any(site.wakes[1:])


@pytest.mark.parametrize("interval", [9.0, 0.3])
def test_a_poll_that_waits_is_told_again_before_its_group_would_expel_it(interval: float) -> None:
    site = a_site(group_id="g", max_poll_interval=interval)
    site.fetched(a_chunk())
    site.poll()
    site.forget()

    site.poll(10.0)

    told = [100.0, *(one.now for one in site.of(Poll)), 110.0]
    pauses = [after - before for before, after in itertools.pairwise(told)]
    assert max(pauses) == pytest.approx(interval / 3)


def test_what_was_said_without_a_wake_is_made_to_be_read_by_a_poll_that_raises() -> None:
    site = a_site(A, B)
    site.fetched(a_chunk(B, epoch=2))
    site.poll()
    site.fetched(a_refusal(UnsupportedCodecError()))
    site.forget()
    site.clock.now += NEWS_EVERY

    for wakes in ([False, True], []):
        with pytest.raises(UnsupportedCodecError):
            site.poll(5.0)
        assert site.wakes == wakes
        site.forget()


def test_many_polls_that_give_records_tell_their_news_together() -> None:
    site = a_site()
    site.fetched(*(a_chunk(offset=3 * number) for number in range(20)))

    for _ in range(20):
        assert site.poll(limit=3)
        site.clock.now += NEWS_EVERY * 0.3

    told = [one.positions[A].offset for one in site.of(Poll)]
    assert told == [12, 24, 36, 48]
    site.poll()
    assert site.of(Poll)[-1].positions == {A: OffsetAndMetadata(60, "", 5)}


def test_polls_that_give_records_wake_nobody() -> None:
    site = a_site()
    site.fetched(*(a_chunk(offset=3 * number) for number in range(20)))

    for _ in range(20):
        assert site.poll(limit=3)
        site.clock.now += 0.01

    assert len(site.of(Poll)) == 19
    assert not any(site.wakes)


def test_polls_with_no_news_wake_nobody() -> None:
    site = a_site()

    for _ in range(5):
        site.poll(1.0)

    assert len(site.of(Poll)) == 5
    assert not any(site.wakes)


# -- a poll that need not wait


def at_once(site: Site, timeout: float = 0.0, **options: Any) -> dict[TopicPartition, Any] | None:
    """The offsets that a poll gave out without a generator; None: a generator must go on."""
    now = site.clock.now
    records = site.engine.poll_at_once(now, now + timeout, 500, **options)
    return None if records is None else offsets(records)


def test_records_that_are_here_are_given_out_at_once_whatever_the_timeout() -> None:
    site = a_site()
    site.fetched(a_chunk(count=2))
    assert at_once(site, 1.0) == {A: [0, 1]}

    site.fetched(a_chunk(offset=2, count=2))
    assert at_once(site) == {A: [2, 3]}
    assert at_once(site) == {}


def test_records_that_an_iteration_has_put_back_are_given_out_at_once() -> None:
    site = a_site()
    site.fetched(a_chunk(count=3))
    iteration = site.engine.iteration
    site.run(site.engine.next_record(site.clock.now, 500))
    iteration.stow()

    assert at_once(site, 1.0) == {A: [1, 2]}


def test_a_poll_that_will_wait_says_nothing_before_its_generator_does() -> None:
    site = a_site()
    site.clock.now += POLL_REPEAT

    assert at_once(site, 1.0) is None
    assert site.said == []


def test_a_poll_that_does_not_advance_the_position_does_not_do_it_at_once_either() -> None:
    site = a_site()
    site.fetched(a_chunk())

    assert at_once(site, advance=False) == {A: [0, 1, 2]}
    assert site.engine.consumed()[A].offset == 0


def test_events_are_run_before_records_are_given_out() -> None:
    site = a_member()
    site.fetched(a_chunk())
    site.hear(
        RevokePartitions(
            rebalance=2, partitions=frozenset([A]), loss=Loss.REVOKED, because="somebody joined"
        )
    )

    assert at_once(site) is None


def test_an_unsubscribe_that_was_interrupted_is_finished_before_records_are_given_out() -> None:
    site = a_member()

    def interrupt(message: object) -> None:
        raise KeyboardInterrupt

    site.on_said = interrupt
    with pytest.raises(KeyboardInterrupt):
        site.unsubscribe(site.clock.now)
    site.on_said = lambda message: None
    site.fetched(a_chunk())

    assert at_once(site) is None


def test_a_poll_that_a_nested_close_ends_raises_nothing_and_gives_nothing_out() -> None:
    site = a_site()
    site.fetched(a_chunk())
    site.engine.call.wakeup()
    site.engine.call.end_waits()

    assert at_once(site) is None
    assert site.poll() == {}
    assert site.engine.call.woken


def test_what_an_interrupt_has_left_set_is_reset_when_a_call_begins() -> None:
    engine = Site().engine
    callbacks, user_code = engine.commits.callbacks, engine.rebalancing.user_code
    engine.recovery.restoring = a_restart("membership")
    user_code.enter("a commit callback")
    callbacks.running = True

    engine.begin_call()

    assert not callbacks.running
    assert user_code.name == ""
    assert engine.recovery.restoring is None


# -- the trace


def test_the_trace_tells_what_the_user_seeks_pauses_and_resumes() -> None:
    site = a_site(A, B)

    site.engine.seek(A, Position(offset=7))
    site.engine.reset([B], ResetStrategy.EARLIEST)
    site.engine.pause([A], paused=True)
    site.engine.pause([A], paused=False)

    names = "position.sought", "partitions.paused", "partitions.resumed"
    assert [(one["event"], one["partitions"]) for one in site.told(*names)] == [
        ("position.sought", {"orders-0": 7}),
        ("position.sought", {"orders-1": None}),
        ("partitions.paused", {"orders-0": 7}),
        ("partitions.resumed", {"orders-0": 7}),
    ]


def test_the_trace_tells_what_a_poll_gives_out_before_it_returns() -> None:
    site = a_site()
    site.fetched(a_chunk(count=3))

    assert site.poll(limit=2) == {A: [0, 1]}
    assert site.poll(limit=2) == {A: [2]}

    delivered = site.told("records.delivered")
    assert [one["offsets"] for one in delivered] == [[[0, 1]], [[2, 2]]]
