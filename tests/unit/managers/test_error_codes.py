"""Each manager does what the table of `aktor.protocol.error_codes` says, for every code, and for
every request without an answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka import errors as kafka_errors
from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
)
from kafka.protocol.consumer import LeaveGroupRequest

from aktor.errors import AuthenticationError
from aktor.events.answers import Failed
from aktor.events.coordinator import CoordinatorRefused, SuspectCoordinator
from aktor.events.fetching import RecordsFetched
from aktor.events.membership import ConfirmSession, GroupFailed, Loss, RevokePartitions
from aktor.events.metadata import RefreshMetadata, TopicsRefused
from aktor.events.network import BrokerRefused
from aktor.events.positions import PositionsFailed
from aktor.protocol.error_codes import Answer, Do, error_of, means
from tests.unit.managers.builders_errors import PROBES, Outcome, What

#: All that Kafka has, two that kafka-python does not know, and two that nobody knows.
CODES = [*sorted(code for code in kafka_errors.kafka_errors if code), 128, 129, 150, 999]

#: What is asked, and what its answer is in the table.
ANSWERS = {
    "find_coordinator": Answer.FIND_COORDINATOR,
    "metadata": Answer.METADATA,
    "metadata_topic": Answer.METADATA_TOPIC,
    "metadata_question": Answer.METADATA_QUESTION,
    "metadata_name": Answer.METADATA_NAME,
    "list_offsets": Answer.LIST_OFFSETS,
    "list_offsets_question": Answer.LIST_OFFSETS_BY_TIME,
    "offset_commit": Answer.OFFSET_COMMIT,
    "offset_commit_848": Answer.OFFSET_COMMIT,
    "offset_fetch": Answer.OFFSET_FETCH,
    "offset_fetch_group": Answer.OFFSET_FETCH,
    "join_group": Answer.JOIN_GROUP,
    "sync_group": Answer.SYNC_GROUP,
    "heartbeat": Answer.HEARTBEAT,
    "leave_group": Answer.LEAVE_GROUP,
    "describe_groups": Answer.DESCRIBE_GROUPS,
    "consumer_join": Answer.CONSUMER_JOIN,
    "consumer_heartbeat": Answer.CONSUMER_HEARTBEAT,
    "consumer_leave": Answer.CONSUMER_LEAVE,
    "fetch_session": Answer.FETCH,
    "fetch": Answer.FETCH_PARTITION,
    "fetch_replica": Answer.FETCH_FOLLOWER,
}

#: Who tells the application of an error.
TOLD = (Failed, GroupFailed, CoordinatorRefused, TopicsRefused, PositionsFailed, BrokerRefused)

#: Why a request has no answer.
FAILURES = (
    KafkaTimeoutError("broker b did not answer"),
    KafkaConnectionError("disconnected from broker b"),
    AuthenticationError(broker="b:9092", mechanism="PLAIN", reason="wrong password"),
    IncompatibleBrokerVersion("broker b has no version of it"),
    KafkaError("it cannot be encoded"),
)

#: What asks about the whole of an answer: about a topic or partition there is no failure.
WHOLE = ANSWERS.keys() - {"metadata_topic", "fetch", "fetch_replica"} | {"fetch_session"}


def says(*kinds: type) -> Callable[[Outcome], bool]:
    """Whether a message of one of these kinds was said."""
    return lambda outcome: any(isinstance(one, kinds) for one in outcome.said)


def raises(outcome: Outcome) -> bool:
    """Whether the application hears of an error; that a position is out of range is another."""
    chunks = [
        chunk for one in outcome.said if isinstance(one, RecordsFetched) for chunk in one.chunks
    ]
    refused = any(
        chunk.error is not None and not isinstance(chunk.error, kafka_errors.OffsetOutOfRangeError)
        for chunk in chunks
    )
    return refused or says(*TOLD)(outcome)


def loses_partitions(outcome: Outcome) -> bool:
    return any(isinstance(one, RevokePartitions) and one.loss is Loss.LOST for one in outcome.said)


#: What can be seen of an action, whatever the answer is.
SEEN: dict[Do, Callable[[Outcome], bool]] = {
    Do.FIND_COORDINATOR: says(SuspectCoordinator),
    Do.REFRESH_METADATA: says(RefreshMetadata),
    Do.CONFIRM_MEMBERSHIP: says(ConfirmSession),
    Do.RAISE: raises,
}

#: Whose partitions can be lost; a commit's refusal is for the membership manager to confirm.
OWNERS = ("heartbeat", "consumer_heartbeat")

#: Where whoever is to try again sends something within the time that we look at.
SENDERS = ANSWERS.keys() - {
    "metadata",  # a refresh comes by itself, too
    "metadata_topic",
    "heartbeat",
    "consumer_heartbeat",
    "fetch_session",
}
AGAIN = Do.RETRY | Do.REJOIN | Do.FREE_INSTANCE_ID


def wrong(name: str, what: What) -> list[str]:
    """What the manager does and the table does not say, or the other way round."""
    outcome, answer = PROBES[name](what), ANSWERS[name]
    error = error_of(what) if isinstance(what, int) else type(what)
    meaning = means(answer, error)
    seen = {action: look(outcome) for action, look in SEEN.items()}
    if name in OWNERS:
        seen[Do.PARTITIONS_LOST] = loses_partitions(outcome)
    # Nothing is sent to a coordinator that is looked for.
    # A call that is told does not ask again; of OffsetFetch only a starting offset does.
    told = answer is Answer.OFFSET_FETCH and Do.RAISE in meaning
    if name in SENDERS and Do.FIND_COORDINATOR not in meaning and not told:
        sent = [*outcome.at_once, *outcome.later]
        # Who is refused for good leaves, and that may be seen, too.
        leaves = answer is not Answer.LEAVE_GROUP
        seen[AGAIN] = any(not (leaves and isinstance(one, LeaveGroupRequest)) for one in sent)
    return [
        f"{answer.value} {error.__name__}: {action.name} is {has}, not {meaning}"
        for action, has in seen.items()
        if has != bool(action & meaning)
    ]


@pytest.mark.parametrize("name", ANSWERS)
def test_every_code_of_every_answer_is_treated_as_the_table_says(name: str) -> None:
    complaints = [complaint for code in CODES for complaint in wrong(name, code)]

    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_every_request_without_an_answer_is_treated_as_the_table_says(name: str) -> None:
    complaints = [complaint for failure in FAILURES for complaint in wrong(name, failure)]

    assert not complaints, "\n".join(complaints)
