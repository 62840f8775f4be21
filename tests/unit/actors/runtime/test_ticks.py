"""Ticks: when the supervisor asks the actors, whom a round asks, and what becomes of requests."""

from __future__ import annotations

from typing import Any

from aktor.actors.runtime.ticks import Ticks
from aktor.events.lifecycle import Ticked
from aktor.events.network import Destination, Request

ACTORS = ("commits", "fetch", "network")


def ticks_that_rest(until: float = 10.0) -> Ticks:
    """The first round is over; no actor wants to wake before this time."""
    ticks = Ticks(seed=1)
    ticks.set_order(ACTORS)
    for actor in ACTORS:
        ticks.started(actor)
    ticks.due(0.0)
    ticks.begin(0.0)
    while (asked := ticks.next()) is not None:
        ticks.answered(ticked(asked, wake_at=until))
    return ticks


def a_round(*told: str, now: float = 0.0) -> Ticks:
    """One that has begun, after these actors were told something."""
    ticks = ticks_that_rest()
    tell(ticks, *told)
    ticks.begin(now)
    return ticks


def tell(ticks: Ticks, *actors: str) -> None:
    for actor in actors:
        ticks.told(actor)


def asked_next(ticks: Ticks) -> str | None:
    """The actor that is asked next; it is given its Tick."""
    if (actor := ticks.next()) is not None:
        ticks.asked(actor)
    return actor


def ticked(actor: str, *requests: Request, wake_at: float = 10.0) -> Ticked:
    return Ticked(actor=actor, incarnation=1, requests=requests, wake_at=wake_at)


def a_request(sender: str) -> Request:
    body: Any = object()
    return Request(body=body, to=Destination.ANY, deadline=1.0, sender=sender, incarnation=1)


# -- when a round is due


def test_the_first_round_is_due_at_once() -> None:
    ticks = Ticks(seed=1)

    due = ticks.due(3.0)

    assert due is not None
    assert due.now == 3.0
    assert ticks.is_on


def test_a_round_is_due_when_an_actor_wants_to_be_asked() -> None:
    ticks = ticks_that_rest(until=10.0)

    assert ticks.wake_at == 10.0
    assert ticks.due(9.9) is None
    assert ticks.due(10.0) is not None


def test_a_message_makes_a_round_due_and_is_news_until_the_actor_is_asked() -> None:
    ticks = ticks_that_rest()

    tell(ticks, "fetch")

    assert ticks.due(1.0) is not None
    ticks.begin(1.0)
    assert asked_next(ticks) == "fetch"
    ticks.answered(ticked("fetch"))
    assert ticks.next() is None
    ticks.begin(1.0)
    assert ticks.next() is None


def test_a_round_that_a_crash_has_cut_short_is_begun_again_at_once() -> None:
    ticks = ticks_that_rest()
    tell(ticks, "fetch")
    ticks.due(0.0)

    ticks.begin_again()

    assert not ticks.is_on
    assert ticks.due(0.0) is not None


def test_when_the_consumer_has_failed_messages_make_no_round_due() -> None:
    ticks = ticks_that_rest()
    tell(ticks, "fetch")

    ticks.stop()

    assert ticks.due(1.0) is None


# -- whom a round asks


def test_nobody_is_asked_without_a_reason() -> None:
    assert a_round().next() is None


def test_who_was_told_something_is_asked_in_order() -> None:
    ticks = a_round("fetch", "commits")

    assert asked_next(ticks) == "commits"
    assert ticks.answered(ticked("commits"))
    assert asked_next(ticks) == "fetch"
    assert ticks.answered(ticked("fetch"))
    assert asked_next(ticks) is None
    assert not ticks.is_on


def test_who_is_told_something_while_the_round_goes_on_is_asked_if_its_turn_is_to_come() -> None:
    ticks = a_round("fetch")
    assert asked_next(ticks) == "fetch"

    ticks.answered(ticked("fetch"))
    tell(ticks, "commits", "network")

    assert asked_next(ticks) == "network"


def test_whose_wake_time_has_come_is_asked() -> None:
    assert asked_next(a_round(now=10.0)) == "commits"


def test_an_actor_that_was_stopped_is_neither_asked_nor_waited_for() -> None:
    ticks = a_round()
    ticks.stopped("commits")
    ticks.begin(10.0)

    assert asked_next(ticks) == "fetch"
    ticks.stopped("fetch")
    ticks.stopped("network")
    ticks.begin(10.0)
    assert asked_next(ticks) is None
    assert ticks.wake_at == float("inf")


# -- what becomes of the requests


def test_the_last_one_is_asked_because_of_the_requests_of_others_and_takes_them() -> None:
    ticks = a_round("commits")
    request = a_request("commits")
    assert asked_next(ticks) == "commits"
    assert ticks.take_requests_for("commits") == ()
    ticks.answered(ticked("commits", request))

    assert asked_next(ticks) == "network"
    assert ticks.take_requests_for("network") == (request,)
    assert ticks.take_requests_for("network") == ()


def test_an_answer_of_another_actor_than_the_one_that_was_asked_is_not_taken() -> None:
    ticks = a_round("commits")
    assert asked_next(ticks) == "commits"

    assert not ticks.answered(ticked("fetch", a_request("fetch")))

    assert ticks.take_requests_for("network") == ()


def test_the_requests_of_actors_that_start_afresh_are_not_sent() -> None:
    ticks = a_round("commits")
    asked_next(ticks)
    ticks.answered(ticked("commits", a_request("commits")))

    ticks.forget_requests_of({"commits"})

    assert asked_next(ticks) is None
