"""Rounds: when the supervisor asks the actors, and which of them."""

from __future__ import annotations

from aktor.actors.runtime.rounds import Rounds


def rounds_that_rest(until: float = 10.0) -> Rounds:
    """The first round is over, and the next is due at `until`."""
    rounds = Rounds(seed=1)
    rounds.begin(0.0)
    rounds.finish(until)
    return rounds


def test_the_first_round_is_due_at_once() -> None:
    rounds = Rounds(seed=1)

    due = rounds.begin(3.0)

    assert due is not None
    assert due.now == 3.0
    assert rounds.is_on


def test_a_round_is_due_when_an_actor_wants_to_be_asked() -> None:
    rounds = rounds_that_rest(until=10.0)

    assert rounds.begin(9.9) is None
    assert rounds.begin(10.0) is not None


def test_a_message_makes_a_round_due_and_is_news_until_the_actor_is_asked() -> None:
    rounds = rounds_that_rest()

    rounds.note("fetch")

    assert rounds.begin(1.0) is not None
    assert "fetch" in rounds.news

    rounds.asked("fetch")

    assert "fetch" not in rounds.news


def test_a_round_that_a_crash_has_cut_short_is_begun_again_at_once() -> None:
    rounds = Rounds(seed=1)
    rounds.begin(0.0)

    rounds.begin_again()

    assert not rounds.is_on
    assert rounds.begin(0.0) is not None


def test_when_the_consumer_has_failed_messages_make_no_round_due() -> None:
    rounds = rounds_that_rest()
    rounds.note("fetch")

    rounds.stop()

    assert rounds.begin(1.0) is None
