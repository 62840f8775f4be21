"""The text of every error that the table lets the application hear of: what it is about, who
refused it, and what to do about it."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Iterator

import pytest
from kafka.errors import (
    CommitFailedError,
    CorruptRecordError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
)
from kafka.structs import TopicPartition

from aktor.errors import AuthenticationError
from aktor.events.answers import Failed
from aktor.events.commits import StartingOffsetsFailed
from aktor.events.coordinator import CoordinatorRefused
from aktor.events.fetching import RecordsFetched
from aktor.events.membership import GroupFailed
from aktor.events.metadata import TopicsRefused
from aktor.events.network import BrokerRefused
from aktor.events.positions import PositionsFailed
from aktor.protocol.error_codes import Answer
from aktor.protocol.refusals import no_offset, out_of_range, topics_refused
from aktor.protocol.remedies import remedy
from tests.unit.managers.builders_error_codes import ANSWERS, errors_of
from tests.unit.managers.builders_errors import Outcome, Probe

TOPIC = r"\btopics? (t|u|'t'|'u')(\W|$)"
PARTITION = r"\bt-0\b"
GROUP = r"\bgroup 'g'"
T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)

PLACE = r"\borders-0 at offset 0\b"

#: What the text names, in these answers. A broker is named in all of them.
ABOUT = {
    Answer.METADATA_TOPIC: TOPIC,
    Answer.METADATA_QUESTION: TOPIC,
    Answer.FIND_COORDINATOR: GROUP,
    Answer.LIST_OFFSETS: f"{TOPIC}|{PARTITION}",
    Answer.LIST_OFFSETS_BY_TIME: f"{TOPIC}|{PARTITION}",
    Answer.OFFSET_FETCH: f"{TOPIC}|{PARTITION}",
    Answer.OFFSET_COMMIT: f"{TOPIC}|{PARTITION}",
    Answer.JOIN_GROUP: GROUP,
    Answer.SYNC_GROUP: GROUP,
    Answer.HEARTBEAT: GROUP,
    Answer.CONSUMER_JOIN: GROUP,
    Answer.CONSUMER_HEARTBEAT: GROUP,
    Answer.CONSUMER_FREE: GROUP,
    Answer.FETCH: PLACE,
    Answer.FETCH_PARTITION: f"{PLACE}|topic 'orders'",
    Answer.FETCH_FOLLOWER: f"{PLACE}|topic 'orders'",
}

#: Errors whose own words say what to do: they mean the same in every answer.
WORDS: dict[type[BaseException], str] = {
    AuthenticationError: "Check the credentials",
    CommitFailedError: "[Gg]o on polling|Give it a group_id that no group uses",
    CorruptRecordError: "seek past it",
    KafkaConnectionError: "Commit again|address is that of a Kafka broker",
    KafkaTimeoutError: "call again|Commit again",
    RebalanceInProgressError: r"poll\(\)",
}


def told(outcome: Outcome) -> Iterator[Exception]:
    """The errors that the application gets. That a position is out of range leads to a reset."""
    for one in outcome.said:
        match one:
            case Exception():
                yield one
            case RecordsFetched():
                errors = [chunk.error for chunk in one.chunks if chunk.error is not None]
                yield from (e for e in errors if not isinstance(e, OffsetOutOfRangeError))
            case (
                BrokerRefused()
                | CoordinatorRefused()
                | Failed()
                | GroupFailed()
                | PositionsFailed()
                | StartingOffsetsFailed()
                | TopicsRefused()
            ):
                yield one.error


def lacks(answer: Answer, error: Exception) -> list[str]:
    """What the text of this error does not say."""
    text = str(error)
    own = next((WORDS[kind] for kind in type(error).__mro__ if kind in WORDS), "$^")
    wanted = {"what to do": f"{own}|{re.escape(remedy(answer, type(error)))}"}
    if not isinstance(error, AuthenticationError) and answer in ABOUT:
        wanted["what it is about"] = ABOUT[answer]
    if type(error) is not KafkaError:  # that one was never sent
        wanted["the broker"] = r"\bbroker\b"
    return [name for name, pattern in wanted.items() if not re.search(pattern, text)]


@pytest.mark.few_cases
@pytest.mark.parametrize("probe", ANSWERS)
def test_an_error_names_what_it_is_about_and_who_refused_it_and_says_what_to_do(
    probe: Probe,
) -> None:
    answer = ANSWERS[probe]
    complaints = [
        f"{what!r}: {', '.join(missing)} is not in {error!s}"
        for what in errors_of(answer)
        for error in told(probe(what))
        if (missing := lacks(answer, error))
    ]

    assert not complaints, "\n".join(complaints)


def test_the_argument_of_a_refused_topic_is_the_set_of_topics_as_in_kafka_python() -> None:
    error = topics_refused(
        TopicAuthorizationFailedError, ["b", "a"], Answer.FETCH_PARTITION, by="broker 1 at b:9092"
    )

    assert error.args[0] == {"a", "b"}
    assert repr(error) == "TopicAuthorizationFailedError({'a', 'b'})"
    assert str(error) == (
        "[Error 29] TopicAuthorizationFailedError: Fetch for the topics 'a', 'b' was refused by"
        " broker 1 at b:9092; grant this principal READ on the topic (an ACL)"
    )
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("error", "argument", "text"),
    [
        (
            out_of_range({U0: 7, T0: 99}, "seek"),
            {T0: 99, U0: 7},
            "t-0 at offset 99, u-0 at offset 7: the log has no such offset; seek",
        ),
        (
            no_offset({U0, T0}, "seek"),
            {T0, U0},
            "no offset to begin at is known for t-0, u-0; seek",
        ),
    ],
    ids=["out of range", "no offset"],
)
def test_without_a_policy_an_error_says_where_and_has_the_argument_of_kafka_python(
    error: Exception, argument: object, text: str
) -> None:
    assert error.args == (argument,)
    for one in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(one).endswith(f"{type(error).__name__}: {text}")
