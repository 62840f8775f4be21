"""Which event leads to what an actor tells: what messages carry, and what it keeps until a tick."""

from __future__ import annotations

from typing import Any

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.actors.runtime.handlers import handles
from aktor.actors.runtime.manager import NEVER, Duty, RequestManager
from aktor.events.coordinator import CoordinatorLost
from aktor.events.lifecycle import Tick, Ticked
from aktor.events.message import Message
from aktor.events.metadata import RefreshMetadata
from aktor.settings import Settings
from aktor.trace import CALL, Strand, Trace, recording


class Acting(RequestManager):
    """Tells that it heard of something loud; acts at a tick if it may, and says so to the other."""

    name = "metadata"

    def __init__(self, dispatcher: Dispatcher, trace: Trace) -> None:
        super().__init__(Settings(), dispatcher=dispatcher, trace=trace)
        self.may_act = True

    def duties(self) -> tuple[Duty, ...]:
        return (self._act,)

    def _act(self, _now: float, _jitter: float) -> float:
        if self.may_act:
            self.log.info("thing.done")
            self._say(CoordinatorLost(because="a test"))
        return NEVER

    @handles(RefreshMetadata)
    def on_refresh(self, asked: RefreshMetadata) -> None:
        if asked.because == "loud":
            self.log.info("thing.heard")


class Hearing(RequestManager):
    """Tells what it hears of the other."""

    name = "commits"

    @handles(CoordinatorLost)
    def on_lost(self, _lost: CoordinatorLost) -> None:
        self.log.info("thing.followed")


class Nobody:
    """Takes the answers to ticks."""

    def tell(self, message: Message) -> None:
        pass


class Harness:
    """The two on a dispatcher, and what they tell."""

    def __init__(self) -> None:
        self.trace, self.events = recording()
        routes = {
            RefreshMetadata: ("metadata",),
            CoordinatorLost: ("commits",),
            Ticked: ("supervisor",),
        }
        self.dispatcher = Dispatcher(routes, trace=self.trace)
        self.dispatcher.connect("supervisor", Nobody())
        self.acting = Acting(self.dispatcher, self.trace)
        self.dispatcher.connect("metadata", self.acting)
        self.dispatcher.connect(
            "commits", Hearing(Settings(), dispatcher=self.dispatcher, trace=self.trace)
        )

    def told(self, because: str, cause: int) -> None:
        """A message comes that this event has led to."""
        self.dispatcher.publish(RefreshMetadata(because=because), cause=cause)
        self._turn()

    def tick(self, *, may_act: bool = True) -> None:
        """A tick, in which the one acts or not."""
        self.acting.may_act = may_act
        self.dispatcher.tell("metadata", Tick(now=0.0, jitter=0.0))
        self._turn()

    def _turn(self) -> None:
        while self.dispatcher._order.waiting:
            self.dispatcher.turn()

    @property
    def causes(self) -> list[tuple[str, Any]]:
        """Each event, and the name or the number of what led to it."""
        names = {one["seq"]: one["event"] for one in self.events}
        return [
            (one["event"], names.get(one.get("cause"), one.get("cause"))) for one in self.events
        ]


def test_what_an_actor_was_told_leads_to_what_it_does_at_the_next_tick_and_to_who_hears_it() -> (
    None
):
    harness = Harness()
    harness.told("quiet", 40)
    harness.tick()

    assert harness.causes == [("thing.done", 40), ("thing.followed", "thing.done")]


def test_an_actor_keeps_the_cause_until_the_tick_that_acts_on_it() -> None:
    harness = Harness()
    harness.told("quiet", 40)
    harness.tick(may_act=False)
    harness.tick(may_act=False)
    harness.tick()
    harness.tick()

    assert [cause for event, cause in harness.causes if event == "thing.done"] == [40, None]


def test_what_it_told_itself_counts_more_than_what_it_only_heard_of_afterwards() -> None:
    harness = Harness()
    harness.told("loud", 40)
    harness.told("quiet", 41)
    harness.tick()

    assert harness.causes[:2] == [("thing.heard", 40), ("thing.done", "thing.heard")]


def test_after_a_tick_the_news_counts_more_than_what_it_told_before_it() -> None:
    harness = Harness()
    harness.told("loud", 40)
    harness.tick(may_act=False)
    harness.told("quiet", 41)
    harness.tick()

    assert harness.causes[1] == ("thing.done", 41)


def test_what_comes_from_outside_has_no_cause() -> None:
    harness = Harness()
    harness.told("loud", 40)
    harness.acting.has_acted()
    harness.told("loud", 0)

    assert harness.causes == [("thing.heard", 40), ("thing.heard", None)]


def test_a_call_of_the_application_takes_the_place_of_what_the_actor_was_told_before() -> None:
    """It has ended a request for a call before, and did nothing since."""
    harness = Harness()
    harness.told("loud", 40)
    harness.tick(may_act=False)
    harness.told("quiet", CALL)
    harness.tick()

    assert harness.causes[1:] == [("thing.done", None), ("thing.followed", "thing.done")]


def test_also_if_both_come_before_the_tick() -> None:
    harness = Harness()
    harness.told("loud", 40)
    harness.told("quiet", CALL)
    harness.tick()

    assert harness.causes[1] == ("thing.done", None)


def test_what_comes_after_the_call_leads_to_what_is_done() -> None:
    harness = Harness()
    harness.told("quiet", CALL)
    harness.told("quiet", 41)
    harness.tick()
    assert harness.causes[0] == ("thing.done", 41)

    harness.told("loud", CALL)
    harness.tick()
    assert harness.causes[2:4] == [("thing.heard", None), ("thing.done", "thing.heard")]


def test_while_nobody_listens_messages_carry_nothing() -> None:
    strand = Strand()
    carried: list[int] = []
    dispatcher = Dispatcher({RefreshMetadata: ("metadata",)})
    dispatcher.connect("metadata", Acting(dispatcher, dispatcher.log))
    dispatcher.publisher(strand)(RefreshMetadata(because="loud"))
    while dispatcher._order.waiting:
        mail = dispatcher._order.take()
        carried.append(mail[2])

    assert carried == [0]


def test_a_message_of_the_application_carries_what_it_told_last_once() -> None:
    strand = Strand()
    strand.last = 7

    assert [strand.take(), strand.take()] == [7, 0]


def test_while_the_application_acts_on_something_all_its_messages_carry_it() -> None:
    strand = Strand()
    strand.follow(7)
    assert [strand.take(), strand.take()] == [7, 7]

    strand.follow(0)
    assert strand.take() == 0


def test_nothing_follows_from_what_is_told_aside() -> None:
    trace, events = recording()
    trace.aside().bind(actor="a").info("thing.seen")
    trace.info("thing.done")

    assert trace.strand.take() == 2
    trace.strand.follow(2)
    trace.aside().info("thing.seen")
    assert (events[-1]["cause"], trace.strand.take()) == (2, 2)


def test_what_the_application_told_before_a_poll_does_not_lead_to_the_poll() -> None:
    strand = Strand()
    strand.last = 7
    strand.forget()
    assert strand.take() == 0

    strand.follow(7)
    strand.last = 8
    strand.forget()
    assert strand.take() == 8  # it acts on something


def test_what_a_call_told_does_not_lead_to_the_next_call() -> None:
    trace, _ = recording()
    strand = trace.strand
    trace.info("thing.sought")
    assert strand.take() == 1

    trace.info("thing.paused")
    strand.begin()
    assert [strand.take(), strand.take()] == [CALL, CALL]
    trace.info("thing.sought")
    assert strand.take() == 3


def test_a_sign_of_life_takes_the_place_of_nothing() -> None:
    trace, _ = recording()
    trace.info("thing.done")
    trace.strand.begin()
    trace.strand.beat()

    assert [trace.strand.take(), trace.strand.take()] == [0, CALL]


def test_while_nobody_listens_a_call_carries_nothing() -> None:
    strand = Strand()
    strand.begin()

    assert [strand.take(), strand.take()] == [0, 0]
