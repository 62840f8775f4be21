"""A manager that was told nothing, and did not want to wake, has nothing to say; and one that
makes what it shows only now and then shows what is so."""

from __future__ import annotations

import pytest

from aktor.actors.runtime.dispatcher import CooperativeActor
from aktor.actors.runtime.ticks import Ticks
from aktor.events.lifecycle import Tick, TickDue, Ticked
from aktor.events.network import Request
from aktor.managers.membership.manager import GroupMembershipManager
from aktor.simulation.world.crashes import ACTORS
from tests.gate import all_but_the_first
from tests.scenarios.harness import Harness
from tests.scenarios.world import seeds


class Asker:
    """Has everybody asked in every round, and notes who had no reason to be, but said something."""

    def __init__(self) -> None:
        self.asked_in_vain = 0
        self.surprises: list[tuple[str, tuple[Request, ...]]] = []
        self._told: set[str] = set()
        self._without_reason: set[str] = set()
        self._wake_at: dict[tuple[str, int], float] = {}

    def hear(self, actor: CooperativeActor, message: object) -> None:
        """Called before each message."""
        if isinstance(message, Tick):
            due = self._wake_at.get((actor.name, actor.incarnation), message.now) <= message.now
            if not due and actor.name not in self._told:
                self._without_reason.add(actor.name)
                self.asked_in_vain += 1
            self._told.discard(actor.name)
        elif isinstance(message, Ticked):
            if message.actor in self._without_reason and message.requests:
                self.surprises.append((message.actor, message.requests))
            self._without_reason.discard(message.actor)
            self._wake_at[message.actor, message.incarnation] = message.wake_at
        elif not isinstance(message, TickDue):
            self._told.add(actor.name)


@pytest.mark.parametrize("seed", all_but_the_first(1, seeds(3)))
def test_who_was_told_nothing_and_did_not_want_to_wake_has_nothing_to_send(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Ticks.begin

    def begin_with_news_for_all(ticks: Ticks, now: float) -> None:
        ticks.news.update(ACTORS)
        begin(ticks, now)

    monkeypatch.setattr(Ticks, "begin", begin_with_news_for_all)
    harness = Harness(seed)
    asker = Asker()
    harness.host.before_each = asker.hear

    harness.run()

    assert asker.asked_in_vain > 1000
    assert asker.surprises == []
    harness.end()


def test_who_has_no_reason_to_be_asked_is_never_asked() -> None:
    harness = Harness(seed=0)
    asker = Asker()
    harness.host.before_each = asker.hear

    harness.run()

    assert asker.asked_in_vain == 0
    harness.end()


class Looker:
    """After each tick of the membership it has what is shown made anew, and compares."""

    def __init__(self) -> None:
        self.looks = 0
        self.stale: list[tuple[object, object]] = []
        self._ticked: tuple[GroupMembershipManager, float] | None = None

    def hear(self, actor: CooperativeActor, message: object) -> None:
        """Called before each message: the tick before it is over."""
        if self._ticked is not None:
            manager, now = self._ticked
            shown, self._ticked = manager.present, None
            manager._shown.differs()
            manager.note_present(now)
            self.looks += 1
            if manager.present != shown:
                self.stale.append((shown, manager.present))
        if isinstance(message, Tick) and isinstance(actor, GroupMembershipManager):
            self._ticked = actor, message.now


def test_what_a_member_shows_after_a_tick_is_so_though_most_ticks_do_not_look() -> None:
    harness = Harness(seed=0)
    looker = Looker()
    harness.host.before_each = looker.hear

    harness.run()

    assert looker.looks > 100
    assert looker.stale == []
    harness.end()
