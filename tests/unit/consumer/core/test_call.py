"""What is a call's own: another call of another thread, which is let in, has none of it."""

from __future__ import annotations

from aktor.actors.runtime.dispatcher import Bell
from aktor.consumer.core.call import Call
from aktor.consumer.core.port import ApplicationPort
from aktor.trace import CALL, recording, silent


def test_a_call_that_has_let_another_one_in_keeps_its_questions_and_its_way_with_errors() -> None:
    port = ApplicationPort(Bell(), silent())
    call = Call(port)
    call.begin()
    call.follow_no_policy()
    mine = port.open("positions", lambda _value, _error: None, call.asked)

    kept = call.let_others_in()
    call.begin()  # the other one
    assert call.follows_policy
    port.open("commits", lambda _value, _error: None, call.asked)
    call.come_back(kept)

    assert (call.follows_policy, call.asked) == (False, [mine])


def test_the_questions_of_a_call_that_is_interrupted_after_it_has_come_back_are_given_up() -> None:
    port = ApplicationPort(Bell(), silent())
    call = Call(port)
    call.begin()
    port.open("positions", lambda _value, _error: None, call.asked)

    kept = call.let_others_in()
    call.begin()
    call.come_back(kept)
    call.repair()

    assert port.open_tickets == []


def test_what_has_led_to_a_call_that_lets_another_one_in_is_not_what_led_to_that_one() -> None:
    """It acts on a step of a rebalance, and waits."""
    trace, _ = recording()
    trace.info("call.repaired")
    strand = trace.strand
    call = Call(ApplicationPort(Bell(), trace))
    call.begin()
    strand.follow(1)
    kept = call.let_others_in()

    call.begin()
    assert strand.take() == CALL
    trace.info("call.repaired")
    call.come_back(kept)

    assert [strand.take(), strand.take()] == [1, 1]


def test_a_nested_call_follows_from_what_the_outer_one_acts_on_or_from_nothing() -> None:
    trace, _ = recording()
    call = Call(ApplicationPort(Bell(), trace))
    call.begin()
    trace.info("call.repaired")
    touched = call.begin_nested()
    assert trace.strand.take() == CALL
    call.end_nested(touched=touched)

    trace.strand.follow(1)
    call.begin_nested()
    assert trace.strand.take() == 1
