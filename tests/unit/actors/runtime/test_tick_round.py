"""A round of ticks: whom it asks, and what becomes of the requests."""

from __future__ import annotations

from typing import Any

from aktor.actors.runtime.tick_round import TickRound
from aktor.events.lifecycle import TickDue, Ticked
from aktor.events.network import Destination, Request

#: The actors that were told something since they were last asked, of the round under test.
News = set[str]


def a_round(*told: str, now: float = 0.0) -> tuple[TickRound, News]:
    """One that has begun, of actors that do not want to wake before 10 s."""
    news: News = set()
    this = TickRound(("commits", "fetch", "network"), news)
    for actor in ("commits", "fetch", "network"):
        this.started(actor)
        begin(this)
        while (asked := this.next()) is not None:
            this.answered(ticked(asked))
    begin(this, now)
    news.update(told)
    return this, news


def begin(this: TickRound, now: float = 0.0) -> None:
    this.begin(TickDue(now=now, jitter=0.0))


def ticked(actor: str, *requests: Request, wake_at: float = 10.0) -> Ticked:
    return Ticked(actor=actor, incarnation=1, requests=requests, wake_at=wake_at)


def a_request(sender: str) -> Request:
    body: Any = object()
    return Request(body=body, to=Destination.ANY, deadline=1.0, sender=sender, incarnation=1)


def test_nobody_is_asked_without_a_reason() -> None:
    this, _ = a_round()

    assert this.next() is None


def test_who_was_told_something_is_asked_in_order() -> None:
    this, _ = a_round("fetch", "commits")

    assert this.next() == "commits"
    assert this.answered(ticked("commits"))
    assert this.next() == "fetch"
    assert this.answered(ticked("fetch"))
    assert this.next() is None


def test_who_is_told_something_while_the_round_goes_on_is_asked_if_its_turn_is_to_come() -> None:
    this, news = a_round("fetch")
    assert this.next() == "fetch"

    this.answered(ticked("fetch"))
    news.update({"commits", "network"})

    assert this.next() == "network"


def test_whose_wake_time_has_come_is_asked() -> None:
    this, _ = a_round(now=10.0)

    assert this.next() == "commits"


def test_the_last_one_is_asked_because_of_the_requests_of_others_and_takes_them() -> None:
    this, news = a_round("commits")
    request = a_request("commits")
    assert this.next() == "commits"
    news.clear()
    assert this.take_requests_for("commits") == ()
    this.answered(ticked("commits", request))

    assert this.next() == "network"
    assert this.take_requests_for("network") == (request,)
    assert this.take_requests_for("network") == ()


def test_an_answer_of_another_actor_than_the_one_that_was_asked_is_not_taken() -> None:
    this, _ = a_round("commits")
    assert this.next() == "commits"

    assert not this.answered(ticked("fetch", a_request("fetch")))

    assert this.take_requests_for("network") == ()


def test_the_requests_of_actors_that_start_afresh_are_not_sent() -> None:
    this, news = a_round("commits")
    this.next()
    news.clear()
    this.answered(ticked("commits", a_request("commits")))

    this.forget_requests_of({"commits"})

    assert this.next() is None


def test_an_actor_that_was_stopped_is_neither_asked_nor_waited_for() -> None:
    this, _ = a_round()
    this.stopped("commits")
    begin(this, 10.0)

    assert this.next() == "fetch"
    this.stopped("fetch")
    this.stopped("network")
    assert this.wake_at == float("inf")
