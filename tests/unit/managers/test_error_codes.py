"""Managers, and the handshake of a connection, do what the table of `aktor.protocol.error_codes`
says, for every code, and for every request without an answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import pytest
from kafka.errors import OffsetOutOfRangeError
from kafka.protocol.consumer import (
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
)

from aktor.events.answers import Answered, Failed
from aktor.events.commits import RevocationCommitted, StartingOffsetsFailed
from aktor.events.coordinator import CoordinatorRefused, SuspectCoordinator
from aktor.events.fetching import RecordsFetched
from aktor.events.membership import (
    ConfirmSession,
    GroupFailed,
    Loss,
    RevokePartitions,
    SessionExtended,
)
from aktor.events.metadata import ClusterChanged, RefreshMetadata, TopicsRefused
from aktor.events.network import BrokerRefused, Rebootstrap
from aktor.events.positions import PositionsFailed, PositionsValidated
from aktor.protocol.error_codes import ROWS, Answer, Do, error_of, means
from tests.unit.managers import builders_errors as probes
from tests.unit.managers.builders_error_codes import ANSWERS, PROBES, errors_of
from tests.unit.managers.builders_errors import Outcome, Probe, What
from tests.unit.managers.membership.consumer.builders import HEARTBEAT

# -- what can be seen of an outcome

Look = Callable[[Outcome], bool]
Which = Callable[[Any], bool]


def says(kind: Any, which: Which = lambda _: True) -> Look:
    """Whether a message of this kind was said."""
    return lambda outcome: any(isinstance(one, kind) and which(one) for one in outcome.said)


def sends(kind: Any, which: Which = lambda _: True) -> Look:
    """Whether a request of this kind was sent before the application polled again."""
    return lambda outcome: any(isinstance(one, kind) and which(one) for one in outcome.soon)


def sends_ever(kind: Any, which: Which = lambda _: True) -> Look:
    """The same, also after the poll."""
    return lambda outcome: any(isinstance(one, kind) and which(one) for one in outcome.sent)


#: The epochs of a heartbeat in a KIP-848 group: of who joins, stays, leaves for a while, leaves.
JOINING, STAYING, FREEING, LEAVING = 0, 1, -2, -1


def beats(epoch: int) -> Look:
    """Whether a heartbeat of a KIP-848 group with this epoch was sent."""
    return sends(HEARTBEAT, lambda one: one.member_epoch == epoch)


def joins_as(member_id: str) -> Look:
    """Whether the member joined with this id, if need be after the next poll."""
    return sends_ever(JoinGroupRequest, lambda one: one.member_id == member_id)


def has_chunk(which: Which) -> Look:
    """Whether the application was given such a chunk."""
    return says(RecordsFetched, lambda one: any(which(chunk) for chunk in one.chunks))


def is_out_of_range(chunk: Any) -> bool:
    return isinstance(chunk.error, OffsetOutOfRangeError)


def is_loss(step: Any) -> bool:
    return step.loss is Loss.LOST


def is_expelled(commit: Any) -> bool:
    return bool(commit.expelled)


def has_unknown(change: Any) -> bool:
    return bool(change.cluster.unknown)


def begins_session(fetch: Any) -> bool:
    return bool(fetch.session_epoch == 0)


def names_no_session(fetch: Any) -> bool:
    return bool(fetch.session_id == 0)


def waits(outcome: Outcome) -> bool:
    """Whether nothing is sent before the backoff is over."""
    return not outcome.at_once


def rests(outcome: Outcome) -> bool:
    """Whether the next request waits longer than the first backoff."""
    return outcome.wakes_in > 0.4


def asks_again(outcome: Outcome) -> bool:
    """Whether a request was sent: in the probe there is nothing else to send."""
    return bool(outcome.soon)


#: Who tells the application of an error; what ends a handshake is the error itself.
TOLD = (
    BrokerRefused,
    CoordinatorRefused,
    Exception,
    Failed,
    GroupFailed,
    PositionsFailed,
    TopicsRefused,
)


def raises(outcome: Outcome) -> bool:
    """Whether the application hears of an error; that a position is out of range is another."""
    refused = has_chunk(lambda one: one.error is not None and not is_out_of_range(one))
    return says(TOLD)(outcome) or refused(outcome)


class Sign(NamedTuple):
    """What is seen in these probes if the table has this action for the error, and only then.

    Errors for which it has an action of `unless`, too, are left out: that one hides the sign.
    """

    action: Do
    look: Look
    probes: Collection[Probe]
    unless: Do = Do(0)


#: Here the application leaves before the member can come back.
CLOSED = {probes.consumer_join_and_close, probes.consumer_heartbeat_and_close}

REVOCATION = {probes.offset_commit_revocation}

OTHER_COMMITS = {
    probes.offset_commit_async,
    probes.offset_commit_by_hand,
    probes.offset_commit_next_generation,
}

NOTED = {probes.offset_commit_with_note}

#: Here the application is told something else than the error, or nothing yet.
TOLD_OTHERWISE = {
    *OTHER_COMMITS,
    *NOTED,
    *REVOCATION,
    probes.metadata_of_question,
    probes.metadata_of_names,
    probes.offset_fetch_start,
    probes.offset_fetch_last_attempt,
    probes.consumer_auto_join,
    *CLOSED,
}

#: Here a call of the application waits for the answer.
CALLS = {
    probes.metadata_question,
    probes.list_offsets_question,
    probes.offset_commit,
    probes.offset_fetch,
    probes.leave_group,
    probes.consumer_leave,
}

#: Here nothing else than what was refused is left to be sent.
ASKERS = {
    probes.api_versions,
    probes.sasl_handshake,
    probes.sasl_authenticate,
    probes.metadata,
    probes.metadata_of_names,
    probes.metadata_topic,
    probes.metadata_question,
    probes.metadata_name,
    probes.find_coordinator,
    probes.list_ends,
    probes.list_offsets,
    probes.list_offsets_question,
    probes.offset_for_leader_epoch,
    probes.offset_fetch_start,
    probes.offset_commit,
    probes.offset_commit_848,
    probes.leave_group,
    probes.describe_groups,
    probes.consumer_leave,
    probes.fetch,
    probes.fetch_replica,
}

JOINS = {*PROBES[Answer.JOIN_GROUP], *PROBES[Answer.SYNC_GROUP]}
CONSUMER_JOINS = {*PROBES[Answer.CONSUMER_JOIN]} - CLOSED

#: Here a member of the classic protocol has an id.
NAMED = {*JOINS, probes.heartbeat} - {probes.join_group}

#: Here a member owns partitions.
OWNERS = {
    probes.join_group_again,
    probes.sync_group_again,
    probes.heartbeat,
    probes.consumer_heartbeat,
}

NAMED_JOIN = {probes.join_group_again}

FETCHES = {probes.fetch, probes.fetch_replica}
SESSIONS = {probes.fetch_session, *FETCHES}

ANYTHING = ANSWERS.keys()

SIGNS = (
    Sign(Do.REFRESH_METADATA, says(RefreshMetadata), ANYTHING),
    Sign(Do.FIND_COORDINATOR, says(SuspectCoordinator), ANYTHING),
    Sign(Do.REBOOTSTRAP, says(Rebootstrap), ANYTHING),
    Sign(Do.RESET_POSITION, has_chunk(is_out_of_range), ANYTHING),
    # What the application is told.
    Sign(Do.RAISE, raises, ANYTHING - TOLD_OTHERWISE),
    Sign(Do.RAISE, raises, {probes.consumer_auto_join}, unless=Do.OTHER_PROTOCOL),
    Sign(Do.RAISE, raises, OTHER_COMMITS, unless=Do.RETRY | Do.NEXT_GENERATION),
    Sign(Do.RAISE, raises, NOTED, unless=Do.DROP_NOTE),
    Sign(Do.RAISE, says(StartingOffsetsFailed), {probes.offset_fetch_start}, unless=Do.RETRY),
    Sign(Do.DONE, says(Answered), CALLS),
    Sign(Do.DONE, says(PositionsValidated), {probes.offset_for_leader_epoch}),
    Sign(Do.DONE, says(SessionExtended), {probes.heartbeat, probes.consumer_heartbeat}),
    # What is asked again. If our credentials were refused, a call ends.
    Sign(Do.RETRY, asks_again, ASKERS),
    Sign(Do.RETRY, asks_again, {probes.offset_fetch, probes.offset_fetch_group}, unless=Do.RAISE),
    Sign(Do.RETRY, waits, {*JOINS, probes.fetch_session} - NAMED_JOIN, unless=Do.PARTITIONS_LOST),
    # A member that has an id, and is told to take one, waits: else it would ask without an end.
    Sign(Do.RETRY, waits, NAMED_JOIN, unless=Do.PARTITIONS_LOST | Do.TAKE_MEMBER_ID),
    # Commits. One of `commit_async` is repeated only if the group has gone on; one before a
    # revocation is given up if the topic may be gone; one by hand has no next generation.
    Sign(Do.RETRY, asks_again, {probes.offset_commit_revocation}, unless=Do.AWAIT_TOPIC),
    Sign(Do.RETRY, asks_again, {probes.offset_commit_by_hand}, unless=Do.NEXT_GENERATION),
    Sign(Do.RETRY, raises, {probes.offset_commit_async}, unless=Do.RAISE | Do.NEXT_GENERATION),
    Sign(Do.DROP_NOTE, asks_again, NOTED, unless=Do.RETRY),
    Sign(Do.NEXT_GENERATION, asks_again, {probes.offset_commit_async}, unless=Do.RAISE),
    Sign(Do.NEXT_GENERATION, raises, {probes.offset_commit_by_hand}, unless=Do.RAISE),
    Sign(Do.NEXT_GENERATION, asks_again, {probes.offset_commit_next_generation}, unless=Do.RETRY),
    # Topics that may be gone. A call that has no time left ends with what was found.
    Sign(Do.AWAIT_TOPIC, says(ClusterChanged, has_unknown), {probes.metadata_topic}),
    Sign(Do.AWAIT_TOPIC, says(Answered), {probes.offset_fetch_last_attempt}),
    Sign(Do.AWAIT_TOPIC, says(RevocationCommitted), REVOCATION, unless=Do.RAISE),
    Sign(Do.AWAIT_TOPIC, rests, FETCHES, unless=Do.RAISE | Do.RESET_POSITION),
    # Members. After a refused SyncGroup they send JoinGroup in any case.
    Sign(Do.CONFIRM_MEMBERSHIP, says(ConfirmSession), ANYTHING - REVOCATION),
    Sign(Do.CONFIRM_MEMBERSHIP, says(ConfirmSession), REVOCATION, unless=Do.RAISE),
    Sign(Do.PARTITIONS_LOST, says(RevokePartitions, is_loss), OWNERS),
    Sign(Do.PARTITIONS_LOST, says(RevocationCommitted, is_expelled), REVOCATION),
    Sign(Do.RETRY, sends(JoinGroupRequest), JOINS, unless=Do.REJOIN),
    Sign(Do.REJOIN, sends(JoinGroupRequest), JOINS, unless=Do.RETRY),
    Sign(Do.REJOIN, sends(JoinGroupRequest), {probes.heartbeat}),
    Sign(Do.RETRY, sends(HeartbeatRequest), {probes.heartbeat}, unless=Do.REJOIN),
    Sign(Do.TAKE_MEMBER_ID, joins_as("named"), JOINS),
    Sign(Do.NEW_MEMBER_ID, joins_as(""), NAMED),
    Sign(Do.LEAVE, sends_ever(LeaveGroupRequest), NAMED),
    # Who was told nothing about the assignment watches the topics.
    Sign(Do.DONE, says(RevokePartitions), {probes.describe_groups}),
    # Members of a KIP-848 group. When the `group_instance_id` is free (DONE), the member joins: it
    # has waited for that. The error is no reason to join, so the table has no REJOIN for it.
    Sign(Do.RETRY, beats(JOINING), CONSUMER_JOINS),
    Sign(Do.OTHER_PROTOCOL, sends(JoinGroupRequest), {probes.consumer_auto_join}),
    Sign(Do.FREE_INSTANCE_ID, beats(FREEING), CONSUMER_JOINS),
    Sign(Do.RETRY, beats(FREEING), {probes.consumer_free}),
    Sign(Do.DONE, beats(JOINING), {probes.consumer_free}),
    Sign(Do.RETRY, beats(STAYING), {probes.consumer_heartbeat}),
    Sign(Do.REJOIN, beats(JOINING), {probes.consumer_heartbeat}),
    Sign(Do.LEAVE, beats(LEAVING), CLOSED, unless=Do.RETRY | Do.FREE_INSTANCE_ID),
    # Fetch sessions.
    Sign(Do.NEW_FETCH_SESSION, sends(FetchRequest, begins_session), SESSIONS),
    Sign(Do.FORGET_FETCH_SESSION, sends(FetchRequest, names_no_session), SESSIONS),
)


def kind_of(what: What) -> type[Exception]:
    return error_of(what) if isinstance(what, int) else type(what)


def actions_of(probe: Probe, what: What) -> Do:
    """What the table says about this error in the probe's answer."""
    return means(ANSWERS[probe], kind_of(what))


def signs_of(probe: Probe, what: What) -> list[Sign]:
    """The signs by which the probe tells whether the table is followed for this error."""
    actions = actions_of(probe, what)
    return [sign for sign in SIGNS if probe in sign.probes and not sign.unless & actions]


def wrong(probe: Probe, what: What) -> list[str]:
    """What is done and the table does not say, or the other way round."""
    outcome, actions = probe(what), actions_of(probe, what)
    return [
        f"{probe.__name__}, {what!r}: {sign.action.name} is {not expected}, but it says {actions}"
        for sign in signs_of(probe, what)
        if sign.look(outcome) != (expected := bool(sign.action & actions))
    ]


def test_every_answer_is_probed_and_every_probe_is_run() -> None:
    defined = inspect.getmembers(probes, inspect.isfunction)
    own = {one for name, one in defined if one.__module__ == probes.__name__ and name[0] != "_"}

    assert list(PROBES) == list(Answer)
    assert ANSWERS.keys() == own


@pytest.mark.parametrize("probe", ANSWERS)
def test_every_error_in_every_answer_is_treated_as_the_table_says(probe: Probe) -> None:
    complaints = [one for what in errors_of(ANSWERS[probe]) for one in wrong(probe, what)]

    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("answer", Answer)
def test_every_row_is_met_and_every_action_in_it_has_a_sign(answer: Answer) -> None:
    errors = errors_of(answer)

    assert ROWS[answer].codes.keys() <= {kind_of(what) for what in errors}
    for what in errors:
        signs = {sign.action for probe in PROBES[answer] for sign in signs_of(probe, what)}
        assert signs >= set(means(answer, kind_of(what))), what
