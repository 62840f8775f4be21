"""What is said of the member of a group."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aktor.consumer.core.partition import Stage
from aktor.consumer.present.reasons import sentence
from aktor.consumer.present.reasons.consumer import of_consumer
from aktor.consumer.present.reasons.group import session
from aktor.consumer.present.reasons.partition import of_partitions
from aktor.consumer.present.reasons.reason import WaitingFor
from aktor.events.present import (
    FetchNow,
    Hindrance,
    PositionNow,
    PositionsNow,
)
from tests.unit.consumer.present.builders import (
    NOW,
    T0,
    T1,
    a_broker,
    a_coordinator,
    a_member,
    a_picture,
    a_throttling_broker,
    an_application,
    changed,
    cluster,
    network,
    seen,
)


def a_hindrance() -> Hindrance:
    return Hindrance(state="out", since=NOW - 4.0, node=None, until=math.inf, trouble="")


#: What else may hinder the only partition while no heartbeat is answered, and how that is told.
ELSEWHERE: dict[str, tuple[dict[str, Any], str]] = {
    "nobody leads it": (
        {"cluster": cluster(-1), "fetch": FetchNow(hindered={T0: a_hindrance()})},
        "Nothing is delivered: orders-0: no broker has led it for 4.0 s; and the coordinator",
    ),
    "its position is not known, and no record was ever delivered": (
        {
            "partitions": {T0: seen(position=None)},
            "positions": PositionsNow(
                waiting={
                    T0: PositionNow(
                        stage="committed",
                        since=NOW - 4.0,
                        node=1,
                        asked_at=NOW - 3.0,
                        trouble="",
                        retry_at=math.inf,
                    )
                }
            ),
            "application": an_application(delivered_at=-math.inf),
        },
        "Nothing is delivered: orders-0: the look-up of its committed offset began 4.0 s ago",
    ),
    "it is paused": (
        {"partitions": {T0: seen(paused=True, paused_at=NOW - 4.0)}},
        "Nothing is delivered: orders-0: the application has paused reading 4.0 s ago; and the",
    ),
    "all of it has long been read": ({}, "Records can still be delivered, but the coordinator"),
    "records of it were delivered just now": (
        {"application": an_application(delivered_at=NOW - 0.3)},
        "Records are still delivered, but the coordinator (broker 1, kafka-1:9092) has not",
    ),
    "the member has left": (
        {
            "member": a_member(failing_since=NOW - 3.0, failures=1, left_late_at=NOW - 2.0),
            "partitions": {T0: seen(), T1: seen()},
        },
        "Nothing is delivered: the member left its group 2.0 s ago, since the application had not",
    ),
}


@pytest.mark.parametrize("hindrance", ELSEWHERE)
def test_records_that_something_else_keeps_back_are_not_delivered_until_the_session_is_over(
    hindrance: str,
) -> None:
    said, begins = ELSEWHERE[hindrance]
    p = a_picture(**{"member": a_member(failing_since=NOW - 3.0, failures=1)} | said)

    assert sentence.why(p).startswith(begins)
    assert "the coordinator (broker 1, kafka-1:9092) has not answered a heartbeat for 3.0 s" in (
        sentence.why(p)
    )


def test_what_is_given_up_waits_for_the_coordinator_that_does_not_answer_its_commit() -> None:
    giving_up = {T0: seen(stage=Stage.PENDING_REVOCATION)}
    away = a_picture(
        member=a_member(step="commit", since=NOW - 3.0, failing_since=NOW - 3.0, failures=1),
        partitions=giving_up,
    )
    well = a_picture(member=a_member(step="commit", since=NOW - 3.0), partitions=giving_up)

    (reason,) = of_partitions(away).values()
    assert reason.text == (
        "it is about to be revoked, after a last commit: the coordinator (broker 1, kafka-1:9092)"
        " has not answered a heartbeat for 3.0 s (1 heartbeat failed)"
    )
    assert sentence.why(away).startswith(f"Nothing is delivered: orders-0: {reason.text}. ")
    (reason,) = of_partitions(well).values()
    assert reason.text == "it is about to be revoked"


def test_a_member_that_left_since_nobody_polled_is_not_said_to_wait_for_a_heartbeat() -> None:
    p = a_picture(
        max_poll_interval=4.0,
        application=an_application(polled_at=NOW - 7.0, line="app.py:3 work"),
        session_until=NOW - 2.0,
        partitions={T0: seen(lag=3)},
    )

    for reason in of_partitions(p).values():
        assert reason.waiting_for is WaitingFor.APPLICATION
        assert reason.text == "the application has not polled for 7.0 s (it is at app.py:3 work)"


def test_records_of_a_member_that_left_since_nobody_polled_do_not_wait_for_its_session() -> None:
    p = a_picture(
        max_poll_interval=4.0,
        application=an_application(polled_at=NOW - 7.0),
        session_until=NOW - 2.0,
        partitions={T0: seen(records=131, buffered=500, lag=131)},
    )

    assert "131 records are buffered and withheld, since the member has not polled for" in (
        sentence.why(p)
    )
    assert "session" not in sentence.why(p)


ASSUMED = "session (45.0 s are assumed, the brokers do not tell)"


@pytest.mark.parametrize(
    ("known", "session", "over"),
    [(True, "session (45.0 s)", "is"), (False, ASSUMED, "may be")],
)
def test_a_session_that_is_only_assumed_is_not_told_as_a_fact(
    known: bool, session: str, over: str
) -> None:
    """KIP-848: the brokers decide how long it is, and tell no member."""
    silent = a_member(session=45.0, session_is_known=known, failing_since=NOW - 3.0, failures=1)
    said: dict[str, Any] = {
        "member": silent,
        "coordinator": a_coordinator(),
        "partitions": {T0: seen(records=131, buffered=500, lag=131)},
    }
    p = a_picture(**said, session_until=NOW + 9.0)
    assert f"The {session} {over} over in 9.0 s; from then on records are withheld" in sentence.why(
        p
    )

    p = a_picture(**said, session_until=NOW - 2.0)
    (reason,) = of_partitions(p).values()
    assert reason.text.startswith(f"the {session} may have been over for 2.0 s")
    assert f"131 records are buffered and withheld, since the {session} may be over." in (
        sentence.why(p)
    )


@pytest.mark.parametrize("state", ["fenced", "losing"])
@pytest.mark.parametrize("left", [-1.0, 40.0])
def test_a_member_that_was_fenced_says_so_however_long_its_session_is(
    state: str, left: float
) -> None:
    """The heartbeat was answered, and none is due."""
    because = "UNKNOWN_MEMBER_ID"
    fenced: dict[str, Any] = {"state": state, "step": "callback", "trouble": because}
    member = a_member(**fenced, since=NOW - 1.2, failing_since=NOW - 1.3, failures=1, refused=True)
    said: dict[str, Any] = {
        "session_until": NOW + left,
        "member": member,
        "partitions": {T0: seen(records=131, buffered=500, lag=131)},
    }
    text = (
        "the group has fenced the member 1.2 s ago (UNKNOWN_MEMBER_ID): another one may own its"
        " partitions by now"
    )

    p = a_picture(**said, application=an_application(polled_at=NOW, waits=True))
    (reason,) = of_partitions(p).values()
    assert (reason.waiting_for, reason.text) == (WaitingFor.SESSION, text)
    assert sentence.why(p) == (
        f"Nothing is delivered: {text}. 131 records are buffered and withheld, since the member was"
        " fenced. It joins again once a poll has given them up. Not your code: a poll is waiting."
    )

    waited = "the rebalance had waited 31.2 s for on_partitions_revoked"
    member = a_member(**fenced, since=NOW - 1.2, fenced_after=waited)
    (reason,) = of_partitions(changed(p, member=member)).values()
    assert reason.text == text.replace("_ID)", f"_ID after {waited})")


def test_a_member_that_left_since_nobody_polled_says_so_too_when_the_application_polls_again() -> (
    None
):
    """No heartbeat was due, so none was not answered."""
    said: dict[str, Any] = {
        "max_poll_interval": 6.0,
        "session_until": NOW - 4.9,
        "member": a_member(state="stale", step="callback", left_late_at=NOW - 5.0),
        "partitions": {T0: seen(records=131, buffered=500, lag=131)},
    }
    text = (
        "the member left its group 5.0 s ago, since the application had not polled for"
        " max_poll_interval_ms"
    )

    p = a_picture(**said, application=an_application(polled_at=NOW, waits=True))
    (reason,) = of_partitions(p).values()
    assert (reason.waiting_for, reason.text) == (WaitingFor.APPLICATION, text)
    assert sentence.why(p) == (
        f"Nothing is delivered: {text}. 131 records are buffered and withheld, since the member had"
        " not polled for max_poll_interval_ms. It joins again, now that the application polls."
    )

    commits = an_application(polled_at=NOW - 11.0, waits=True, waits_in="commit")
    assert "joins again with the next poll" in sentence.why(a_picture(**said, application=commits))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("poll", "the member has waited 3.0 s for the next poll, by which it joins its group"),
        ("coordinator", "the member has waited 3.0 s for the group's coordinator to be found"),
        (
            "callback",
            "the rebalance has waited 3.0 s for the application (a poll, or its listener)",
        ),
        ("backoff", "the member has waited 3.0 s to join again (refused)"),
        (
            "members",
            "the coordinator (broker 1, kafka-1:9092) has not answered the member's JoinGroup for"
            " 3.0 s: it does when every member has joined",
        ),
        (
            "leader",
            "the coordinator (broker 1, kafka-1:9092) has not answered the member's SyncGroup for"
            " 3.0 s: it does when the group's leader, another one, has assigned",
        ),
        ("", "the member has waited 3.0 s to get into its group"),
    ],
)
def test_a_member_on_its_way_says_for_how_long_it_has_waited_and_for_what(
    step: str, words: str
) -> None:
    member = a_member(state="joining", step=step, trouble="refused", since=NOW - 3.0)

    assert words in sentence.why(a_picture(member=member, partitions={}))


@pytest.mark.parametrize(
    "unanswered",
    [{"asked_at": NOW - 7.0}, {"failing_since": NOW - 7.0, "failures": 1}],
    ids=["a heartbeat is on its way", "a heartbeat has failed"],
)
@pytest.mark.parametrize("awake_for", [0.01, 1.5])
def test_who_stood_still_does_not_say_of_the_coordinator_that_it_was_silent_meanwhile(
    awake_for: float, unanswered: dict[str, float]
) -> None:
    still = "the process stood still for at least 6.5 s, or its clock jumped"
    awake = {"stood_still": still, "awake_since": NOW - awake_for}
    p = a_picture(
        member=a_member(**unanswered, **awake),
        session_until=NOW - 4.5,
        partitions={T0: seen(lag=3)},
    )

    (reason,) = of_partitions(p).values()

    assert reason.text.startswith(f"the session (6.0 s) may have been over for 4.5 s: {still}")
    assert ("coordinator" in reason.text) == (awake_for > 1.0)
    assert ("coordinator" in sentence.why(p)) == (awake_for > 1.0)


def test_a_session_is_over_since_its_end_whatever_the_member_has_waited_for_since() -> None:
    """With KIP-848 the coordinator is looked up anew meanwhile."""
    looks_up = a_member(step="coordinator", since=NOW - 0.5)
    p = a_picture(session_until=NOW - 4.0, member=looks_up)

    reason = session(p)

    assert reason is not None
    assert reason.since == NOW - 4.0
    assert of_partitions(p)[T0].since == NOW - 4.0


@pytest.mark.parametrize(
    ("step", "request_"),
    [
        ("join", "the JoinGroup by which the member gets its id"),
        ("sync", "the SyncGroup with this leader's assignment"),
    ],
)
@pytest.mark.parametrize("partitions", [{}, {T0: seen()}])
def test_a_coordinator_that_does_not_answer_what_waits_for_nobody_is_a_fault(
    step: str, request_: str, partitions: dict[Any, Any]
) -> None:
    member = a_member(state="syncing", step=step, since=NOW - 3.0, joining_since=NOW - 4.0)
    p = a_picture(member=member, partitions=partitions)
    early = changed(p, member=a_member(state="syncing", step=step, since=NOW - 0.9))

    reason = of_consumer(p)

    assert reason is not None
    assert reason.text == (
        f"the coordinator (broker 1, kafka-1:9092) has not answered {request_} for 3.0 s"
    )
    assert (reason.waiting_for, reason.fault) == (WaitingFor.COORDINATOR, True)
    said = "Records can still be delivered, but the" if partitions else "Nothing is delivered: the"
    assert sentence.why(p).startswith(said)
    now = of_consumer(early)
    assert now is None or not now.fault
    away = changed(p, network=network(a_throttling_broker(1), a_broker(2)))
    assert (throttled := of_consumer(away)) is None or not throttled.fault


@pytest.mark.parametrize(
    ("ago", "are"), [(0.9, "Records are still delivered"), (1.1, "Records can still be delivered")]
)
def test_records_are_still_delivered_if_some_were_just_now(ago: float, are: str) -> None:
    failing = a_member(failing_since=NOW - 3.0, failures=2)
    p = a_picture(member=failing, application=an_application(delivered_at=NOW - ago))

    assert sentence.why(p).startswith(f"{are}, but the coordinator (broker 1, kafka-1:9092) has")
