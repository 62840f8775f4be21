"""What is a call's own: another call of another thread, which is let in, has none of it."""

from __future__ import annotations

from aktor.actors.runtime.dispatcher import Bell
from aktor.consumer.core.call import Call
from aktor.consumer.core.port import ApplicationPort
from aktor.trace import silent


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
