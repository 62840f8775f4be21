"""Whatever line of ours an interrupt or a signal handler hits: nothing is lost, nothing hangs.

Each program is run once to count the lines of ours that it runs, and then again and again, each
time with an interrupt at another of these lines; the program catches it and goes on. The lines are
a sample, `AKTOR_SEEDS` times as large; `python -m tests.scenarios.every_line` takes all.
"""

from __future__ import annotations

import linecache
import os
import random
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener
from kafka.errors import IllegalStateError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.errors import ConsumerClosedError, UserCallbackError
from tests.gate import all_but_the_first
from tests.scenarios.interrupts import Injection, Line, choose
from tests.scenarios.programs import (
    ACTS,
    SCENARIOS,
    closing_handler,
    interrupted,
    judge,
    lines_of,
    run,
)
from tests.scenarios.reading import T0, T1, a_member, read
from tests.scenarios.world import World

GHOST = TopicPartition("ghosts", 0)

#: How many lines of each program are drawn, for each kind of interrupt.
SAMPLE = 10 * int(os.environ.get("AKTOR_SEEDS", "1"))

#: Every fourth one of them is tried: of the same lines most are in several of these programs.
EVERY = 4

#: What happens, to which program: in an order of which the first half has each act with every
#: second program, and each program with every second act.
PAIRS = [
    (name, scenario)
    for turn in (0, 1)
    for row, name in enumerate(ACTS)
    for column, scenario in enumerate(SCENARIOS)
    if (row + column) % 2 == turn
]


@pytest.mark.few_cases
@pytest.mark.parametrize(("name", "scenario"), all_but_the_first(len(PAIRS) // 2, PAIRS))
def test_an_interrupt_loses_nothing_repeats_nothing_and_leaves_nothing_behind(
    name: str, scenario: str
) -> None:
    act, lines = ACTS[name], lines_of(scenario)
    broken: list[str] = []
    places = choose(lines, SAMPLE, random.Random(f"{scenario} {name}").randrange)
    for place in places[::EVERY]:
        file, line = lines[place - 1]
        try:
            program, injection = run(
                scenario, [place, *(place + later for later in act.then)], act.happens
            )
            judge(act, scenario, program, injection)
        except (Exception, KeyboardInterrupt) as error:
            broken.append(f"{place} ({file.rpartition('/')[2]}:{line}): {error!r:.300}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("later", range(1, 9))
def test_what_a_call_was_about_to_give_when_it_was_to_close_is_not_committed(later: int) -> None:
    """A handler closes as a poll is about to return, and a few lines later comes an interrupt."""
    handlers = [closing_handler, interrupted]
    ends = [
        number
        for number, (file, line) in enumerate(lines_of("polling"), 1)
        if "guard.begun = False" in linecache.getline(file, line)
    ]
    for place in ends[1:5]:
        left = iter(handlers)
        run("polling", [place, place + later], lambda program, left=left: next(left)(program))


CALLS_THAT_NEED_A_CONSUMER: dict[str, Callable[[KafkaConsumer], Any]] = {
    "poll": lambda consumer: consumer.poll(50),
    "poll_arrow": lambda consumer: consumer.poll_arrow(50),
    "next": lambda consumer: next(consumer, None),
    "seek": lambda consumer: consumer.seek(T0, 1),
    "seek_to_beginning": lambda consumer: consumer.seek_to_beginning(T0),
    "position": lambda consumer: consumer.position(T0),
    "pause": lambda consumer: consumer.pause(T0),
    "commit": lambda consumer: consumer.commit(),
    "committed": lambda consumer: consumer.committed(T0),
    "subscribe": lambda consumer: consumer.subscribe(["orders"]),
}


@pytest.mark.few_cases
@pytest.mark.parametrize("name", CALLS_THAT_NEED_A_CONSUMER)
@pytest.mark.parametrize("line", range(1, 13))
def test_a_call_that_a_handler_closes_as_it_comes_in_says_that_the_consumer_is_closed(
    line: int, name: str
) -> None:
    """Before it is inside, `close` is not put off: the call finds a consumer that has ended."""
    call = CALLS_THAT_NEED_A_CONSUMER[name]
    with World() as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 20)
        consumer = a_member(world)
        assert read(world, consumer, 5)

        with Injection(world, at=[line], act=consumer.close), suppress(ConsumerClosedError):
            call(consumer)

        assert consumer.status().state == "closed"


@pytest.mark.parametrize("records", all_but_the_first(1, [4, 20]))
def test_an_iteration_that_a_handler_closes_ends_whatever_line_it_is_at(records: int) -> None:
    """Found on a busy machine: a loop over the consumer was ended by ConsumerClosedError."""
    for line in range(1, 60):
        with World() as world:
            world.cluster.create_topic("orders", partitions=2)
            world.cluster.fill("orders", records)
            consumer = a_member(world, consumer_timeout_ms=50)
            assert read(world, consumer, 4)

            with Injection(world, at=[line], act=consumer.close):
                next(consumer, None)


def seek_unassigned(consumer: KafkaConsumer, go: str) -> None:
    with pytest.raises(ValueError, match="Unassigned partition"):
        getattr(consumer, go)(TopicPartition("orders", 5))


def position_in_vain(consumer: KafkaConsumer) -> None:
    with pytest.raises(KafkaTimeoutError, match="no position for ghosts-0"):
        consumer.position(GHOST)


def callback_that_raises(consumer: KafkaConsumer, call: Callable[[], Any]) -> None:
    def on_commit(_offsets: Any, _error: Any) -> None:
        raise ZeroDivisionError

    consumer.commit_async({T0: OffsetAndMetadata(1, "", -1)}, callback=on_commit)
    consumer.committed(T0)
    with pytest.raises(ZeroDivisionError):
        call()


#: Calls that end in an error that is no interrupt.
FAILURES: dict[str, Callable[[KafkaConsumer], Any]] = {
    "seek_to_beginning": lambda consumer: seek_unassigned(consumer, "seek_to_beginning"),
    "seek_to_end": lambda consumer: seek_unassigned(consumer, "seek_to_end"),
    "position": position_in_vain,
    "callback in poll": lambda consumer: callback_that_raises(consumer, consumer.poll),
    "callback in commit": lambda consumer: callback_that_raises(consumer, consumer.commit),
    "callback in commit_async": lambda consumer: callback_that_raises(
        consumer, consumer.commit_async
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_call_that_fails_keeps_what_was_fetched(name: str) -> None:
    """An interrupt has it dropped and fetched anew; an error of ours leaves nothing half done."""
    with World() as world:
        world.cluster.create_topic("orders", partitions=1)
        world.cluster.fill("orders", 20)
        consumer = world.consumer(
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            default_api_timeout_ms=300,
        )
        consumer.assign([T0, GHOST])
        assert read(world, consumer, 5, max_records=5)
        buffered = consumer.status().partitions[T0].buffered_bytes
        assert buffered

        FAILURES[name](consumer)
        consumer.pause()

        assert world.host(consumer).named("call.repaired") == []
        assert consumer.status().partitions[T0].buffered_bytes == buffered


def test_an_unsubscribe_whose_listener_raises_needs_no_repair() -> None:
    class Raising(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            pass

        def on_partitions_revoked(self, revoked: Any) -> None:
            raise ZeroDivisionError

    with World() as world:
        world.cluster.create_topic("orders", partitions=1)
        world.cluster.fill("orders", 5)
        consumer = world.consumer(group_id="g", auto_offset_reset="earliest")
        consumer.subscribe(["orders"], listener=Raising())
        assert read(world, consumer, 5)

        with pytest.raises(UserCallbackError):
            consumer.unsubscribe()
        consumer.subscribe(["orders"])

        assert world.host(consumer).named("call.repaired") == []


def interrupted_unsubscribe(at: int) -> tuple[int, int]:
    """A member is interrupted at this line of `unsubscribe`, and subscribes again.

    Returns how many lines there were, and how many records it reads then.
    """
    with World() as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 20)
        consumer = a_member(world, enable_auto_commit=False)
        read(world, consumer, 5)
        injection = Injection(world, at=[at], act=keyboard_interrupt)
        with injection, suppress(KeyboardInterrupt):
            consumer.unsubscribe()
        consumer.subscribe(["orders"])
        return injection.count, len(read(world, consumer, 20, within=10.0))


def keyboard_interrupt() -> None:
    raise KeyboardInterrupt


def test_who_subscribes_again_after_an_interrupted_unsubscribe_reads_on() -> None:
    """The listener may have been told that all is revoked, and the group does not know it yet."""
    count, _ = interrupted_unsubscribe(0)

    read_then = {at: interrupted_unsubscribe(at)[1] for at in range(1, count, 7)}

    assert {at: records for at, records in read_then.items() if records < 20} == {}


def test_who_polls_on_after_an_interrupted_unsubscribe_has_unsubscribed() -> None:
    count, _ = interrupted_unsubscribe(0)
    with World() as world:
        world.cluster.create_topic("orders", partitions=2)
        consumer = a_member(world, enable_auto_commit=False)
        consumer.poll(timeout_ms=5000)
        with Injection(world, at=[count // 2], act=keyboard_interrupt), suppress(KeyboardInterrupt):
            consumer.unsubscribe()

        assert consumer.poll(timeout_ms=1000) == {}

        assert (consumer.subscription(), consumer.assignment()) == (None, set())
        assert world.cluster.group("g").members == {}


class Told(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes what is taken from it, and how many members the group has then."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.taken: list[tuple[set[TopicPartition], int]] = []

    def on_partitions_assigned(self, assigned: Any) -> None:
        pass

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.taken.append((set(revoked), len(self.world.cluster.group("g").members)))

    on_partitions_lost = on_partitions_revoked


class OfTheNext(ConsumerRebalanceListener):  # type: ignore[misc]
    """The listener of the next subscription."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        pass

    def on_partitions_revoked(self, revoked: Any) -> None:
        pass


def assign_and_poll(consumer: KafkaConsumer) -> None:
    """What is assigned by hand stays assigned."""
    consumer.assign([T0])
    consumer.poll(timeout_ms=10)
    assert consumer.assignment() == {T0}


def close_after_a_failure(consumer: KafkaConsumer) -> None:
    """The background has failed meanwhile."""
    consumer._core.port.fail(ZeroDivisionError())
    with suppress(ZeroDivisionError):
        consumer.close()


#: What a program calls after an `unsubscribe` that was interrupted.
CALLED_NEXT: dict[str, Callable[[KafkaConsumer], object]] = {
    "poll": lambda consumer: consumer.poll(timeout_ms=10),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "close": lambda consumer: consumer.close(),
    "subscribe": lambda consumer: consumer.subscribe(["orders"]),
    "subscribe, listening": lambda consumer: consumer.subscribe(["orders"], listener=OfTheNext()),
    "assign": assign_and_poll,
    "close, with no background": close_after_a_failure,
}


def told_in_spite_of(
    call: Callable[[KafkaConsumer], object], at: Collection[int], lines: list[Line] | None = None
) -> Any:
    """A member is interrupted at these lines of `unsubscribe` and of this call, and calls again.

    Returns what its listener was told by then; None if it has not unsubscribed, and keeps all, or
    if the interrupt counts as raised by the listener.
    """
    with World() as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 5)
        consumer = a_member(world, enable_auto_commit=False)
        listener = Told(world)
        consumer.subscribe(["orders"], listener=listener)
        read(world, consumer, 10)
        injection = Injection(world, at=at, act=keyboard_interrupt, lines=lines)
        with injection:
            for number, one in enumerate([KafkaConsumer.unsubscribe, *[call] * len(at)]):
                try:
                    one(consumer)
                except KeyboardInterrupt:
                    continue
                except IllegalStateError:  # `assign`, and `unsubscribe` had not begun
                    consumer.poll(timeout_ms=10)
                    assert consumer.assignment() == {T0, T1}
                if number == injection.hits:
                    break
        keeps_all = consumer.assignment() == {T0, T1} and not listener.taken
        if keeps_all or injection.hit_a_listener:
            return None
        return listener.taken


def lines_of_leaving() -> list[int]:
    """Of each line that gives partitions up, one time that `unsubscribe` runs it."""
    lines: list[Line] = []
    told_in_spite_of(CALLED_NEXT["unsubscribe"], [0], lines)
    first = {line: number for number, line in reversed([*enumerate(lines, 1)])}
    return sorted(
        number
        for (file, _), number in first.items()
        if os.path.basename(file) in ("leaving.py", "rebalancing.py", "delivery.py")
    )


@pytest.mark.parametrize("name", CALLED_NEXT)
@pytest.mark.parametrize("again", [(), pytest.param((40,), marks=pytest.mark.gate)])
def test_a_listener_hears_once_of_each_partition_if_unsubscribe_is_interrupted(
    name: str, again: tuple[int, ...]
) -> None:
    """Simulation, seed 170000328: `subscribe` gave partitions up without a word, as `poll` did."""
    lines = lines_of_leaving()[list(CALLED_NEXT).index(name) :: 2 * len(CALLED_NEXT)]
    told = {
        at: told_in_spite_of(CALLED_NEXT[name], [at, *(at + later for later in again)])
        for at in lines
    }

    once = [({T0, T1}, 1)]
    assert {at: then for at, then in told.items() if then not in (None, once)} == {}
    assert once in told.values()


def interrupted_giving_up(at: int) -> tuple[int, str]:
    """A consumer with partitions assigned by hand, and records of them buffered, is interrupted at
    this line of `unsubscribe`, and polls on.

    Returns how many lines there were, and what is wrong then, if anything.
    """
    with World() as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 20)
        consumer = world.consumer(auto_offset_reset="earliest")
        consumer.assign([T0, TopicPartition("orders", 1)])
        begun = read(world, consumer, 6, within=2.0, max_records=3)
        injection = Injection(world, at=[at], act=keyboard_interrupt)
        with injection, suppress(KeyboardInterrupt):
            consumer.unsubscribe()
        rest = read(world, consumer, 40 - len(begun), within=2.0)
        if consumer.assignment():
            return injection.count, "" if len(begun + rest) == 40 else "records are missing"
        seen = len(world.told)
        world.cluster.fill("orders", 4)
        consumer.poll(1000)
        fetched = [told for told in world.told[seen:] if told["event"] == "chunk.dropped"]
        return injection.count, "nothing is assigned, and it is fetched" if fetched else ""


def test_partitions_assigned_by_hand_are_given_up_or_read_on_after_an_interrupt() -> None:
    """Found by a review: nothing was repaired if no record of an iteration was to be put back."""
    count, _ = interrupted_giving_up(0)

    wrong = {at: interrupted_giving_up(at)[1] for at in range(1, count, 3)}

    assert {at: what for at, what in wrong.items() if what} == {}


def closed_in_spite_of(at: int) -> int:
    """A signal handler raises at this line of `close`, while callbacks that raise wait, too.

    Returns how many lines there were.
    """

    def handler() -> None:
        raise ValueError("of a signal handler")

    with World() as world:
        world.cluster.create_topic("orders", partitions=1)
        consumer = world.consumer(group_id="g", enable_auto_commit=False)
        consumer.assign([T0])
        for offset in (1, 2, 3):
            consumer.commit_async(
                {T0: OffsetAndMetadata(offset, "", -1)}, callback=lambda offsets, outcome: 1 // 0
            )
        injection = Injection(world, at=[at], act=handler)
        with injection, suppress(ValueError, ZeroDivisionError):
            consumer.close(autocommit=False)
        with suppress(ZeroDivisionError):
            consumer.close(autocommit=False)
        consumer.close(autocommit=False)
        return injection.count


@pytest.mark.parametrize("first", all_but_the_first(1, (1, 4)))
def test_close_ends_whatever_a_signal_handler_raises_between_its_callbacks(first: int) -> None:
    """Found by a review: the callbacks that were left waited for ever, and `close` for them."""
    count = closed_in_spite_of(0)

    for at in range(first, count + 1, 6):
        closed_in_spite_of(at)


def interrupted_subscribe(at: int, group_id: str | None) -> tuple[int, int | None]:
    """A consumer is interrupted at this line of `subscribe` to a pattern, and polls on.

    Returns how many lines there were, and how many records it reads; None if it has not subscribed.
    """
    with World() as world:
        for topic in ("orders-eu", "orders-us"):
            world.cluster.create_topic(topic)
            world.cluster.fill(topic, 10)
        consumer = world.consumer(group_id=group_id, auto_offset_reset="earliest")
        injection = Injection(world, at=[at], act=keyboard_interrupt)
        with injection, suppress(KeyboardInterrupt):
            consumer.subscribe(pattern="orders-.*")
        if not consumer._engine.subscription.is_subscribed:
            return injection.count, None
        return injection.count, len(read(world, consumer, 20, within=20.0))


@pytest.mark.parametrize("group_id", all_but_the_first(1, ["g", None]))
def test_a_pattern_is_followed_after_an_interrupt_while_it_was_subscribed_to(
    group_id: str | None,
) -> None:
    count, _ = interrupted_subscribe(0, group_id)

    read_then = {at: interrupted_subscribe(at, group_id)[1] for at in range(1, count)}

    assert {at: records for at, records in read_then.items() if records not in (None, 20)} == {}
    assert set(read_then.values()) == {None, 20}


def test_an_interrupted_look_up_leaves_no_topic_tracked() -> None:
    """It would be asked for with every refresh, for ever."""
    bills = TopicPartition("bills", 0)
    with World() as world:
        world.cluster.create_topic("orders", partitions=1)
        world.cluster.create_topic("bills", partitions=1)
        consumer = world.consumer(group_id=None, auto_offset_reset="earliest")
        consumer.assign([T0])
        left: list[str] = []
        hits, line = 1, 0
        while hits:
            line += 1
            injection = Injection(world, at=[line], act=keyboard_interrupt)
            with injection, suppress(KeyboardInterrupt):
                consumer.end_offsets([bills])
            consumer.poll(timeout_ms=100)
            hits = injection.hits
            left += injection.where if "bills" in consumer.known_topics() else ()

        assert line > 20
        assert left == []


def interrupted_commit(at: int, lines: list[Line]) -> bool:
    """Interrupt a commit at a line of ours; returns whether the next call begins with a repair."""
    with World() as world:
        world.cluster.create_topic("orders", partitions=1)
        world.cluster.fill("orders", 20)
        consumer = world.consumer(group_id="g", auto_offset_reset="earliest")
        consumer.assign([T0])
        assert read(world, consumer, 5, max_records=5)
        injection = Injection(world, at=[at], act=keyboard_interrupt, lines=lines)
        with injection, suppress(KeyboardInterrupt):
            consumer.commit()
        consumer.pause()
        return bool(world.host(consumer).named("call.repaired"))


def test_a_commit_that_is_interrupted_before_it_asks_is_repaired_too() -> None:
    """It first follows topics that were created anew, and drops what was fetched of the old."""
    lines: list[Line] = []
    assert not interrupted_commit(0, lines)

    follows = [at for at, (file, _) in enumerate(lines, 1) if file.endswith("core/positions.py")]
    assert {at: interrupted_commit(at, []) for at in follows} == dict.fromkeys(follows, True)
    assert follows
