"""What the user can do about an error: one table, beside that of `error_codes`.

`remedy(Answer.FETCH_PARTITION, error)` is the end of the error's text. docs/errors.md shows it for
each row whose error the application is told of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidCommitOffsetSizeError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    InvalidTopicError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
)

from aktor.errors import InvalidRegularExpressionError
from aktor.protocol.error_codes import Answer

__all__ = ["remedy"]

Remedies = Mapping[type[BaseException], str]

#: What `AuthenticationError` says, which a refused login raises.
_CREDENTIALS: Final = "check the credentials, the mechanism and the certificate settings"

#: In every answer that has no other remedy for the error.
_EVERYWHERE: Final[Remedies] = {
    SaslAuthenticationFailedError: _CREDENTIALS,
    TopicAuthorizationFailedError: "grant this principal DESCRIBE on the topic (an ACL)",
    GroupAuthorizationFailedError: "check group_id, and grant this principal READ on the group (an"
    " ACL)",
    InvalidTopicError: "check the topic's name: letters, digits, '.', '_' and '-', at most 249",
    InvalidGroupIdError: "check group_id, or choose another one",
    FencedInstanceIdError: "another consumer has the same group_instance_id; give each its own",
    GroupMaxSizeReachedError: "run fewer members or raise the brokers' group.max.size",
    InconsistentGroupProtocolError: "offer an assignor in partition_assignment_strategy that all"
    " members of the group have in common; or set group_protocol to 'consumer', if the"
    " group speaks it and may not be converted (the brokers' group.consumer.migration.policy)",
    InvalidSessionTimeoutError: "choose session_timeout_ms between the brokers'"
    " group.min.session.timeout.ms and group.max.session.timeout.ms",
    InvalidCommitOffsetSizeError: "commit shorter metadata, or fewer partitions at a time",
    OffsetMetadataTooLargeError: "commit shorter metadata (the brokers' offset.metadata.max.bytes)",
    UnsupportedCompressionTypeError: "the broker does not give records that are compressed so to a"
    " client like this one; see the topic's compression.type",
    UnsupportedVersionError: "the brokers are too old for this request; upgrade them, or do"
    " without what asks for it",
    UnsupportedForMessageFormatError: "the topic's records have no timestamps (the message format"
    " before 0.10), so no offset is found by time; begin at 'earliest', 'latest' or an offset",
}

_READ_TOPIC: Final[Remedies] = {
    TopicAuthorizationFailedError: "grant this principal READ on the topic (an ACL)",
}

#: Of the classic group protocol.
_CLASSIC: Final[Remedies] = {
    UnsupportedVersionError: "the brokers are too old for what this consumer asks of the group",
}

#: Of the group protocol of KIP-848.
_CONSUMER: Final[Remedies] = {
    TopicAuthorizationFailedError: "grant this principal DESCRIBE on the topics of its"
    " subscription; it is tried again with every heartbeat",
    GroupMaxSizeReachedError: "run fewer members or raise the brokers' group.consumer.max.size",
    UnreleasedInstanceIdError: "another consumer with the same group_instance_id is in the group;"
    " give each its own, or close that one first",
    UnsupportedAssignorError: "choose one of the brokers' assignors for group_remote_assignor, or"
    " leave it out",
    InvalidRegularExpressionError: "mend the pattern (brokers use the syntax of RE2), and subscribe"
    " to it with a new consumer",
    UnsupportedVersionError: "the cluster does not have the consumer group protocol of KIP-848"
    " (Kafka 4.0 and newer, with the feature group.version 1); set group_protocol to 'classic' or"
    " 'auto'",
    GroupIdNotFoundError: "the group exists with another protocol that may not be changed while it"
    " has members; set group_protocol to 'classic' or 'auto', or set the brokers'"
    " group.consumer.migration.policy",
}

#: In these answers, before those of everywhere.
_IN: Final[Mapping[Answer, Remedies]] = {
    Answer.METADATA_TOPIC: {
        UnknownTopicOrPartitionError: "create it, check the spelling, or see whether"
        " allow_auto_create_topics and the broker's auto.create.topics.enable are meant to create"
        " it; the consumer keeps looking for it",
    },
    Answer.JOIN_GROUP: _CLASSIC,
    Answer.SYNC_GROUP: _CLASSIC,
    Answer.HEARTBEAT: _CLASSIC,
    Answer.CONSUMER_JOIN: _CONSUMER,
    Answer.CONSUMER_HEARTBEAT: _CONSUMER,
    Answer.CONSUMER_FREE: _CONSUMER,
    Answer.OFFSET_COMMIT: {
        **_READ_TOPIC,
        **dict.fromkeys(
            (
                GroupIdNotFoundError,
                IllegalGenerationError,
                RebalanceInProgressError,
                UnknownMemberIdError,
            ),
            "go on polling, which joins the group again; another member may read the partitions"
            " from the last commit on",
        ),
        UnknownTopicOrPartitionError: "the coordinator knows no such topic or partition: if it was"
        " deleted, leave it out of the commit; if it is new, commit again",
    },
    Answer.FETCH_PARTITION: _READ_TOPIC,
    Answer.FETCH_FOLLOWER: _READ_TOPIC,
}

#: Whatever the error is.
_ALL: Final[Mapping[Answer, str]] = {
    Answer.API_VERSIONS: "check that the address is that of a Kafka broker, and look into its log",
    Answer.SASL_HANDSHAKE: _CREDENTIALS,
    Answer.SASL_AUTHENTICATE: _CREDENTIALS,
}

#: Of errors that have no remedy of their own.
_TRY_AGAIN: Final = "try again; if that does not help, look into the broker's log"
_SEE_LOG: Final = "look into the broker's log"


def remedy(answer: Answer, error: type[BaseException]) -> str:
    """What to do about this error in this answer: the end of a sentence, without its full stop."""
    if answer in _ALL:
        return _ALL[answer]
    own = _IN.get(answer, {})
    for kind in error.__mro__:
        for remedies in (own, _EVERYWHERE):
            if kind in remedies:
                return remedies[kind]
    return _TRY_AGAIN if getattr(error, "retriable", False) else _SEE_LOG
