"""Every question ends once; what the background says waits where the application looks for it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from kafka.structs import TopicPartition

from aktor.actors.runtime.dispatcher import Bell, Reply
from aktor.consumer.core.port import ApplicationPort
from aktor.consumer.core.views import NOT_A_MEMBER
from aktor.errors import (
    ActorCrashedError,
    ActorRestartedError,
    AuthenticationError,
    BootstrapError,
    BrokersUnreachableError,
    ConsumerClosedError,
)
from aktor.events.answers import Answered, Failed
from aktor.events.commits import AutoCommitFinished
from aktor.events.fetching import Chunk, RecordsFetched
from aktor.events.lifecycle import ActorsRestarted, ConsumerFailed, TickDue
from aktor.events.membership import GroupFailed, MemberChanged, MemberState, SessionExtended
from aktor.events.message import Message
from aktor.events.metadata import Cluster, ClusterChanged
from aktor.events.network import (
    BootstrapFailed,
    BrokerRefused,
    BrokersReached,
    BrokersUnreachable,
)
from aktor.events.positions import PositionsFailed
from aktor.trace import recording, silent

A = TopicPartition("orders", 0)
CRASH = ActorCrashedError(actor="fetch", reason="five crashes")


def a_port() -> ApplicationPort:
    return ApplicationPort(Bell(), silent())


def rang(port: ApplicationPort) -> bool:
    return port.bell.wait(0)


def a_question(port: ApplicationPort, actor: str = "commits") -> tuple[int, list[tuple[Any, Any]]]:
    """An open question, and the list of the ways in which it ended."""
    endings: list[tuple[Any, Any]] = []
    ticket = port.open(actor, lambda value, error: endings.append((value, error)))
    return ticket, endings


def a_restart(*actors: str) -> ActorsRestarted:
    return ActorsRestarted(actors=actors, because=ZeroDivisionError("a bug"))


# -- each question ends once


def test_an_answer_ends_its_question_and_rings() -> None:
    port = a_port()
    ticket, endings = a_question(port)

    port.tell(Answered(ticket=ticket, value=42))

    assert endings == [(42, None)]
    assert port.open_questions == 0
    assert rang(port)


def test_a_failure_ends_its_question_with_the_error() -> None:
    port = a_port()
    ticket, endings = a_question(port)

    port.tell(Failed(ticket=ticket, error=CRASH))

    assert endings == [(None, CRASH)]
    assert port.open_questions == 0


def test_an_answer_ends_only_the_question_with_its_ticket() -> None:
    port = a_port()
    (first, first_endings), (_, second_endings) = a_question(port), a_question(port)

    port.tell(Answered(ticket=first))

    assert (len(first_endings), len(second_endings)) == (1, 0)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda port, ticket: port.tell(Answered(ticket=ticket)), id="answered"),
        pytest.param(
            lambda port, ticket: port.tell(Failed(ticket=ticket, error=CRASH)), id="failed"
        ),
        pytest.param(lambda port, ticket: port.tell(a_restart("commits")), id="restarted"),
        pytest.param(lambda port, ticket: port.tell(ConsumerFailed(error=CRASH)), id="crashed"),
        pytest.param(lambda port, ticket: port.close(), id="closed"),
    ],
)
def test_what_has_ended_does_not_end_again(end: Any) -> None:
    port = a_port()
    ticket, endings = a_question(port)

    end(port, ticket)
    port.tell(Answered(ticket=ticket, value="late"))
    port.tell(a_restart("commits"))
    port.tell(ConsumerFailed(error=CRASH))
    port.close()

    assert len(endings) == 1
    assert (endings[0][0], endings[0][1]) != ("late", None)


def test_a_question_that_was_given_up_never_ends() -> None:
    port = a_port()
    ticket, endings = a_question(port)

    port.forget(ticket)
    port.forget(ticket)
    port.tell(Answered(ticket=ticket))
    port.close()

    assert endings == []


def test_a_late_answer_is_dropped_and_traced() -> None:
    trace, events = recording()
    port = ApplicationPort(Bell(), trace)
    ticket, _ = a_question(port)
    port.forget(ticket)

    port.tell(Answered(ticket=ticket))

    assert [(one["event"], one["ticket"]) for one in events] == [("answer.dropped", ticket)]
    assert not rang(port)


def test_a_restart_ends_the_questions_to_those_actors_with_the_cause_and_no_others() -> None:
    port = a_port()
    _, commits = a_question(port, "commits")
    _, metadata = a_question(port, "metadata")
    restart = a_restart("commits", "positions")

    port.tell(restart)

    ((value, error),) = commits
    assert value is None
    assert isinstance(error, ActorRestartedError)
    assert (error.actor, error.__cause__) == ("commits", restart.because)
    assert metadata == []
    assert list(port.events) == [restart]
    assert rang(port)


def test_closing_ends_every_question() -> None:
    port = a_port()
    _, first = a_question(port, "commits")
    _, second = a_question(port, "metadata")

    port.close()

    assert [type(error) for ((_, error),) in (first, second)] == [ConsumerClosedError] * 2
    assert port.open_questions == 0


def test_the_failure_of_the_consumer_ends_every_question_and_every_later_one_at_once() -> None:
    port = a_port()
    _, before = a_question(port)

    port.tell(ConsumerFailed(error=CRASH))
    _, after = a_question(port)

    assert before == after == [(None, CRASH)]
    assert port.failure is CRASH
    assert port.open_questions == 0


def test_a_failure_wakes_a_poll_that_asked_nothing() -> None:
    port = a_port()

    port.fail(CRASH)

    assert rang(port)


def test_the_port_knows_whom_it_waits_for() -> None:
    port = a_port()
    ticket, _ = a_question(port, "commits")

    assert port.waits_for("commits")
    assert not port.waits_for("metadata")

    port.tell(Answered(ticket=ticket))
    assert not port.waits_for("commits")


# -- futures


def test_the_future_of_a_question_holds_the_value() -> None:
    port = a_port()
    ticket, reply = port.ask("metadata")
    assert not reply.done

    port.tell(Answered(ticket=ticket, value={"orders": 3}))

    assert reply.done
    assert reply.get(timeout=0) == {"orders": 3}


def test_the_future_of_a_question_raises_the_error() -> None:
    port = a_port()
    _, reply = port.ask("commits")

    port.tell(a_restart("commits"))

    assert reply.done
    with pytest.raises(ActorRestartedError):
        reply.get(timeout=0)


def test_a_question_may_bring_a_bell_of_its_own() -> None:
    port, own = a_port(), Bell()
    ticket, reply = port.ask("supervisor", own)

    port.tell(Answered(ticket=ticket))

    assert isinstance(reply, Reply)
    assert own.wait(0)


# -- connection errors


@pytest.mark.parametrize(
    "said",
    [
        BrokerRefused(error=AuthenticationError(broker="b:9", mechanism="PLAIN", reason="no")),
        BootstrapFailed(error=BootstrapError(attempts={"b:9": "refused"})),
        BrokersUnreachable(error=BrokersUnreachableError(attempts={"b:9": "refused"})),
    ],
    ids=lambda said: type(said).__name__,
)
def test_a_connection_error_is_told_once(said: Any) -> None:
    port = a_port()

    port.tell(said)

    assert rang(port)
    assert port.connections.take_error() is said.error
    assert port.connections.take_error() is None


def test_a_connection_error_is_forgotten_when_the_cluster_answers() -> None:
    port = a_port()
    port.tell(BootstrapFailed(error=BootstrapError(attempts={})))

    port.tell(ClusterChanged(cluster=Cluster(version=1)))

    assert port.connections.take_error() is None


@pytest.mark.parametrize(
    "end", [BrokersReached(), ActorsRestarted(actors=("network",), because=ValueError())], ids=str
)
def test_why_nobody_can_be_reached_is_known_while_it_lasts(end: Any) -> None:
    port = a_port()
    error = BrokersUnreachableError(attempts={"b:9": "refused"})

    port.tell(BrokersUnreachable(error=error))
    assert port.connections.unreachable is error
    port.tell(end)

    assert port.connections.unreachable is None


def test_an_error_that_has_passed_is_not_raised_any_more() -> None:
    port = a_port()
    port.tell(BrokersUnreachable(error=BrokersUnreachableError(attempts={})))

    port.tell(BrokersReached())

    assert port.connections.take_error() is None


# -- what waits where


def test_chunks_wait_in_order_in_the_fetch_buffer() -> None:
    port = a_port()
    first, second = (Chunk(partition=A, epoch=1, offset=offset) for offset in (0, 5))

    port.tell(RecordsFetched(chunks=(first,)))
    port.tell(RecordsFetched(chunks=(second,)))

    assert list(port.chunks) == [first, second]
    assert rang(port)


def test_position_outcomes_wait_apart_from_the_events_of_poll() -> None:
    port = a_port()
    outcome = PositionsFailed(epochs={A: 1}, error=CRASH)

    port.tell(outcome)

    assert list(port.positions) == [outcome]
    assert not port.events
    assert rang(port)


@pytest.mark.parametrize(
    "event", [AutoCommitFinished(offsets={}, error=None), GroupFailed(error=CRASH)]
)
def test_an_event_wakes_a_waiting_poll_which_has_to_act_on_it(event: Message) -> None:
    """After an automatic commit `default_offset_commit_callback` is to be called."""
    port = a_port()

    port.tell(event)

    assert list(port.events) == [event]
    assert rang(port)


def test_the_cluster_is_a_snapshot_and_an_event_only_for_one_who_watches() -> None:
    port = a_port()

    port.tell(ClusterChanged(cluster=Cluster(version=1)))
    assert (port.cluster.version, list(port.events)) == (1, [])

    port.watch_cluster(wanted=True)
    port.tell(changed := ClusterChanged(cluster=Cluster(version=2)))
    assert (port.cluster.version, list(port.events)) == (2, [changed])


def test_a_restarted_membership_makes_us_no_member_but_its_id_is_remembered() -> None:
    port = a_port()
    port.tell(MemberChanged(member_id="m-1", generation=3, state=MemberState.STABLE))

    port.tell(a_restart("fetch"))
    assert port.membership.member.member_id == "m-1"

    port.tell(a_restart("membership", "commits"))
    assert port.membership.member == NOT_A_MEMBER
    assert port.membership.last_member_id == "m-1"


def test_as_whom_it_has_yet_to_leave_is_remembered_when_the_membership_is_restarted() -> None:
    port = a_port()
    former = frozenset({"m-0"})
    port.tell(
        MemberChanged(member_id="m-1", generation=3, state=MemberState.STABLE, leaving=former)
    )

    port.tell(a_restart("membership", "commits"))

    assert port.membership.leaving == former


def test_a_member_that_is_joining_anew_does_not_make_us_forget_its_last_id() -> None:
    port = a_port()
    port.tell(MemberChanged(member_id="m-1", generation=3, state=MemberState.STABLE))

    port.tell(MemberChanged(member_id="", generation=-1, state=MemberState.REBALANCING))

    assert port.membership.last_member_id == "m-1"


def test_the_id_under_which_a_member_asked_to_join_is_remembered_too() -> None:
    port = a_port()

    port.tell(
        MemberChanged(member_id="", generation=-1, state=MemberState.REBALANCING, joins_as="m-2")
    )
    port.tell(a_restart("membership", "commits"))

    assert port.membership.last_member_id == "m-2"


def test_who_is_out_of_the_group_has_no_id_to_come_back_with() -> None:
    port = a_port()
    port.tell(MemberChanged(member_id="m-1", generation=3, state=MemberState.STABLE))

    port.tell(NOT_A_MEMBER)

    assert port.membership.last_member_id == ""


def test_the_id_that_the_application_chose_counts_until_the_membership_says_another() -> None:
    port = a_port()
    port.tell(MemberChanged(member_id="m-1", generation=3, state=MemberState.STABLE))
    port.tell(NOT_A_MEMBER)

    port.membership.rejoin_as("m-1")
    chosen = port.membership.last_member_id
    port.tell(MemberChanged(member_id="", generation=-1, state=MemberState.REBALANCING))
    still = port.membership.last_member_id
    port.tell(MemberChanged(member_id="m-2", generation=4, state=MemberState.STABLE))

    assert (chosen, still, port.membership.last_member_id) == ("m-1", "m-1", "m-2")


def test_who_has_left_the_group_was_no_member_until_it_is_one_again() -> None:
    port = a_port()
    stable = MemberChanged(member_id="m-1", generation=3, state=MemberState.STABLE)
    port.tell(stable)
    before = port.membership.was_member

    port.membership.leave()
    left = port.membership.was_member
    port.tell(again := MemberChanged(member_id="m-1", generation=4, state=MemberState.STABLE))

    assert (before, left, port.membership.was_member) == (stable, NOT_A_MEMBER, again)


def test_a_connection_error_that_is_said_again_is_told_again() -> None:
    port, error = a_port(), BrokersUnreachableError(attempts={"b1:9092": "refused"})

    told = []
    for _ in range(2):
        port.tell(BrokersUnreachable(error=error))
        told += [port.connections.take_error(), port.connections.take_error()]

    assert told == [error, None, error, None]


def test_the_session_begins_unconfirmed_and_an_extension_wakes_who_waits_for_it() -> None:
    port = a_port()
    assert port.membership.session_until == -math.inf

    port.tell(SessionExtended(until=45.0))

    assert port.membership.session_until == 45.0
    assert rang(port)


def test_a_message_nobody_has_a_place_for_is_dropped_and_traced() -> None:
    trace, events = recording()
    port = ApplicationPort(Bell(), trace)

    port.tell(TickDue(now=0.0, jitter=0.0))

    assert [(one["event"], one["message_type"]) for one in events] == [
        ("message.dropped", "TickDue")
    ]
    assert TickDue not in ApplicationPort.understands()
    assert Answered in ApplicationPort.understands()
