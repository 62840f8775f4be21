"""The application thread's side: what it says, when it wakes the background, what it raises.

The background is a script: messages that come at given times, on a clock that moves only while
the engine waits for its bell.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from kafka import ConsumerRebalanceListener
from kafka.errors import (
    CommitFailedError,
    CorruptRecordError,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.dispatcher import Bell, VirtualTime
from aktor.consumer.core.core import Core
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.partition_errors import POSITION_RETRY
from aktor.consumer.core.poll_heartbeat import CONFIRM_REPEAT, NEWS_EVERY, POLL_REPEAT
from aktor.consumer.core.port import ApplicationPort
from aktor.consumer.core.questions import ANSWER_GRACE, REPORT_WAIT
from aktor.consumer.core.waiting import Blocking, Waiting
from aktor.errors import (
    ActorCrashedError,
    ActorRestartedError,
    BootstrapError,
    RecordDeserializationError,
    UserCallbackError,
    WakeupError,
)
from aktor.events.answers import Answered, Failed
from aktor.events.commits import AutoCommitFinished, CommitOffsets
from aktor.events.coordinator import CoordinatorRefused
from aktor.events.fetching import Chunk, PausePartitions, RecordsFetched
from aktor.events.lifecycle import ActorsRestarted, ConsumerFailed
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    ConfirmSession,
    GroupFailed,
    LeaveGroup,
    Loss,
    MemberChanged,
    MemberState,
    Operation,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
    SessionExtended,
    SubscriptionChanged,
)
from aktor.events.metadata import (
    Cluster,
    ClusterChanged,
    PartitionInfo,
    TopicInfo,
    TopicsRefused,
    TrackTopics,
)
from aktor.events.network import BootstrapFailed, ReportBootstrap
from aktor.events.polling import Poll
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    Position,
    PositionsFailed,
    PositionsResolved,
    Reset,
    ResetPositions,
    ResetStrategy,
    SeekPartitions,
)
from aktor.settings import Settings
from aktor.trace import recording, silent
from aktor.values import replace
from tests.unit.consumer.core.test_delivery import (
    A,
    B,
    C,
    a_chunk,
    a_chunk_of,
    a_refusal,
    offsets,
    read,
)
from tests.unit.records.building import a_batch, values

T = TypeVar("T")

ORDERS = frozenset({"orders"})
CRASH = ZeroDivisionError("a bug")


class ScriptedBell(Bell):
    """A bell whose waiter moves the clock, and hears what is due meanwhile."""

    __slots__ = ("_agenda", "_clock", "_count", "rung", "waits")

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self.rung = False
        self.waits: list[float] = []
        self._clock = clock
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._count = itertools.count()

    def at(self, time: float, act: Callable[[], object]) -> None:
        """Do this when the time has come and somebody waits."""
        heapq.heappush(self._agenda, (time, next(self._count), act))

    def ring(self) -> None:
        """Wake the waiter."""
        self.rung = True

    def wait(self, timeout: float) -> bool:
        """Move on until rung, or by `timeout` seconds."""
        assert len(self.waits) < 10_000, "it spins"
        self.waits.append(timeout)
        until = self._clock.now + max(0.0, timeout)
        while not self.rung and self._agenda and self._agenda[0][0] <= until:
            time, _, act = heapq.heappop(self._agenda)
            self._clock.now = max(self._clock.now, time)
            act()
        rung, self.rung = self.rung, False
        if not rung:
            self._clock.now = until
        return rung


class Site:
    """An engine, the clock it looks at, and what it said to a background that is a script."""

    #: Whether a poll that need not wait ends without a generator; otherwise each poll is one.
    at_once = True

    def __init__(self, *, clock: Any = None, bell: Any = None, **settings: Any) -> None:
        self.clock = clock or VirtualTime(100.0)
        self.bell = bell or ScriptedBell(self.clock)
        self.port = ApplicationPort(self.bell, silent())
        self.port.cluster = Cluster(version=1)  # a broker has answered
        self.said: list[Any] = []
        self.wakes: list[bool] = []
        self.on_said: Callable[[Any], None] = lambda message: None
        self.auto_commits: list[tuple[Any, Any]] = []
        trace, self.events = recording()
        core = Core.make(
            Settings(**{"enable_auto_commit": False, **settings}),
            self.port,
            self.publish,
            self.clock,
            trace,
            make_reader=read,
        )
        self.engine = Engine(
            core, on_auto_commit=lambda offsets, error: self.auto_commits.append((offsets, error))
        )
        self.driver = Blocking(self.bell, self.clock)

    def run(self, operation: Waiting[T]) -> T:
        """Drive it to its end."""
        return self.driver.run(operation)

    def ask(self, *args: Any, **kwargs: Any) -> Any:
        """Ask, and wait for the answer."""
        return self.run(self.engine.questions.ask(*args, **kwargs))

    def commit(self, *args: Any, **kwargs: Any) -> None:
        """Commit and wait."""
        self.run(self.engine.commits.commit(*args, **kwargs))

    def position(self, partition: TopicPartition, deadline: float) -> int | None:
        """The consumed position, asked for as the method of the consumer does."""
        known = self.engine.known_position(partition)
        return self.run(self.engine.position(partition, deadline)) if known is None else known

    def leave(self, *args: Any, **kwargs: Any) -> BaseException | None:
        """Leave the group."""
        return self.run(self.engine.leaving.leave(*args, **kwargs))

    def assign(self, *args: Any, **kwargs: Any) -> None:
        """Assign partitions by hand."""
        self.run(self.engine.assign(*args, **kwargs))

    def unsubscribe(self, *args: Any, **kwargs: Any) -> None:
        """Subscribe to nothing."""
        self.run(self.engine.unsubscribe(*args, **kwargs))

    def publish(self, message: object, *, wake: bool = True) -> None:
        self.said.append(message)
        self.wakes.append(wake)
        self.on_said(message)

    def poll(self, timeout: float = 0.0, limit: int = 500) -> dict[TopicPartition, list[int]]:
        """The offsets that a poll gave out, asked for as the method of the consumer does."""
        now = self.clock.now
        records = self.engine.poll_at_once(now, now + timeout, limit) if self.at_once else None
        if records is None:
            records = self.run(self.engine.poll(now + timeout, limit))
        return offsets(records)

    def hear(self, *messages: object) -> None:
        for message in messages:
            self.port.tell(message)

    def hear_at(self, time: float, *messages: object) -> None:
        self.bell.at(time, lambda: self.hear(*messages))

    def fetched(self, *chunks: Chunk) -> None:
        self.hear(RecordsFetched(chunks=chunks))

    def found(self, partition: TopicPartition = A, offset: int = 0) -> None:
        """Its position is known."""
        self.hear(resolved(self.engine.delivery.partitions[partition].epoch, offset, partition))

    def of(self, kind: type) -> list[Any]:
        return [one for one in self.said if isinstance(one, kind)]

    def told(self, *names: str) -> list[dict[str, Any]]:
        """The trace's events of these names."""
        return [one for one in self.events if one["event"] in names]

    def forget(self) -> None:
        self.said.clear()
        self.wakes.clear()


@pytest.fixture(autouse=True, params=[True, False], ids=["at once", "generator"])
def _both_ways_to_poll(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever holds for a poll holds for both."""
    monkeypatch.setattr(Site, "at_once", request.param)


def resolved(epoch: int, offset: int = 0, partition: TopicPartition = A) -> PositionsResolved:
    position = Position(offset=offset)
    return PositionsResolved(partitions={partition: Assigned(epoch=epoch, position=position)})


def a_site(*partitions: TopicPartition, **settings: Any) -> Site:
    """A consumer with partitions (default: A, in epoch 1) assigned by hand, at offset 0."""
    site = Site(**settings)
    site.assign(partitions or [A])
    for one in partitions or [A]:
        site.found(one)
    _until_all_is_told(site)
    return site


def a_member(*, confirmed_until: float = 145.0, **settings: Any) -> Site:
    """A stable group member that owns A, in epoch 1 and at offset 0."""
    site = Site(group_id="g", **settings)
    site.engine.subscribe(ORDERS, None)
    site.hear(
        MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE),
        SessionExtended(until=confirmed_until),
        an_assignment(A),
    )
    site.poll()
    site.found(A)
    _until_all_is_told(site)
    return site


def _until_all_is_told(site: Site) -> None:
    """A position that was found in a poll is told by the next one."""
    site.poll()
    site.poll()
    site.forget()


def an_assignment(*partitions: TopicPartition, rebalance: int = 1) -> AssignPartitions:
    owned = frozenset(partitions)
    return AssignPartitions(rebalance=rebalance, assigned=owned, added=owned, generation=1)


def a_failure(error: Exception, epoch: int = 1, partition: TopicPartition = A) -> PositionsFailed:
    return PositionsFailed(epochs={partition: epoch}, error=error)


def a_restart(*actors: str) -> ActorsRestarted:
    return ActorsRestarted(actors=actors, because=CRASH)


# -- topics that are deleted and created anew


def the_topic(number: int | None) -> ClusterChanged:
    """A's topic with this id; None: it is deleted."""
    info = TopicInfo(topic_id=number, partitions={0: PartitionInfo(leader=1, leader_epoch=0)})
    topics = {} if number is None else {A.topic: info}
    return ClusterChanged(cluster=Cluster(topics=topics))


def a_site_that_has_read() -> Site:
    """It has come to offset 7 of a topic that has the id 1."""
    site = a_site()
    site.hear(the_topic(1))
    site.engine.seek(A, Position(offset=7))
    site.poll()
    site.forget()
    return site


def test_a_position_in_a_topic_that_was_created_anew_is_reset_by_the_policy() -> None:
    site = a_site_that_has_read()

    site.hear(the_topic(2))
    site.poll()
    site.poll()

    (reset,) = site.of(ResetPositions)
    assert reset.because == "the topic was deleted and created anew"
    assert [(one.strategy, one.from_offset) for one in reset.partitions.values()] == [(None, 7)]


def test_a_reset_in_place_of_another_tells_the_offset_that_the_first_one_came_from() -> None:
    site = a_site_that_has_read()
    epoch = site.engine.delivery.partitions[A].epoch
    site.fetched(a_refusal(OffsetOutOfRangeError({A: 7}), epoch=epoch))
    site.poll()

    site.hear(the_topic(2))
    site.poll()

    told = [one.partitions[A].from_offset for one in site.of(ResetPositions)]
    assert told == [7, 7]


def test_a_reset_that_is_told_again_after_an_interrupt_names_the_same_offset() -> None:
    site = a_site_that_has_read()
    epoch = site.engine.delivery.partitions[A].epoch
    site.fetched(a_refusal(OffsetOutOfRangeError({A: 7}), epoch=epoch))
    site.poll()

    site.engine.recovery.repair()

    first, again = (told.partitions[A] for told in site.of(ResetPositions))
    assert (first.from_offset, again.from_offset) == (7, 7)
    assert again.epoch > first.epoch


def test_a_topic_that_was_gone_for_a_while_is_another_one_as_well() -> None:
    site = a_site_that_has_read()

    site.hear(the_topic(None))
    site.poll()
    still = not site.of(ResetPositions)
    site.hear(the_topic(2))
    site.poll()

    assert still
    assert site.of(ResetPositions)


def test_what_was_read_of_the_old_topic_is_not_committed_for_the_new_one() -> None:
    site = a_site_that_has_read()

    site.hear(the_topic(2))

    assert site.engine.consumed() == {}


@pytest.mark.parametrize("by", ["assign", "subscribe", "a group"])
def test_a_topic_is_known_from_the_moment_that_its_partitions_are_owned(by: str) -> None:
    """The metadata may be older than that, and stay as it is until the topic is another."""
    site = Site(group_id="g" if by == "a group" else None)
    site.hear(the_topic(1))
    site.poll()
    if by == "assign":
        site.assign([A])
    else:
        site.engine.subscribe(ORDERS, None)
    if by == "a group":
        member = MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE)
        site.hear(member, SessionExtended(until=145.0), an_assignment(A))
    site.poll()
    site.found(offset=7)
    site.poll()

    site.hear(the_topic(2))
    site.poll()

    assert site.of(ResetPositions)


def test_a_seek_after_the_topic_was_created_anew_wins() -> None:
    site = a_site_that_has_read()

    site.hear(the_topic(2))
    site.engine.seek(A, Position(offset=3))
    site.poll()

    assert isinstance(site.said[0], ResetPositions)
    assert isinstance(site.said[1], SeekPartitions)
    assert len(site.of(ResetPositions)) == 1
    assert site.engine.consumed()[A].offset == 3


def test_a_member_of_a_kip_848_group_is_assigned_the_new_topic_by_its_coordinator() -> None:
    site = a_member()
    known = MemberChanged(
        member_id="m-1", generation=1, state=MemberState.STABLE, protocol="consumer"
    )
    site.hear(known, the_topic(1))
    site.poll()

    site.hear(the_topic(2))
    site.poll()

    assert not site.of(ResetPositions)


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


# -- a cluster that nobody has reached


def unreached(came: object) -> Site:
    """Nobody has answered; `came` is what the network actor says came of the attempts."""
    site = a_site()
    site.port.cluster = Cluster()

    def answer(said: Any) -> None:
        if isinstance(said, ReportBootstrap):
            site.hear(Answered(ticket=said.ticket, value=came))

    site.on_said = answer
    return site


def test_a_long_poll_does_not_end_with_nothing_if_no_broker_was_ever_reached() -> None:
    site = unreached(BootstrapError(attempts={"b1:9092": "refused"}))

    for _ in range(2):
        with pytest.raises(BootstrapError, match="b1:9092: refused"):
            site.poll(1.0)

    assert site.clock.now == 102.0


def test_a_short_poll_gives_the_brokers_time_to_answer() -> None:
    site = unreached(BootstrapError(attempts={"b1:9092": "no answer yet"}))

    assert site.poll(0.5) == {}
    assert site.of(ReportBootstrap) == []


def test_a_poll_ends_with_nothing_if_a_broker_was_reached_and_has_nothing_to_tell_yet() -> None:
    assert unreached(None).poll(1.0) == {}


def test_a_poll_ends_in_time_if_nobody_says_what_came_of_the_attempts() -> None:
    site = a_site()
    site.port.cluster = Cluster()

    assert site.poll(1.0) == {}
    assert site.clock.now < 100.0 + 1.0 + 2 * REPORT_WAIT


def test_a_member_that_is_not_stable_wakes_the_background_a_stable_one_does_not() -> None:
    site = a_member()
    site.clock.now += POLL_REPEAT
    site.poll()
    assert site.wakes == [False]

    site.hear(MemberChanged(member_id="m-1", generation=-1, state=MemberState.REBALANCING))
    site.clock.now += POLL_REPEAT
    site.poll()
    site.poll()

    assert site.wakes == [False, True]


def test_a_new_assignment_is_followed_by_a_poll_that_wakes() -> None:
    site = a_site()

    site.assign([A, B])
    site.poll()

    assert isinstance(site.said[-1], Poll)
    assert site.wakes[-1]


def test_an_assignment_with_offsets_is_told_with_its_positions() -> None:
    site = a_site()

    site.assign([A, B], {A: 7})

    [told] = [one for one in site.said if isinstance(one, AssignmentChanged)][-1:]
    assert told.partitions[A].position == Position(offset=7)
    assert told.partitions[B].position is None
    assert not [one for one in site.said if isinstance(one, SeekPartitions)]


def test_a_step_of_a_rebalance_is_followed_by_a_poll_that_wakes() -> None:
    site = a_member()
    site.hear(
        RevokePartitions(
            rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED, because="somebody joined"
        )
    )

    site.poll()

    kinds = [type(one) for one in site.said]
    assert kinds == [PartitionsReleased, PausePartitions, Poll]
    assert site.wakes[-1]


def test_a_poll_that_waits_ends_with_records_as_soon_as_they_come() -> None:
    site = a_site()
    site.bell.at(103.0, lambda: site.fetched(a_chunk(count=2)))

    assert site.poll(10.0) == {A: [0, 1]}
    assert site.clock.now == 103.0


def test_a_poll_that_waits_in_vain_ends_at_its_deadline() -> None:
    site = a_site()

    assert site.poll(10.0) == {}
    assert site.clock.now == 110.0


def test_a_long_poll_keeps_telling_that_it_polls() -> None:
    site = a_site(max_poll_interval=30.0)

    site.poll(60.0)

    times = [100.0, *(one.now for one in site.of(Poll))]
    assert all(after - before <= 10.0 for before, after in itertools.pairwise(times))
    assert times[-1] >= 150.0


# -- the session


def test_nothing_is_given_out_by_a_member_that_the_group_has_not_confirmed_lately() -> None:
    site = a_member(confirmed_until=145.0)
    site.fetched(a_chunk())
    site.clock.now = 145.5

    assert site.poll() == {}
    assert site.of(ConfirmSession) == [ConfirmSession()]

    site.hear(SessionExtended(until=190.0))
    assert site.poll() == {A: [0, 1, 2]}


def test_the_session_is_asked_about_again_and_again_but_not_in_every_poll() -> None:
    site = a_member(confirmed_until=145.0)
    site.fetched(a_chunk())
    site.clock.now = 146.0

    site.poll()
    site.poll()
    assert len(site.of(ConfirmSession)) == 1

    site.poll(2.5 * CONFIRM_REPEAT)
    assert len(site.of(ConfirmSession)) == 3


def test_a_poll_that_waits_for_the_group_ends_with_the_records_when_it_answers() -> None:
    site = a_member(confirmed_until=145.0)
    site.fetched(a_chunk())
    site.clock.now = 146.0
    site.hear_at(146.05, SessionExtended(until=190.0))

    assert site.poll(5.0) == {A: [0, 1, 2]}
    assert site.clock.now == pytest.approx(146.05)


def test_a_session_is_not_asked_about_while_there_is_nothing_to_give_out() -> None:
    site = a_member(confirmed_until=145.0)
    site.clock.now = 146.0

    site.poll(5.0)

    assert site.of(ConfirmSession) == []


def test_the_session_is_asked_about_even_if_what_is_here_is_paused() -> None:
    site = a_member(confirmed_until=145.0)
    site.fetched(a_chunk())
    site.engine.pause([A], paused=True)
    site.clock.now = 146.0

    site.poll()

    assert site.of(ConfirmSession) == [ConfirmSession()]


def test_the_session_is_forgotten_about_when_what_waited_for_it_is_gone() -> None:
    site = a_member(confirmed_until=145.0)
    site.fetched(a_chunk())
    site.clock.now = 146.0
    site.poll()
    site.engine.seek(A, Position(offset=40))
    site.bell.waits.clear()

    assert site.poll(20.0) == {}

    assert len(site.of(ConfirmSession)) == 1
    assert len(site.bell.waits) < 5


def test_an_error_of_a_partition_is_not_raised_by_a_member_that_is_not_confirmed() -> None:
    site = a_member(confirmed_until=145.0)
    site.fetched(a_refusal(TopicAuthorizationFailedError()))
    site.clock.now = 146.0

    assert site.poll() == {}

    site.hear(SessionExtended(until=190.0))
    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()


def test_who_is_in_no_group_needs_no_session() -> None:
    site = a_site(group_id="only to commit")
    site.fetched(a_chunk())

    assert site.poll() == {A: [0, 1, 2]}


def test_a_refused_topic_is_raised_once_for_all_its_partitions() -> None:
    site = a_site(A, B, C)
    site.fetched(
        a_refusal(TopicAuthorizationFailedError("orders")),
        a_refusal(TopicAuthorizationFailedError("orders"), partition=B, epoch=2),
        a_refusal(TopicAuthorizationFailedError("others"), partition=C, epoch=3),
    )

    for refused in ("orders", "others"):
        with pytest.raises(TopicAuthorizationFailedError, match=refused):
            site.poll()

    assert site.poll() == {}


# -- out of range, gaps


def test_an_offset_out_of_range_is_reset_by_the_policy_and_raises_nothing() -> None:
    site = a_site()
    site.fetched(a_refusal(OffsetOutOfRangeError({A: 0})))

    assert site.poll() == {}

    (told,) = site.of(ResetPositions)
    assert told.partitions == {A: Reset(epoch=2, from_offset=0)}
    site.hear(resolved(epoch=2, offset=70))
    site.fetched(a_chunk(offset=70, epoch=2))
    assert site.poll() == {A: [70, 71, 72]}


def test_what_was_out_of_range_before_a_seek_resets_nothing() -> None:
    site = a_site()
    site.fetched(a_refusal(OffsetOutOfRangeError({A: 0}), epoch=1))
    site.engine.seek(A, Position(offset=5))

    site.poll()

    assert site.of(ResetPositions) == []
    assert site.position(A, site.clock.now) == 5


def test_a_gap_in_the_buffer_is_fetched_anew_from_the_position() -> None:
    site = a_site()
    site.fetched(a_chunk(count=2), a_chunk(offset=5))
    assert site.poll() == {A: [0, 1]}

    assert site.poll() == {}

    position = Position(offset=2, leader_epoch=5)
    assert site.of(SeekPartitions) == [
        SeekPartitions(partitions={A: Assigned(epoch=2, position=position)})
    ]
    site.fetched(a_chunk(offset=2, epoch=2))
    assert site.poll() == {A: [2, 3, 4]}


def test_what_an_interrupt_took_from_us_is_fetched_anew_from_the_position() -> None:
    site = a_site()
    site.fetched(a_chunk(A, 0, b"0", b"interrupt", b"2"))

    with pytest.raises(KeyboardInterrupt):
        site.poll()
    site.engine.recovery.repair()

    told = site.of(AssignmentChanged)[-1]
    assert told.partitions[A].position == Position(offset=0)
    assert site.of(Poll) == []
    assert site.engine.delivery.credit.unreported > 0
    site.fetched(a_chunk(epoch=told.partitions[A].epoch))
    assert site.poll() == {A: [0, 1, 2]}


# -- what is raised, and in which order


def test_a_wakeup_comes_before_records_and_takes_none() -> None:
    site = a_site()
    site.fetched(a_chunk())
    site.engine.call.wakeup()

    with pytest.raises(WakeupError):
        site.poll()
    assert site.poll() == {A: [0, 1, 2]}


def test_a_wakeup_ends_a_poll_that_waits() -> None:
    site = a_site()
    site.bell.at(103.0, site.engine.call.wakeup)

    with pytest.raises(WakeupError):
        site.poll(10.0)
    assert site.clock.now == 103.0


def test_a_wakeup_outside_of_a_call_is_kept_for_the_next_one_and_spent_there() -> None:
    site = a_site()
    site.engine.call.wakeup()
    site.engine.call.wakeup()

    with pytest.raises(WakeupError):
        site.ask("commits", lambda ticket: ticket, deadline=200.0, what="a commit")
    assert site.poll() == {}


def test_a_wakeup_does_not_end_a_close() -> None:
    site = a_site()
    site.engine.call.wakeup()
    site.engine.call.begin_close()

    assert site.poll() == {}


def test_a_failed_consumer_raises_before_anything_else_and_for_ever() -> None:
    site = a_site()
    failure = ActorCrashedError(actor="fetch", reason="a bug")
    site.fetched(a_chunk())
    site.engine.call.wakeup()
    site.hear(ConsumerFailed(error=failure))

    for _ in range(2):
        with pytest.raises(ActorCrashedError):
            site.poll()
    with pytest.raises(ActorCrashedError):
        site.run(site.engine.commits.commit_async({}, lambda value, error: None))


def test_a_connection_error_is_raised_once_and_before_records() -> None:
    site = a_site()
    site.fetched(a_chunk())
    site.hear(BootstrapFailed(error=BootstrapError(attempts={})))

    with pytest.raises(BootstrapError):
        site.poll()
    assert site.poll() == {A: [0, 1, 2]}


@pytest.mark.parametrize(
    "said",
    [
        TopicsRefused(topics=ORDERS, error=TopicAuthorizationFailedError()),
        GroupFailed(error=GroupAuthorizationFailedError()),
        CoordinatorRefused(error=GroupAuthorizationFailedError()),
    ],
    ids=lambda said: type(said).__name__,
)
def test_what_the_cluster_refuses_is_raised_once_and_before_records(said: Any) -> None:
    site = a_site()
    site.fetched(a_chunk())
    site.hear(said)

    with pytest.raises(type(said.error)):
        site.poll()
    assert site.poll() == {A: [0, 1, 2]}


@pytest.mark.parametrize(
    "told",
    [
        GroupFailed(error=GroupAuthorizationFailedError("g")),
        BootstrapFailed(error=BootstrapError(attempts={"b1:9092": "refused"})),
        ConsumerFailed(error=ActorCrashedError(actor="fetch", reason="a bug")),
    ],
    ids=lambda said: type(said).__name__,
)
def test_the_traceback_of_an_error_is_not_what_the_background_keeps(told: Any) -> None:
    """It would keep a dropped consumer alive: its thread would never end."""
    told.error.__cause__ = KeyError("why")
    site = a_site()
    site.hear(told)

    with pytest.raises(type(told.error)) as raised:
        site.poll()

    assert str(raised.value) == str(told.error)
    assert raised.value.__cause__ is told.error.__cause__
    assert told.error.__traceback__ is None


def test_a_refused_coordinator_is_left_to_the_membership_to_tell() -> None:
    site = a_member()

    site.hear(CoordinatorRefused(error=GroupAuthorizationFailedError()))

    assert site.poll() == {}


def test_of_two_errors_each_poll_raises_one() -> None:
    site = a_site()
    site.hear(
        TopicsRefused(topics=ORDERS, error=TopicAuthorizationFailedError()),
        GroupFailed(error=GroupAuthorizationFailedError()),
    )

    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()
    with pytest.raises(GroupAuthorizationFailedError):
        site.poll()


def test_an_error_is_raised_before_the_records_of_others_which_come_next() -> None:
    site = a_site(A, B)
    site.fetched(a_refusal(TopicAuthorizationFailedError()), a_chunk(B, epoch=2))

    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()
    assert site.poll() == {B: [0, 1, 2]}
    assert site.poll() == {}


@pytest.mark.parametrize(
    "poison",
    [
        a_refusal(CorruptRecordError()),
        a_chunk(A, 0, b"bad"),
        a_chunk_of(a_batch(values(b"0"), crc=1)),
    ],
    ids=["refused", "not deserialized", "corrupt"],
)
def test_an_error_that_only_a_seek_mends_takes_turns_with_the_records_of_a_busy_partition(
    poison: Chunk,
) -> None:
    site = a_site(A, B)
    site.fetched(poison, a_chunk(B, count=30, epoch=2))
    told: list[Any] = []
    for _ in range(9):
        try:
            told.append(site.poll(limit=2)[B])
        except KafkaError:
            told.append("error")
    begun = told.index("error")

    assert begun <= 1  # it may be found while the records of the others are taken
    assert told[begun::2] == ["error"] * len(told[begun::2])
    assert (
        told[1 - begun :: 2] == [[n, n + 1] for n in range(0, 10, 2)][: len(told[1 - begun :: 2])]
    )

    site.engine.seek(A, Position(offset=1))
    assert B in site.poll(limit=2)
    assert B in site.poll(limit=2)


def test_an_error_that_only_a_seek_mends_is_raised_by_each_poll_after_a_pause() -> None:
    """A loop that catches it and polls again does not spin."""
    site = a_site(A, B, retry_backoff=0.1)
    site.fetched(a_refusal(CorruptRecordError()))
    moments = []
    for timeout in (10.0, 10.0, 10.0, 0.03, 0.0):
        with pytest.raises(CorruptRecordError):
            site.poll(timeout)
        moments.append(round(site.clock.now - 100.0, 3))

    assert moments == [0.0, 0.1, 0.2, 0.23, 0.23]


def test_records_that_come_before_an_error_is_raised_again_are_given_out_first() -> None:
    site = a_site(A, B, retry_backoff=0.1)
    site.fetched(a_refusal(CorruptRecordError()))
    with pytest.raises(CorruptRecordError):
        site.poll(10.0)

    site.bell.at(100.05, lambda: site.fetched(a_chunk(B, epoch=2)))

    assert site.poll(10.0) == {B: [0, 1, 2]}
    assert site.clock.now == 100.05
    with pytest.raises(CorruptRecordError):
        site.poll(10.0)
    assert site.clock.now == 100.05


def test_an_error_that_was_raised_and_is_paused_wakes_nobody_again_and_again() -> None:
    site = a_site(A, B, retry_backoff=0.1)
    site.fetched(a_refusal(CorruptRecordError()))
    with pytest.raises(CorruptRecordError):
        site.poll(10.0)
    site.engine.pause([A], paused=True)
    site.bell.waits.clear()

    assert site.poll(10.0) == {}
    assert len(site.bell.waits) <= 3

    site.engine.pause([A], paused=False)
    with pytest.raises(CorruptRecordError):
        site.poll(10.0)
    assert site.clock.now == 110.0


def test_records_that_were_taken_before_an_error_was_found_are_returned_first() -> None:
    site = a_site(A, B)
    site.fetched(a_chunk(A, 0, b"fine", b"bad"), a_chunk(B, 0, epoch=2))

    assert site.poll() == {A: [0], B: [0, 1, 2]}
    site.fetched(a_chunk(B, 3, epoch=2))
    with pytest.raises(RecordDeserializationError):
        site.poll()
    assert site.poll() == {B: [3, 4, 5]}


def test_a_new_error_does_not_wait_for_the_records_that_come_after_an_old_one() -> None:
    site = a_site(A, B, C)
    site.fetched(a_refusal(CorruptRecordError()), a_chunk(C, epoch=3))
    with pytest.raises(CorruptRecordError):
        site.poll()

    site.fetched(a_refusal(TopicAuthorizationFailedError(), partition=B, epoch=2))

    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()
    assert site.poll() == {C: [0, 1, 2]}
    with pytest.raises(CorruptRecordError):
        site.poll()


def test_an_offset_out_of_range_that_is_reset_keeps_nobody_back() -> None:
    site = a_site(A, B)
    site.fetched(a_refusal(OffsetOutOfRangeError({A: 0})), a_chunk(B, epoch=2))

    assert site.poll() == {B: [0, 1, 2]}
    assert [one.partitions for one in site.of(ResetPositions)] == [
        {A: Reset(epoch=3, from_offset=0)}
    ]


def test_many_offsets_out_of_range_are_reset_together() -> None:
    site = a_site(A, B)
    site.fetched(
        a_refusal(OffsetOutOfRangeError({A: 0})),
        a_refusal(OffsetOutOfRangeError({B: 0}), partition=B, epoch=2),
    )

    assert site.poll() == {}
    assert [one.partitions.keys() for one in site.of(ResetPositions)] == [{A, B}]


def test_the_error_of_a_partition_without_a_position_takes_turns_with_records_of_others() -> None:
    site = Site()
    site.assign([A, B])
    site.found(B)
    site.hear(a_failure(NoOffsetForPartitionError({A}), epoch=1))
    site.fetched(a_chunk(B, epoch=2))

    with pytest.raises(NoOffsetForPartitionError):
        site.poll()
    assert site.poll(limit=2) == {B: [0, 1]}
    with pytest.raises(NoOffsetForPartitionError):
        site.poll()
    assert site.poll() == {B: [2]}


def test_raising_an_error_again_and_again_costs_no_memory() -> None:
    site = a_site()
    site.fetched(a_refusal(CorruptRecordError()))
    depths = set()
    for _ in range(3):
        with pytest.raises(CorruptRecordError) as raised:
            site.poll()
        depths.add(len(raised.traceback))

    assert len(depths) == 1


def test_what_a_listener_raises_is_raised_by_the_poll_that_ran_it() -> None:
    site = a_member()
    site.engine.rebalancing.tell(_RaisingListener())
    site.hear(RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED))

    with pytest.raises(UserCallbackError):
        site.poll()

    assert isinstance(site.said[-1], CallbackFinished)
    assert site.engine.rebalancing.user_code.name == ""
    assert site.poll() == {}


class _RaisingListener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: Any) -> None:
        raise CRASH

    def on_partitions_assigned(self, assigned: Any) -> None:
        raise CRASH


def test_the_outcome_of_an_automatic_commit_is_told_to_the_users_callback_in_poll() -> None:
    site = a_site()
    positions = {A: OffsetAndMetadata(3, "", 5)}
    site.hear(AutoCommitFinished(offsets=positions, error=CRASH))
    assert site.auto_commits == []

    site.poll()

    assert site.auto_commits == [(positions, CRASH)]


# -- asking


def test_an_answer_is_returned_and_the_question_is_closed() -> None:
    site = a_site()
    site.on_said = lambda ticket: site.hear_at(101.0, Answered(ticket=ticket, value="found"))

    answer = site.ask("metadata", lambda ticket: ticket, deadline=105.0, what="it")

    assert answer == "found"
    assert site.clock.now == 101.0
    assert site.port.open_questions == 0


def test_an_error_is_raised_and_the_question_is_closed() -> None:
    site = a_site()
    error = GroupAuthorizationFailedError()
    site.on_said = lambda ticket: site.hear(Failed(ticket=ticket, error=error))

    with pytest.raises(GroupAuthorizationFailedError):
        site.ask("metadata", lambda ticket: ticket, deadline=105.0, what="it")
    assert site.port.open_questions == 0


def test_the_actor_says_at_the_deadline_why_there_is_no_answer() -> None:
    site = a_site()
    error = KafkaTimeoutError("the coordinator is not known")
    site.on_said = lambda ticket: site.hear_at(105.01, Failed(ticket=ticket, error=error))

    with pytest.raises(KafkaTimeoutError, match="the coordinator is not known"):
        site.ask("commits", lambda ticket: ticket, deadline=105.0, what="it")

    assert site.clock.now == 105.01
    assert site.port.open_questions == 0


def test_a_question_without_a_time_is_answered_by_the_actor_as_well() -> None:
    site = a_site()
    site.on_said = lambda ticket: site.hear_at(100.01, Answered(ticket=ticket, value="found"))

    assert site.ask("commits", lambda ticket: ticket, deadline=99.0, what="it") == "found"
    assert site.clock.now == 100.01


def test_a_question_without_an_answer_ends_soon_after_its_deadline() -> None:
    site = a_site()

    with pytest.raises(
        KafkaTimeoutError,
        match="the commit of 1 partitions was not done within 5 s, and the commits actor does not",
    ):
        site.commit({A: OffsetAndMetadata(1, "", -1)}, 105.0)

    assert site.clock.now == 105.0 + ANSWER_GRACE
    assert site.port.open_questions == 0


def test_a_question_ends_when_its_actor_is_restarted() -> None:
    site = a_site()
    site.hear_at(101.0, a_restart("commits"))

    with pytest.raises(ActorRestartedError) as raised:
        site.commit({}, 105.0)
    assert raised.value.__cause__ is CRASH


def test_a_wakeup_ends_a_question_and_nobody_waits_for_it_any_more() -> None:
    site = a_site()
    site.bell.at(101.0, site.engine.call.wakeup)

    with pytest.raises(WakeupError):
        site.commit({}, 105.0)
    assert site.port.open_questions == 0


def test_restarted_actors_hear_what_they_must_know_before_they_are_asked() -> None:
    site = a_site()
    site.hear(a_restart("commits"))
    site.on_said = lambda message: (
        site.hear(Answered(ticket=message.ticket)) if isinstance(message, CommitOffsets) else None
    )

    site.commit({}, 105.0)

    kinds = [type(one) for one in site.said]
    assert kinds.index(AssignmentChanged) < kinds.index(CommitOffsets)
    site.forget()
    site.commit({}, 105.0)
    assert [type(one) for one in site.said] == [CommitOffsets]


def test_an_asynchronous_commit_is_said_at_once_and_settled_when_answered() -> None:
    site = a_site()
    endings: list[Any] = []

    site.run(
        site.engine.commits.commit_async(
            {A: OffsetAndMetadata(1, "", -1)}, lambda *end: endings.append(end)
        )
    )

    (said,) = site.of(CommitOffsets)
    assert (said.offsets, said.retry) == ({A: OffsetAndMetadata(1, "", -1)}, False)
    assert endings == []
    site.hear(Answered(ticket=said.ticket))
    assert endings == [(None, None)]


def test_a_commit_callback_that_raises_stop_iteration_ends_no_loop_of_the_user() -> None:
    """Inside our generators it would become a RuntimeError that names none of the user's code
    (PEP 479); raised as it is, it would end `for record in consumer` as if that were over."""
    site = a_site()
    raised = StopIteration("the user's")

    def on_commit() -> None:
        raise raised

    site.engine.commits.callbacks.add(on_commit)
    with pytest.raises(UserCallbackError, match="commit callback throws an error") as caught:
        site.poll()

    assert caught.value.__cause__ is raised
    assert site.poll() == {}


def test_callbacks_of_finished_commits_run_in_poll_and_after_a_commit() -> None:
    site = a_site()
    ran: list[str] = []
    site.engine.commits.callbacks.add(lambda: ran.append("in poll"))
    site.poll()

    site.on_said = lambda message: site.hear(Answered(ticket=message.ticket))
    site.engine.commits.callbacks.add(lambda: ran.append("after a commit"))
    site.commit({}, 105.0)

    assert ran == ["in poll", "after a commit"]


# -- position


def test_a_known_position_is_told_without_waiting() -> None:
    site = a_site()

    assert site.position(A, site.clock.now) == 0
    assert site.bell.waits == []


def test_position_waits_for_the_position() -> None:
    site = Site()
    site.assign([A])
    site.hear_at(102.0, resolved(epoch=1, offset=7))

    assert site.position(A, 110.0) == 7
    assert site.clock.now == 102.0


def test_position_is_none_at_the_deadline() -> None:
    site = Site()
    site.assign([A])

    assert site.position(A, 110.0) is None
    assert site.clock.now == 110.0


def test_a_wakeup_ends_the_wait_for_a_position_but_not_a_look_at_one_that_is_known() -> None:
    site = Site()
    site.assign([A, B])
    site.found(B, offset=3)
    site.engine.call.wakeup()

    assert site.position(B, 110.0) == 3
    with pytest.raises(WakeupError):
        site.position(A, 110.0)


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_a_missing_offset_is_raised_each_time_because_only_a_seek_helps(ask: str) -> None:
    site = Site()
    site.assign([A])
    site.hear(a_failure(NoOffsetForPartitionError({A})))

    for _ in range(3):
        with pytest.raises(NoOffsetForPartitionError):
            _ask(site, ask)
        site.clock.now += 2 * POSITION_RETRY

    assert site.of(AssignmentChanged)[1:] == []
    site.engine.seek(A, Position(offset=0))
    _ask(site, ask)


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_an_error_that_may_pass_is_raised_once_an_attempt(ask: str) -> None:
    site = Site()
    site.assign([A, B])
    site.found(B)
    site.hear(a_failure(TopicAuthorizationFailedError()))

    with pytest.raises(TopicAuthorizationFailedError):
        _ask(site, ask)

    assert _ask(site, ask) in ({}, None)


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_a_position_that_could_not_be_found_is_asked_for_anew_after_a_second(ask: str) -> None:
    site = Site()
    site.assign([A])
    site.hear(a_failure(TopicAuthorizationFailedError()))
    with pytest.raises(TopicAuthorizationFailedError):
        _ask(site, ask)
    site.forget()

    _ask(site, ask, 0.9 * POSITION_RETRY)
    assert site.of(AssignmentChanged) == []

    _ask(site, ask, 0.2 * POSITION_RETRY)
    assert [one.partitions for one in site.of(AssignmentChanged)] == [{A: Assigned(epoch=2)}]


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_each_attempt_that_fails_is_raised_and_the_one_that_succeeds_is_taken(ask: str) -> None:
    site = Site()
    site.assign([A])
    for epoch in (1, 2):
        site.hear(a_failure(TopicAuthorizationFailedError(), epoch=epoch))
        with pytest.raises(TopicAuthorizationFailedError):
            _ask(site, ask, 10.0)
        _ask(site, ask, POSITION_RETRY)

    site.hear(resolved(epoch=3, offset=4))

    assert _ask(site, ask) in ({}, 4)
    assert site.position(A, site.clock.now) == 4


def test_errors_of_one_attempt_for_several_partitions_are_raised_once() -> None:
    site = Site()
    site.assign([A, B])
    error = TopicAuthorizationFailedError()
    site.hear(a_failure(error, 1, A), a_failure(error, 2, B))

    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()
    assert site.poll() == {}
    site.poll(1.1 * POSITION_RETRY)

    asked = site.of(AssignmentChanged)[-1].partitions
    assert {one: assigned.epoch > 2 for one, assigned in asked.items()} == {A: True, B: True}


@pytest.mark.parametrize("ask", ["poll", "position"])
def test_a_call_that_waits_longer_asks_anew_in_time(ask: str) -> None:
    site = Site()
    site.assign([A])
    site.hear(a_failure(TopicAuthorizationFailedError()))
    with pytest.raises(TopicAuthorizationFailedError):
        _ask(site, ask)
    asked_at: list[float] = []
    site.on_said = lambda message: (
        asked_at.append(site.clock.now) if isinstance(message, AssignmentChanged) else None
    )

    _ask(site, ask, 10.0)

    assert asked_at == [100.0 + POSITION_RETRY]


def test_an_error_that_comes_later_in_the_same_attempt_is_not_raised_again() -> None:
    site = Site()
    site.assign([A, B])
    error = TopicAuthorizationFailedError()

    for _ in range(2):
        for one, epoch in _epochs(site).items():
            site.hear(a_failure(error, epoch, one))
            if one == A:
                with pytest.raises(TopicAuthorizationFailedError):
                    site.poll()
            assert site.poll() == {}
        site.poll(1.1 * POSITION_RETRY)


def test_each_error_of_an_attempt_is_raised_if_they_differ() -> None:
    site = Site()
    site.assign([A, B])
    first, second = TopicAuthorizationFailedError({"a"}), GroupAuthorizationFailedError("g")
    site.hear(a_failure(first, 1, A), a_failure(second, 2, B))

    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()
    with pytest.raises(GroupAuthorizationFailedError):
        site.poll()
    assert site.poll() == {}


def _epochs(site: Site) -> dict[TopicPartition, int]:
    return {one: said.epoch for one, said in site.engine.delivery.as_assigned().items()}


def test_a_reset_that_could_not_be_looked_up_is_asked_for_anew_as_a_reset() -> None:
    site = a_site()
    site.engine.reset([A], ResetStrategy.EARLIEST)
    site.hear(a_failure(TopicAuthorizationFailedError(), epoch=2))
    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()
    site.forget()

    site.poll(1.1 * POSITION_RETRY)

    (told,) = site.of(ResetPositions)
    assert told.partitions == {A: Reset(epoch=3, strategy=ResetStrategy.EARLIEST)}


def test_a_partition_that_was_sought_meanwhile_is_not_asked_for_anew() -> None:
    site = Site()
    site.assign([A])
    site.hear(a_failure(TopicAuthorizationFailedError()))
    with pytest.raises(TopicAuthorizationFailedError):
        site.poll()

    site.engine.seek(A, Position(offset=9))
    site.poll(1.1 * POSITION_RETRY)

    assert site.engine.delivery.as_assigned() == {A: Assigned(epoch=2, position=Position(offset=9))}


def _ask(site: Site, how: str, timeout: float = 0.0) -> Any:
    if how == "poll":
        return site.poll(timeout)
    return site.position(A, site.clock.now + timeout)


# -- seek and reset


def test_a_seek_is_said_at_once_with_a_new_epoch() -> None:
    site = a_site()

    site.engine.seek(A, Position(offset=40))

    assert site.said == [
        SeekPartitions(partitions={A: Assigned(epoch=2, position=Position(offset=40))})
    ]


def test_a_seek_forward_in_what_is_buffered_is_not_said() -> None:
    site = a_site()
    site.fetched(a_chunk(count=6))

    site.engine.seek(A, Position(offset=4))

    assert site.said == []
    assert site.poll() == {A: [4, 5]}
    site.poll()
    assert site.of(Poll)[-1].positions[A].offset == 6


def test_a_seek_with_a_leader_epoch_is_said_wherever_it_goes() -> None:
    site = a_site()
    site.fetched(a_chunk(count=6))

    site.engine.seek(A, Position(offset=4, leader_epoch=5))

    assert [type(message) for message in site.said] == [SeekPartitions]
    assert site.engine.delivery.buffered_bytes == 0


@pytest.mark.parametrize("go", ["seek", "reset"])
def test_what_came_before_a_seek_is_let_go_of_at_once(go: str) -> None:
    """Who seeks again and again and does not poll: the buffer would grow without bound."""
    site = a_site()
    for epoch in range(1, 4):
        site.fetched(a_chunk(epoch=epoch))
        if go == "seek":
            site.engine.seek(A, Position(offset=100))
        else:
            site.engine.reset([A], ResetStrategy.EARLIEST)

        assert not site.port.chunks
        assert site.engine.delivery.buffered_bytes == 0

    site.poll()
    assert site.of(Poll)[-1].freed_bytes == 3 * a_chunk().size


def test_paused_partitions_keep_what_is_buffered_but_for_what_is_beyond_the_bound() -> None:
    size = a_chunk(count=1).size
    site = a_site(A, B, max_buffered_bytes=2 * size)
    site.fetched(a_chunk(count=1), a_chunk(count=1, partition=B, epoch=2))
    site.engine.pause([A], paused=True)
    assert not site.of(SeekPartitions)

    site.fetched(a_chunk(offset=1, count=1, partition=B, epoch=2))
    site.engine.pause([B], paused=True)

    assert site.engine.delivery.buffered_bytes == size
    (sought,) = site.of(SeekPartitions)
    assert sought.partitions == {B: Assigned(epoch=3, position=Position(offset=0))}
    site.engine.pause([A, B], paused=False)
    site.fetched(a_chunk(count=2, partition=B, epoch=3))
    assert site.poll() == {A: [0], B: [0, 1]}


def test_what_came_for_a_paused_partition_is_beyond_the_bound_when_another_one_is_paused() -> None:
    size = a_chunk(count=1).size
    site = a_site(A, B, C, max_buffered_bytes=size)
    site.engine.pause([A], paused=True)
    site.fetched(a_chunk(count=1), a_chunk(count=1, partition=B, epoch=2))

    site.engine.pause([C], paused=True)

    assert site.engine.delivery.buffered_bytes == size
    (sought,) = site.of(SeekPartitions)
    assert sought.partitions.keys() == {A}


class _NotWalked(dict[Any, Any]):
    def __iter__(self) -> Any:
        raise AssertionError("all partitions are walked")

    items = values = keys = __iter__


def test_a_pause_looks_at_the_partitions_that_are_paused_and_at_no_others() -> None:
    """Who pauses thousands one by one, while the buffer is full, does not walk all each time."""
    site = a_site(A, B, C, max_buffered_bytes=a_chunk(count=1).size)
    site.fetched(a_chunk(count=9, partition=C, epoch=3))
    site.engine.delivery.partitions = _NotWalked(site.engine.delivery.partitions)

    site.engine.pause([A], paused=True)
    site.engine.pause([B], paused=True)
    assert not site.of(SeekPartitions)
    site.engine.pause([C], paused=True)

    assert len(site.of(SeekPartitions)) == 1


def test_a_reset_is_said_at_once_and_leaves_no_position() -> None:
    site = a_site(A, B)

    site.engine.reset([B], ResetStrategy.LATEST)

    (told,) = site.of(ResetPositions)
    assert told.partitions == {B: Reset(epoch=3, strategy=ResetStrategy.LATEST)}
    assert site.position(B, site.clock.now) is None
    assert site.position(A, site.clock.now) == 0


# -- subscription


def test_subscribing_in_a_group_is_said_to_the_membership() -> None:
    site = Site(group_id="g")

    site.engine.subscribe(ORDERS, None)

    assert site.said == [
        TrackTopics(owner="application", topics=ORDERS),
        AssignmentChanged(partitions={}, by_group=True),
        SubscriptionChanged(topics=ORDERS),
    ]


def test_subscribing_without_a_group_is_to_own_all_partitions_and_those_that_come() -> None:
    site = Site(group_id=None)
    site.hear(ClusterChanged(cluster=a_cluster(1)))

    site.engine.subscribe(ORDERS, None)
    assert set(site.engine.delivery.partitions) == {A}

    site.hear(ClusterChanged(cluster=a_cluster(2)))
    site.poll()
    assert set(site.engine.delivery.partitions) == {A, B}
    assert not site.of(AssignmentChanged)[-1].by_group


OTHERS = frozenset({"others"})


def test_what_is_buffered_of_a_topic_that_is_left_out_is_dropped_and_not_fetched_any_more() -> None:
    site = a_member()
    site.fetched(a_chunk(count=10, epoch=1))
    site.poll(limit=4)
    site.forget()

    site.engine.subscribe(OTHERS, None)

    state = site.engine.delivery.partitions[A]
    assert (state.buffered_bytes, state.offset) == (0, 4)
    assert site.of(AssignmentChanged)[-1].partitions == {A: state.assigned}
    assert site.of(PausePartitions) == [PausePartitions(partitions=frozenset({A}))]
    assert site.of(SubscriptionChanged) == [SubscriptionChanged(topics=OTHERS)]
    site.fetched(a_chunk(count=10, epoch=state.epoch))
    assert site.poll() == {}


def test_a_topic_that_is_subscribed_again_is_fetched_from_its_position() -> None:
    site = a_member()
    site.fetched(a_chunk(count=10, epoch=1))
    site.poll(limit=4)
    site.engine.subscribe(OTHERS, None)
    site.forget()

    site.engine.subscribe(ORDERS, None)

    state = site.engine.delivery.partitions[A]
    assert site.of(PausePartitions) == [PausePartitions(resumed=frozenset({A}))]
    assert site.of(AssignmentChanged)[-1].partitions[A] == state.assigned
    site.fetched(a_chunk(A, 4, count=6, epoch=state.epoch))
    assert site.poll() == {A: [4, 5, 6, 7, 8, 9]}


def test_an_application_that_has_paused_a_partition_must_resume_it_itself() -> None:
    site = a_member()
    site.engine.pause([A], paused=True)
    site.engine.subscribe(OTHERS, None)
    site.forget()

    site.engine.pause([A], paused=False)  # not subscribed: nothing is fetched
    site.engine.pause([A], paused=True)
    site.engine.subscribe(ORDERS, None)

    assert all(not one.resumed for one in site.of(PausePartitions))
    assert not site.engine.delivery.partitions[A].fetchable


def test_partitions_that_are_assigned_for_the_subscription_of_before_give_out_nothing() -> None:
    site = Site(group_id="g")
    site.engine.subscribe(ORDERS, None)
    site.hear(
        MemberChanged(member_id="m-1", generation=1, state=MemberState.STABLE),
        SessionExtended(until=145.0),
        an_assignment(A),
    )
    site.engine.subscribe(OTHERS, None)

    site.poll()
    site.found(A)
    site.fetched(a_chunk(count=10, epoch=site.engine.delivery.partitions[A].epoch))

    assert site.poll() == {}
    assert site.of(PausePartitions)[-1].partitions == {A}


def test_a_subscribe_that_was_interrupted_gives_out_nothing_of_what_it_leaves_out() -> None:
    site = a_member()
    site.fetched(a_chunk(count=10, epoch=1))
    site.engine.subscription.replace(OTHERS, None, "")  # here the interrupt came

    site.engine.recovery.repair()

    site.fetched(a_chunk(count=10, epoch=site.engine.delivery.partitions[A].epoch))
    assert site.poll() == {}
    assert site.of(PausePartitions)[-1].partitions == {A}


def test_what_a_pattern_of_the_brokers_leaves_out_is_known_when_the_group_revokes_it() -> None:
    site = a_member(group_protocol="consumer")
    site.fetched(a_chunk(count=10, epoch=1))

    site.engine.subscribe(frozenset(), None, regex="others.*")

    assert len(site.poll()[A]) == 10


def a_cluster(partitions: int) -> Cluster:
    info = PartitionInfo(leader=1, leader_epoch=0)
    topic = TopicInfo(topic_id=None, partitions=dict.fromkeys(range(partitions), info))
    return Cluster(version=partitions, topics={"orders": topic})


def test_a_rebalance_gives_partitions_and_takes_them_in_polls() -> None:
    site = a_member()
    site.hear(
        RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED),
        an_assignment(B, rebalance=3),
    )
    assert set(site.engine.delivery.partitions) == {A}

    site.poll()

    assert set(site.engine.delivery.partitions) == {B}
    assert [one.rebalance for one in site.of(CallbackFinished)] == [2, 3]


def test_unsubscribing_gives_the_partitions_back_leaves_and_owns_nothing() -> None:
    site = a_member()
    site.on_said = lambda message: (
        site.hear(Answered(ticket=message.ticket)) if isinstance(message, LeaveGroup) else None
    )

    site.unsubscribe(site.clock.now + 10)

    assert site.engine.delivery.partitions == {}
    assert site.engine.subscription.topics == frozenset()
    assert len(site.of(LeaveGroup)) == 1
    assert site.of(SubscriptionChanged) == [SubscriptionChanged(topics=frozenset())]
    assert site.said[-1] == AssignmentChanged(partitions={})


@pytest.mark.parametrize(
    "said",
    [
        TopicsRefused(topics=ORDERS, error=TopicAuthorizationFailedError()),
        GroupFailed(error=GroupAuthorizationFailedError()),
    ],
    ids=lambda said: type(said).__name__,
)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_who_has_unsubscribed_is_not_told_what_the_group_or_its_topics_refused(
    said: Any, when: str
) -> None:
    site = a_member()
    if when == "before":
        site.hear(said)
    answers = {"before": (), "meanwhile": (said,)}[when]
    site.on_said = lambda message: (
        site.hear(*answers, Answered(ticket=message.ticket))
        if isinstance(message, LeaveGroup)
        else None
    )

    site.unsubscribe(site.clock.now + 10)

    assert site.poll() == {}


def test_a_static_member_that_has_unsubscribed_may_still_leave_for_good() -> None:
    """Until then it keeps its place in the group."""
    site = a_member(group_instance_id="i")
    site.on_said = lambda message: (
        site.hear(Answered(ticket=message.ticket)) if isinstance(message, LeaveGroup) else None
    )
    site.unsubscribe(site.clock.now + 10)

    site.leave(site.clock.now + 10, because="close", operation=Operation.LEAVE_GROUP)

    operations = [one.operation for one in site.of(LeaveGroup)]
    assert operations == [Operation.DEFAULT, Operation.LEAVE_GROUP]


@pytest.mark.parametrize(("asleep", "told"), [(40.0, "revoked"), (50.0, "lost")])
def test_who_leaves_after_the_session_has_run_out_is_told_lost(asleep: float, told: str) -> None:
    site = a_member(confirmed_until=145.0)
    site.engine.rebalancing.listener = listener = _NotingListener()
    site.clock.now += asleep

    site.leave(site.clock.now + 1.0, because="the consumer was closed")

    assert listener.heard == [told]


class _NotingListener(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.heard.append("assigned")

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.heard.append("revoked")

    def on_partitions_lost(self, lost: Any) -> None:
        self.heard.append("lost")


def test_nothing_is_fetched_while_the_listener_hears_that_its_consumer_leaves() -> None:
    site = a_member()
    paused: list[bool] = []

    class Looking(_NotingListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            paused.append(PausePartitions(partitions=frozenset(revoked)) in site.said)

    site.engine.rebalancing.listener = Looking()

    site.unsubscribe(site.clock.now + 10)

    assert paused == [True]


def test_what_the_group_says_until_it_hears_of_the_leaving_is_not_applied() -> None:
    site = a_member()
    site.on_said = lambda message: (
        site.hear(an_assignment(B, rebalance=2), Answered(ticket=message.ticket))
        if isinstance(message, LeaveGroup)
        else None
    )

    site.unsubscribe(site.clock.now + 10)
    site.poll()

    assert site.engine.delivery.partitions == {}


@pytest.mark.parametrize(
    ("interrupt", "raised"),
    [
        (lambda site: site.engine.call.wakeup(), WakeupError),
        (
            lambda site: site.hear(BootstrapFailed(error=BootstrapError(attempts={}))),
            BootstrapError,
        ),
    ],
    ids=["wakeup", "connection error"],
)
def test_what_interrupts_waits_until_the_group_has_heard_of_the_leaving(
    interrupt: Callable[[Site], None], raised: type[Exception]
) -> None:
    """Else steps of the membership that was left would be taken; and nobody would hear of it."""
    site = a_member()
    interrupt(site)
    site.on_said = lambda message: (
        site.hear_at(100.5, an_assignment(B, rebalance=2), Answered(ticket=message.ticket))
        if isinstance(message, LeaveGroup)
        else None
    )

    site.unsubscribe(site.clock.now + 10)
    site.engine.subscribe(ORDERS, None)

    with pytest.raises(raised):
        site.poll()
    assert site.poll(1.0) == {}
    assert site.engine.delivery.partitions == {}


def test_who_leaves_while_the_membership_is_restarted_leaves_under_the_id_it_had() -> None:
    """Else the group would keep its partitions for it until the session ends."""
    site = a_member()
    no_member = MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED)
    replies = [
        lambda message: (no_member, a_restart("membership")),
        lambda message: (Answered(ticket=message.ticket),),
    ]
    site.on_said = lambda message: (
        site.hear(*replies.pop(0)(message)) if isinstance(message, LeaveGroup) else None
    )

    site.leave(site.clock.now + 10.0, because="the consumer was closed")

    first, again = site.of(LeaveGroup)
    assert again.deadline == first.deadline == 110.0
    assert site.of(SubscriptionChanged)[0] == SubscriptionChanged(topics=ORDERS, member_id="m-1")
    assert site.clock.now == 100.0


def test_leaving_waits_for_commits_under_way_and_keeps_time_for_leaving() -> None:
    site = a_member()
    site.run(site.engine.commits.commit_async({}, lambda value, error: None))

    site.leave(site.clock.now + 10.0, because="the consumer was closed")

    (leave,) = site.of(LeaveGroup)
    assert leave.deadline == 110.0
    assert site.bell.waits[-2:] == [pytest.approx(7.5), pytest.approx(2.5 + ANSWER_GRACE)]
    assert site.clock.now == pytest.approx(110.0 + ANSWER_GRACE)


def test_the_time_that_is_kept_for_leaving_is_kept_once() -> None:
    """`close` waits for its last commit first, and has used the time of commits up by then."""
    site = a_member()
    site.run(site.engine.commits.commit_async({}, lambda value, error: None))
    deadline = site.clock.now + 2.5

    site.leave(deadline, because="the consumer was closed", commits_until=site.clock.now)

    assert site.bell.waits[-1] == pytest.approx(2.5 + ANSWER_GRACE)


# -- after an interrupt, or a restart


def test_a_repair_tells_which_partitions_are_paused_and_which_are_not() -> None:
    """The interrupted call may have been `pause` or `resume`."""
    site = a_site(A, B)
    site.engine.pause([B], paused=True)
    site.forget()

    site.engine.recovery.repair()

    assert site.of(PausePartitions) == [
        PausePartitions(partitions=frozenset({B}), resumed=frozenset({A}))
    ]


def test_a_call_that_acts_on_a_restart_has_changed_something() -> None:
    """So it is repaired if it is interrupted then, even if it is one that only asks."""
    site = a_site(A)
    site.hear(a_restart("fetch"))
    site.engine.begin_call()

    site.run(site.engine.recovery.restore_if_restarted())

    assert site.engine.call.touched


def test_restarted_actors_hear_everything_again_in_new_epochs() -> None:
    site = a_site(A, B)
    site.engine.seek(B, Position(offset=40))
    site.engine.delivery.partitions[B].paused = True
    site.forget()

    site.hear(a_restart("fetch"))
    site.poll()

    again = {
        A: Assigned(epoch=4, position=Position(offset=0)),
        B: Assigned(epoch=5, position=Position(offset=40)),
    }
    assert site.said == [
        TrackTopics(owner="application", topics=ORDERS),
        AssignmentChanged(partitions=again),
        PausePartitions(partitions=frozenset({B})),
        Poll(
            now=100.0,
            positions={A: OffsetAndMetadata(0, "", -1), B: OffsetAndMetadata(40, "", -1)},
            freed_bytes=0,
        ),
    ]
    assert site.wakes[-1]


def test_what_was_buffered_before_a_restart_is_dropped_and_fetched_again() -> None:
    site = a_site()
    site.fetched(a_chunk())
    site.hear(a_restart("fetch"))

    assert site.poll() == {}

    site.fetched(a_chunk(epoch=2))
    assert site.poll() == {A: [0, 1, 2]}


def test_a_restarted_fetch_manager_is_not_told_what_was_freed_of_its_predecessors() -> None:
    """It has counted none of that: it would fetch as much too much."""
    site = a_site(A, B)
    site.fetched(a_chunk(partition=B))
    site.engine.positions.drain_buffer()
    site.fetched(a_chunk())  # has come and was not looked at
    site.hear(a_restart("fetch"))

    site.poll()
    assert {one.incarnation for one in site.of(Poll)} == {1}

    epoch = site.engine.delivery.partitions[A].epoch
    site.fetched(replace(a_chunk(epoch=epoch, count=5), incarnation=2))
    site.poll()
    site.poll()
    last = site.of(Poll)[-1]
    assert (last.incarnation, last.freed_bytes) == (2, a_chunk(count=5).size)


def test_what_a_new_fetch_manager_sent_before_its_start_was_heard_of_is_given_back() -> None:
    """It may have fetched by an assignment that was told before. It would have less room for ever
    if that were forgotten with what its predecessor sent."""
    site = a_site(A, B)
    site.fetched(a_chunk(partition=B))
    site.engine.positions.drain_buffer()
    site.fetched(new := replace(a_chunk(), incarnation=2))
    site.hear(a_restart("fetch"))

    site.poll()
    site.poll()

    last = site.of(Poll)[-1]
    assert (last.incarnation, last.freed_bytes) == (2, new.size)


def test_a_reset_that_was_not_answered_is_repeated_after_a_restart() -> None:
    site = a_site(A, B)
    site.engine.reset([A], ResetStrategy.EARLIEST)
    site.engine.reset([B], ResetStrategy.LATEST)
    site.found(B, offset=9)
    site.poll()
    site.forget()

    site.hear(a_restart("positions", "fetch"))
    site.poll()

    (told,) = site.of(ResetPositions)
    (assigned,) = site.of(AssignmentChanged)
    epoch = assigned.partitions[A].epoch
    assert told.partitions == {A: Reset(epoch=epoch, strategy=ResetStrategy.EARLIEST)}


def test_a_restarted_membership_is_joined_again_under_the_last_known_member_id() -> None:
    site = a_member()
    listener = _Noting()
    site.engine.rebalancing.listener = listener

    site.hear(a_restart("membership", "commits", "positions", "fetch"))
    site.poll()

    assert listener.lost == [{A}]
    assert site.engine.delivery.partitions == {}
    assert site.of(SubscriptionChanged) == [SubscriptionChanged(topics=ORDERS, member_id="m-1")]


def test_a_restarted_membership_is_told_as_whom_it_has_yet_to_leave() -> None:
    site = a_member()
    former = frozenset({"m-0"})
    site.hear(
        MemberChanged(member_id="m-1", generation=3, state=MemberState.STABLE, leaving=former)
    )

    site.hear(a_restart("membership", "commits", "positions", "fetch"))
    site.poll()

    (said,) = site.of(SubscriptionChanged)
    assert said.leaving == former


def test_of_one_who_has_unsubscribed_it_is_told_as_well_and_joins_nothing() -> None:
    site = a_site(group_id="g")
    former = frozenset({"m-0"})
    unjoined = MemberState.UNJOINED
    site.hear(MemberChanged(member_id="", generation=-1, state=unjoined, leaving=former))

    site.hear(a_restart("membership", "commits", "positions", "fetch"))
    site.poll()

    (said,) = site.of(SubscriptionChanged)
    assert said == SubscriptionChanged(topics=frozenset(), leaving=former)


class _Noting(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.lost: list[Any] = []

    def on_partitions_revoked(self, revoked: Any) -> None:
        raise AssertionError("they are lost, not revoked")

    def on_partitions_lost(self, lost: Any) -> None:
        self.lost.append(lost)

    def on_partitions_assigned(self, assigned: Any) -> None:
        raise AssertionError("nothing is assigned")


def test_steps_of_a_membership_that_is_gone_are_not_taken() -> None:
    site = a_member()
    site.hear(an_assignment(A, B, rebalance=2), a_restart("membership", "fetch"))
    site.port.events.rotate(1)  # the restart is read first, the step came before it

    site.poll()

    assert site.engine.delivery.partitions == {}
    assert site.of(CallbackFinished) == []


def test_what_was_to_be_revoked_is_lost_if_the_membership_ended_before_the_user_came_back() -> None:
    site = a_member()
    listener = site.engine.rebalancing.listener = _Noting()
    site.hear(
        RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED),
        RevokePartitions(
            rebalance=2, partitions=frozenset({B}), loss=Loss.LOST, because="too late"
        ),
    )

    site.poll()

    assert listener.lost == [{A}]


def test_what_was_to_be_revoked_is_lost_if_the_member_is_in_no_group_any_more() -> None:
    site = a_member()
    listener = site.engine.rebalancing.listener = _Noting()
    site.hear(
        RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED),
        MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED),
    )

    site.poll()

    assert listener.lost == [{A}]


def test_what_was_to_be_revoked_is_lost_if_the_session_has_run_out_unheard() -> None:
    """Simulation, seed 15000820: frozen before its callback ran, it gave up what others had."""
    site = a_member(confirmed_until=145.0)
    listener = site.engine.rebalancing.listener = _Noting()
    site.hear(RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED))
    site.clock.now += 50.0

    site.poll()

    assert listener.lost == [{A}]


def test_what_the_listener_raises_for_lost_partitions_is_raised_after_all_was_said() -> None:
    site = a_member()
    site.engine.rebalancing.tell(_RaisingListener())

    site.hear(a_restart("membership"))
    with pytest.raises(UserCallbackError):
        site.poll()

    assert site.of(SubscriptionChanged)
    assert site.of(PausePartitions)


def test_a_callback_of_taking_on_that_finds_the_membership_restarted_loses_everything() -> None:
    site = a_member()
    listener = site.engine.rebalancing.listener = _LookingUp(site, "assigned")
    site.hear(an_assignment(A, B, rebalance=2))

    site.poll()

    assert listener.heard == ["assigned", "lost"]
    assert site.engine.delivery.partitions == {}
    assert site.of(SubscriptionChanged) == [SubscriptionChanged(topics=ORDERS, member_id="m-1")]


def test_what_is_being_revoked_is_not_told_to_be_lost_too() -> None:
    """Simulation, seed 2200515: the membership was restarted while the callback committed."""
    for added, told in (((), []), ((B,), [("lost", {B})])):
        site = a_member()
        if added:
            site.hear(an_assignment(A, *added))
            site.poll()
        listener = site.engine.rebalancing.listener = _Revoked(site)
        step = RunRevokedCallback(rebalance=2, partitions=frozenset({A}), loss=Loss.REVOKED)
        site.hear(step)

        with pytest.raises(UserCallbackError) as raised:
            site.poll()

        assert listener.told == [("revoked", {A}), *told]
        assert isinstance(raised.value.__cause__, CommitFailedError)
        assert site.engine.delivery.partitions == {}


class _Revoked(ConsumerRebalanceListener):
    """Commits in vain when it is told that partitions are revoked: the membership is restarted."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.told: list[tuple[str, Any]] = []

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.told.append(("revoked", revoked))
        self.site.hear(a_restart("membership"))
        self.site.run(self.site.engine.recovery.restore_if_restarted())
        raise CommitFailedError

    def on_partitions_lost(self, lost: Any) -> None:
        self.told.append(("lost", lost))

    def on_partitions_assigned(self, assigned: Any) -> None:
        raise AssertionError("nothing is assigned")


def test_a_restart_that_a_callback_has_dealt_with_is_over() -> None:
    site = a_member()
    site.engine.rebalancing.listener = _LookingUp(site, "lost")
    site.hear(a_restart("membership"), a_restart("fetch"))

    site.run(site.engine.recovery.restore_if_restarted())

    assert site.engine.delivery.partitions == {}
    assert len(site.of(TrackTopics)) == 3


class _LookingUp(_NotingListener):
    """Asks for something in this callback, during which an actor is restarted."""

    def __init__(self, site: Site, callback: str) -> None:
        super().__init__()
        self.site, self.callback = site, callback

    def on_partitions_assigned(self, assigned: Any) -> None:
        super().on_partitions_assigned(assigned)
        self.look_up("assigned", a_restart("membership"))

    def on_partitions_lost(self, lost: Any) -> None:
        super().on_partitions_lost(lost)
        self.look_up("lost", a_restart("commits"))

    def look_up(self, callback: str, restart: ActorsRestarted) -> None:
        if callback == self.callback:
            self.site.hear(restart)
            self.site.run(self.site.engine.recovery.restore_if_restarted())


def test_position_says_everything_again_before_it_waits() -> None:
    site = Site()
    site.assign([A])
    site.hear(a_restart("positions", "fetch"))
    site.forget()
    site.hear_at(101.0, resolved(epoch=2, offset=6))

    assert site.position(A, 110.0) == 6
    assert site.of(AssignmentChanged) == [AssignmentChanged(partitions={A: Assigned(epoch=2)})]


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
