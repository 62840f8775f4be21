"""The one account of bytes: what the fetch manager counts as buffered is what the application has.

A real fetch manager and a real delivery; messages between them are late, the manager is restarted,
and the application's thread is interrupted between any two lines.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aktor.consumer.core.credit import Credit
from aktor.consumer.core.delivery import Delivery
from aktor.events.fetching import Chunk, RecordsFetched
from aktor.events.network import Request
from aktor.events.polling import Poll
from aktor.events.positions import AssignmentChanged, Position, SeekPartitions
from aktor.managers.fetch.manager import FetchManager
from aktor.settings import Settings
from aktor.trace import silent
from tests.unit.consumer.core.builders_chunks import read
from tests.unit.managers.fetch.builders import FetchHarness, of, offsets, tp
from tests.unit.records.building import a_batch, values

PARTITIONS = (0, 1, 2)


def a_chunk(size: int = 10, *, incarnation: int = 1) -> Chunk:
    return Chunk(partition=tp(0), epoch=1, offset=0, size=size, incarnation=incarnation)


def test_what_came_and_is_not_held_is_given_back() -> None:
    credit = Credit()
    first, second = a_chunk(10), a_chunk(20)
    for chunk in (first, second):
        credit.count(chunk)
        credit.hold(chunk)
    assert (credit.held, credit.given_back, credit.unreported) == (30, 0, 0)

    credit.let_go([first])
    assert (credit.held, credit.given_back, credit.unreported) == (20, 10, 10)

    credit.report(1, 10)
    assert (credit.given_back, credit.unreported, credit.outstanding(1)) == (10, 0, 20)


def test_a_chunk_is_counted_once_until_all_that_came_was_filed() -> None:
    credit, chunk = Credit(), a_chunk(10)

    credit.count(chunk)
    credit.count(chunk)
    assert credit.has_counted(chunk)
    credit.counted_all()

    assert credit.given_back == 10
    assert not credit.has_counted(chunk)


def test_what_is_held_of_an_earlier_incarnation_is_given_back_to_nobody() -> None:
    credit, old, new = Credit(), a_chunk(10), a_chunk(20, incarnation=2)
    for chunk in (old, new):
        credit.count(chunk)
        credit.hold(chunk)
    assert (credit.held, credit.incarnation, credit.given_back) == (30, 2, 0)

    credit.let_go([old])
    assert (credit.held, credit.given_back, credit.outstanding(1)) == (20, 0, 0)

    credit.let_go([new])
    assert (credit.held, credit.given_back, credit.outstanding(2)) == (0, 20, 20)


class Interrupted(BaseException):
    """As KeyboardInterrupt, from a signal handler."""


def interrupted_after(lines: int, action: Callable[[], Any]) -> bool:
    """Run it, and raise after so many lines of the application's half; whether that happened."""
    left = [lines]

    def on_line(_frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            left[0] -= 1
            if left[0] < 0:
                raise Interrupted
        return on_line

    def on_call(frame: FrameType, _event: str, _arg: Any) -> Any:
        return on_line if "aktor/consumer" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        action()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


class Account(RuleBasedStateMachine):
    """What may happen to a chunk between the fetch manager and the application."""

    def __init__(self) -> None:
        super().__init__()
        self.delivery = Delivery(read, silent())
        self.delivery.assign([tp(one) for one in PARTITIONS])
        self.harness = FetchHarness()
        self.asked: list[Request] = []
        self.way: deque[Chunk] = deque()
        self.polls: deque[Poll] = deque()
        for one in PARTITIONS:
            self.seek(one, 0)
        self.start(1)

    def start(self, incarnation: int) -> None:
        """A fetch manager that knows the cluster, and what is assigned."""
        self.harness.manager = FetchManager(
            Settings(max_buffered_bytes=4096, max_partition_fetch_bytes=1024),
            incarnation=incarnation,
        )
        self.asked, self.taken_back = [], 0
        self.harness.cluster({0: 1, 1: 2, 2: 1})
        self.harness.tell(AssignmentChanged(partitions=self.delivery.as_assigned(), by_group=True))

    # -- the background

    @rule(node=st.integers(0, 2), counts=st.tuples(*[st.integers(0, 9)] * len(PARTITIONS)))
    def a_fetch_is_answered(self, node: int, counts: tuple[int, ...]) -> None:
        self.asked += self.harness.tick(1.0)
        if not self.asked:
            return
        request = self.asked.pop(node % len(self.asked))
        answers = []
        for one, offset in offsets(request).items():
            contents = [b"%d" % number for number in range(counts[one])]
            data = a_batch(values(*contents), base_offset=offset) if contents else b""
            answers.append(of(one, data))
        for said in self.harness.answer(request, *answers, session_id=0):
            if isinstance(said, RecordsFetched):
                self.way += said.chunks

    @precondition(lambda self: self.polls)
    @rule()
    def a_poll_arrives(self) -> None:
        poll = self.polls.popleft()
        self.harness.tell(poll)
        if poll.incarnation == self.harness.manager.incarnation:
            self.taken_back = poll.freed_bytes

    @rule(heard=st.booleans())
    def fetch_restarts(self, heard: bool) -> None:
        self.start(self.harness.manager.incarnation + 1)
        if heard:
            self.renew()
            self.say()

    # -- the application

    def drain(self) -> None:
        while self.way:
            self.delivery.put(self.way[0])
            self.way.popleft()
        self.delivery.credit.counted_all()

    def tell(self) -> None:
        credit = self.delivery.credit
        incarnation, given_back = credit.incarnation, credit.given_back
        moved = self.delivery.take_moved()
        self.polls.append(
            Poll(now=0.0, positions=moved, freed_bytes=given_back, incarnation=incarnation)
        )
        credit.report(incarnation, given_back)

    def renew(self) -> None:
        for state in self.delivery.partitions.values():
            self.delivery.seek(state.topic_partition, state.position)

    def say(self) -> None:
        assigned = self.delivery.as_assigned()
        self.harness.tell(AssignmentChanged(partitions=assigned, by_group=True))

    def seek(self, partition: int, offset: int) -> None:
        self.delivery.seek(tp(partition), Position(offset=offset))

    def read(self, limit: int) -> None:
        self.drain()
        self.delivery.take(limit)

    @rule()
    def everything_that_came_is_filed(self) -> None:
        self.drain()

    @rule(limit=st.integers(1, 20))
    def records_are_read(self, limit: int) -> None:
        self.read(limit)
        self.delivery.offset_gaps.clear()

    @rule()
    def a_poll_is_told(self) -> None:
        self.tell()

    @rule(partition=st.sampled_from(PARTITIONS), offset=st.integers(0, 20))
    def a_partition_is_sought(self, partition: int, offset: int) -> None:
        self.seek(partition, offset)
        state = self.delivery.partitions[tp(partition)]
        self.harness.tell(SeekPartitions(partitions={tp(partition): state.assigned}))

    @rule(partition=st.sampled_from(PARTITIONS))
    def a_partition_is_revoked_and_comes_back(self, partition: int) -> None:
        self.delivery.hold_back([tp(partition)])
        self.drain()
        self.delivery.remove([tp(partition)])
        self.delivery.assign([tp(one) for one in PARTITIONS])
        self.seek(partition, 0)
        self.say()

    @rule(lines=st.integers(0, 60), limit=st.integers(1, 20), doing=st.integers(0, 2))
    def a_call_is_interrupted(self, lines: int, limit: int, doing: int) -> None:
        acts = (lambda: self.read(limit), self.renew, self.tell)
        if not interrupted_after(lines, acts[doing]):
            return
        self.delivery.take_back()
        self.renew()
        self.delivery.recount()
        self.say()

    # -- what holds

    @invariant()
    def the_manager_counts_what_the_application_has_not_given_back(self) -> None:
        manager, credit = self.harness.manager, self.delivery.credit
        mine = manager.incarnation
        way = [one for one in self.way if not credit.has_counted(one)]
        chunks = [one for state in self.delivery.partitions.values() for one in state.chunks]
        held = sum(one.size for one in chunks if one.incarnation == mine)
        on_the_way = sum(one.size for one in way if one.incarnation == mine)
        back = credit.given_back if credit.incarnation == mine else 0
        assert manager.bytes_buffered == on_the_way + held + back - self.taken_back
        assert credit.held == sum(one.size for one in chunks)

    def teardown(self) -> None:
        """Everything is read, and told: nothing is buffered."""
        self.drain()
        self.renew()
        self.tell()
        while self.polls:
            self.a_poll_arrives()
        assert self.harness.manager.bytes_buffered == 0
        assert self.harness.manager.bytes_reserved == self.harness.manager.bytes_asked


TestAccount = Account.TestCase
TestAccount.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
