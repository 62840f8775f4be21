"""What each error means: one table, (kind of answer, error) to what is done about it.

The error is the code of an answer, or says why there is no answer. A manager asks
`means(Answer.HEARTBEAT, error)` and does what the row says; where the member's state matters too,
the manager decides, and the row's actions say between what. docs/errors.md is made from this
module.

Elsewhere the class of an error decides only about the words and the class of the error that is
raised. Errors that arise on our side (a refused login, a timeout) lead to more than the table says;
where that stands is listed in docs/architecture.md ("If you change X, read Y").

Sources: Kafka's `Errors`, and the Java client's AbstractCoordinator, ConsumerCoordinator,
OffsetsRequestManager, CommitRequestManager, AbstractHeartbeatRequestManager and FetchCollector.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from kafka.errors import (
    CoordinatorNotAvailableError,
    CorruptRecordError,
    FencedInstanceIdError,
    FencedLeaderEpochError,
    FencedMemberEpochError,
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InconsistentTopicIdError,
    InvalidFetchSessionEpochError,
    InvalidTopicError,
    KafkaConnectionError,
    KafkaStorageError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    LogTruncationError,
    MemberIdRequiredError,
    NoError,
    NoOffsetForPartitionError,
    NotCoordinatorError,
    NotLeaderForPartitionError,
    OffsetMetadataTooLargeError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    ReplicaNotAvailableError,
    RequestTimedOutError,
    StaleMemberEpochError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnknownLeaderEpochError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnreleasedInstanceIdError,
    UnsupportedCodecError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
    for_code,
)

from aktor.errors import (
    AuthenticationError,
    BatchTooLargeError,
    InvalidRegularExpressionError,
    RebootstrapRequired,
    RecordDeserializationError,
)
from aktor.values import Value

__all__ = [
    "CORRUPT",
    "FORBIDDEN",
    "LASTING",
    "REFUSED_FOR_GOOD",
    "ROWS",
    "Answer",
    "Do",
    "Rows",
    "doubts_epoch",
    "error_of",
    "forbids_topic",
    "is_corrupt",
    "means",
    "name_of",
    "only_a_seek_helps",
    "told_as",
]


class Do(enum.Flag):
    """What is done about an answer; several of them at once."""

    DONE = enum.auto()
    """The answer is a success, or is treated as one."""
    RETRY = enum.auto()
    """The same is asked again after the backoff (`retry_backoff_ms`, growing)."""
    REFRESH_METADATA = enum.auto()
    """Our metadata may be out of date: it is asked for."""
    FIND_COORDINATOR = enum.auto()
    """This broker is not the group's coordinator: FindCoordinator is sent."""
    AWAIT_TOPIC = enum.auto()
    """The topic is not there (yet, or any more); metadata will tell which."""
    CONFIRM_MEMBERSHIP = enum.auto()
    """A heartbeat is sent at once: it tells whether we are still a member."""
    NEXT_GENERATION = enum.auto()
    """The group has a new generation or epoch. When the member has it, too, the request may be
    repeated with it."""
    REJOIN = enum.auto()
    """The member joins (again)."""
    TAKE_MEMBER_ID = enum.auto()
    """The answer names the member's id: the member has this id from now on (KIP-394)."""
    PARTITIONS_LOST = enum.auto()
    """Others may own our partitions by now: they are given up without a commit."""
    NEW_MEMBER_ID = enum.auto()
    """The group does not know our id: the member joins without one (classic protocol)."""
    FREE_INSTANCE_ID = enum.auto()
    """A member has our `group_instance_id`, perhaps this very one: leave, then join again."""
    DROP_NOTE = enum.auto()
    """If the metadata is too long only because of our note in it (`commit_note`), the commit is
    sent again without the note, and this consumer writes no more notes."""
    LEAVE = enum.auto()
    """The coordinator still has the member in its group: unless it joins again it must send
    LeaveGroup (KIP-848: the leave heartbeat); otherwise the group waits until its session times
    out."""
    OTHER_PROTOCOL = enum.auto()
    """With `group_protocol="auto"` the classic protocol takes over."""
    NEW_FETCH_SESSION = enum.auto()
    """The next Fetch begins another session (KIP-227). Without RETRY it is sent at once."""
    FORGET_FETCH_SESSION = enum.auto()
    """The broker has no session of this id: the next Fetch does not name it."""
    RESET_POSITION = enum.auto()
    """The position is outside the log: `auto_offset_reset` decides."""
    REBOOTSTRAP = enum.auto()
    """All connections are closed, and the bootstrap servers are asked (KIP-1102)."""
    RAISE = enum.auto()
    """The application is told: a call raises it, or the next `poll`."""


class Answer(enum.Enum):
    """The answers that can be refused: of which API, and what it was for."""

    API_VERSIONS = "ApiVersions"
    SASL_HANDSHAKE = "SaslHandshake"
    SASL_AUTHENTICATE = "SaslAuthenticate"
    METADATA = "Metadata, as a whole"
    METADATA_TOPIC = "Metadata, a topic that is read"
    METADATA_QUESTION = "Metadata, a topic that a call asks about"
    METADATA_NAME = "Metadata, the name of a topic id"
    FIND_COORDINATOR = "FindCoordinator"
    LIST_OFFSETS = "ListOffsets, where a position is reset to"
    LIST_OFFSETS_BY_TIME = "ListOffsets, what a call asks about"
    LIST_ENDS = "ListOffsets, where a log ends at which somebody looks"
    OFFSET_FOR_LEADER_EPOCH = "OffsetForLeaderEpoch, whether a leader has what was read"
    OFFSET_FETCH = "OffsetFetch, the group or a partition"
    OFFSET_COMMIT = "OffsetCommit, a partition"
    JOIN_GROUP = "JoinGroup"
    SYNC_GROUP = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    LEAVE_GROUP = "LeaveGroup"
    DESCRIBE_GROUPS = "DescribeGroups"
    CONSUMER_JOIN = "ConsumerGroupHeartbeat, of a member that joins"
    CONSUMER_HEARTBEAT = "ConsumerGroupHeartbeat, of a member of the group"
    CONSUMER_FREE = "ConsumerGroupHeartbeat, that frees a group_instance_id"
    CONSUMER_LEAVE = "ConsumerGroupHeartbeat, of a member that leaves"
    FETCH = "Fetch, as a whole"
    FETCH_PARTITION = "Fetch, a partition from its leader"
    FETCH_FOLLOWER = "Fetch, a partition from a follower"


#: There is no answer: the broker was silent, or the connection broke or could not be opened.
_UNANSWERED: Final = (KafkaConnectionError, KafkaTimeoutError)


class Rows(Value):
    """The rows of one kind of answer: some errors, and what holds for all others.

    `retriable` is for the other codes that Kafka calls retriable, `fatal` for the rest, `unknown`
    for codes that are newer than we are and for UNKNOWN_SERVER_ERROR (`fatal` if None).

    Two rows are for requests without an answer: `unanswered` (`retriable` if None), and `denied` if
    the broker refused our credentials. The network actor tells the application of that one; other
    brokers, or the same with new credentials, may answer. A request that the broker has no version
    of, UNSUPPORTED_VERSION, has the same row whether the broker or our own client says so.
    """

    codes: Mapping[type[BaseException], Do] = field(default_factory=dict)
    retriable: Do = Do.RETRY
    fatal: Do = Do.RAISE
    unknown: Do | None = None
    unanswered: Do | None = None
    denied: Do = Do.RETRY

    def of(self, error: type[BaseException]) -> Do:
        """What is done about this error."""
        if error is NoError:
            return Do.DONE
        for kind in error.__mro__:
            if kind in self.codes:
                return self.codes[kind]
        if issubclass(error, AuthenticationError):
            return self.denied
        if self.unanswered is not None and issubclass(error, _UNANSWERED):
            return self.unanswered
        if getattr(error, "retriable", False):
            return self.retriable
        if self.unknown is not None and issubclass(error, UnknownError):
            return self.unknown
        return self.fatal


#: The broker is not the group's coordinator (any more).
_NO_COORDINATOR: Final[Mapping[type[BaseException], Do]] = {
    CoordinatorNotAvailableError: Do.RETRY | Do.FIND_COORDINATOR,
    NotCoordinatorError: Do.RETRY | Do.FIND_COORDINATOR,
}

#: The same for OffsetCommit and OffsetFetch: a coordinator whose replicas did not acknowledge in
#: time is not used further either.
_NO_OFFSETS: Final[Mapping[type[BaseException], Do]] = {
    **_NO_COORDINATOR,
    RequestTimedOutError: Do.RETRY | Do.FIND_COORDINATOR,
}

#: The coordinator does not know this member, or has another generation.
_NOT_A_MEMBER: Final[Mapping[type[BaseException], Do]] = {
    UnknownMemberIdError: Do.PARTITIONS_LOST | Do.NEW_MEMBER_ID | Do.REJOIN,
    IllegalGenerationError: Do.PARTITIONS_LOST | Do.REJOIN,
}

#: Our metadata is out of date, or the broker's.
_STALE_METADATA: Final[Mapping[type[BaseException], Do]] = dict.fromkeys(
    (
        FencedLeaderEpochError,
        InconsistentTopicIdError,
        KafkaStorageError,
        LeaderNotAvailableError,
        NotLeaderForPartitionError,
        OffsetNotAvailableError,
        ReplicaNotAvailableError,
        UnknownTopicIdError,
    ),
    Do.RETRY | Do.REFRESH_METADATA,
) | {
    UnknownTopicOrPartitionError: Do.RETRY | Do.REFRESH_METADATA | Do.AWAIT_TOPIC,
    # The broker has not heard yet of an election that we know of, perhaps its own (KIP-951).
    UnknownLeaderEpochError: Do.RETRY,
}

#: The coordinator may be gone: heartbeats, commits and joins go to the one that is found next.
_SUSPECT: Final = Do.RETRY | Do.FIND_COORDINATOR

#: The member gives everything up, and the user has to do something.
_NO_MEMBER: Final = Do.RAISE | Do.PARTITIONS_LOST

#: The same in the classic protocol, where the member joins again after the next poll.
REFUSED_FOR_GOOD: Final = _NO_MEMBER | Do.NEW_MEMBER_ID | Do.LEAVE

#: What a member of the classic protocol cannot do anything about.
_REFUSED: Final[Mapping[type[BaseException], Do]] = {
    # Another instance has our `group_instance_id`. If we joined with a new member id we would fence
    # that instance, it would fence us, and so on.
    FencedInstanceIdError: _NO_MEMBER,
    # No LeaveGroup is sent: it would be refused for the same reason.
    GroupAuthorizationFailedError: _NO_MEMBER | Do.NEW_MEMBER_ID,
}

#: The error of one partition may be corrected from outside: it is raised once, and the request is
#: repeated from time to time.
_TRY_ON: Final = Do.RAISE | Do.RETRY

#: The whole table.
ROWS: Final[Mapping[Answer, Rows]] = {
    # KIP-511: the refusal is in version 0, and says which versions there are.
    Answer.API_VERSIONS: Rows(codes={UnsupportedVersionError: Do.RETRY}, retriable=Do.RAISE),
    Answer.SASL_HANDSHAKE: Rows(retriable=Do.RAISE),
    Answer.SASL_AUTHENTICATE: Rows(retriable=Do.RAISE),
    # If a call has asked, METADATA_QUESTION says whether it goes on; a name is always asked again.
    Answer.METADATA: Rows(
        codes={
            RebootstrapRequired: Do.RETRY | Do.REBOOTSTRAP,
            UnsupportedVersionError: _TRY_ON,  # without metadata nothing is ever read
        },
        fatal=Do.RETRY,
    ),
    Answer.METADATA_TOPIC: Rows(
        codes={
            # Told when two answers in a row say so, for at least two seconds.
            UnknownTopicOrPartitionError: Do.RETRY | Do.AWAIT_TOPIC | Do.RAISE,
            TopicAuthorizationFailedError: _TRY_ON,
            InvalidTopicError: Do.RAISE,
        },
        fatal=Do.RETRY,
    ),
    Answer.METADATA_QUESTION: Rows(
        codes={
            UnknownTopicOrPartitionError: Do.DONE,  # the topic does not exist, which is the answer
            TopicAuthorizationFailedError: Do.RAISE,
            InvalidTopicError: Do.RAISE,
            UnsupportedVersionError: Do.RAISE,
        },
        fatal=Do.RETRY,
    ),
    Answer.METADATA_NAME: Rows(fatal=Do.RETRY),
    # An error that a retry does not correct is raised each time, and tried again once a second.
    Answer.FIND_COORDINATOR: Rows(fatal=_TRY_ON),
    # An error that is not known to be final is retried, as by the Java client (OffsetFetcherUtils).
    Answer.LIST_OFFSETS: Rows(
        codes={
            TopicAuthorizationFailedError: Do.RAISE,
            UnsupportedVersionError: Do.RAISE,
            UnsupportedForMessageFormatError: Do.RAISE,  # a duration: no record has a timestamp
        },
        retriable=Do.RETRY | Do.REFRESH_METADATA,
        fatal=Do.RETRY | Do.REFRESH_METADATA,
        denied=Do.RETRY | Do.REFRESH_METADATA,
    ),
    Answer.LIST_OFFSETS_BY_TIME: Rows(
        codes={
            TopicAuthorizationFailedError: Do.RAISE,
            UnsupportedVersionError: Do.RAISE,
            # No record has a timestamp (before 0.10), so none is found by its time. That is no
            # answer to who asks where the log begins or ends: it is raised there.
            UnsupportedForMessageFormatError: Do.DONE,
        },
        retriable=Do.RETRY | Do.REFRESH_METADATA,
        fatal=Do.RETRY | Do.REFRESH_METADATA,
        denied=Do.RETRY | Do.REFRESH_METADATA,
    ),
    # It is only asked so that `status()` knows the lag: otherwise the lag is not known.
    Answer.LIST_ENDS: Rows(
        codes={TopicAuthorizationFailedError: Do.RETRY, UnsupportedVersionError: Do.RETRY},
        retriable=Do.RETRY | Do.REFRESH_METADATA,
        fatal=Do.RETRY | Do.REFRESH_METADATA,
        denied=Do.RETRY | Do.REFRESH_METADATA,
    ),
    # If the leader may not be asked, or is too old, the position counts as valid: a Fetch with the
    # epoch of the last record finds the truncation, too (v12), and tells of a refused topic.
    Answer.OFFSET_FOR_LEADER_EPOCH: Rows(
        codes={
            TopicAuthorizationFailedError: Do.DONE,
            UnsupportedVersionError: Do.DONE,
            UnknownLeaderEpochError: Do.RETRY,  # it has not heard yet that it leads (KIP-951)
        },
        retriable=Do.RETRY | Do.REFRESH_METADATA,
        fatal=Do.RETRY | Do.REFRESH_METADATA,
        denied=Do.RETRY | Do.REFRESH_METADATA,
    ),
    Answer.OFFSET_FETCH: Rows(
        codes={
            **_NO_OFFSETS,
            # A member of a KIP-848 group has asked with an old epoch or member id. This never means
            # that nothing is committed: the member asks again with its new epoch.
            StaleMemberEpochError: Do.RETRY | Do.CONFIRM_MEMBERSHIP,
            UnknownMemberIdError: Do.RETRY | Do.CONFIRM_MEMBERSHIP,
            GroupIdNotFoundError: Do.RETRY | Do.CONFIRM_MEMBERSHIP,
            UnknownTopicOrPartitionError: Do.RETRY | Do.AWAIT_TOPIC,
            UnknownTopicIdError: Do.RETRY | Do.AWAIT_TOPIC | Do.REFRESH_METADATA,
        },
        unanswered=_SUSPECT,
        # The call of the application fails. The look-up of starting offsets is repeated.
        denied=_TRY_ON,
    ),
    Answer.OFFSET_COMMIT: Rows(
        codes={
            **_NO_OFFSETS,
            UnknownTopicOrPartitionError: Do.RETRY | Do.AWAIT_TOPIC,
            UnknownTopicIdError: Do.RETRY | Do.AWAIT_TOPIC | Do.REFRESH_METADATA,
            StaleMemberEpochError: Do.RETRY | Do.CONFIRM_MEMBERSHIP | Do.NEXT_GENERATION,
            RebalanceInProgressError: Do.CONFIRM_MEMBERSHIP | Do.NEXT_GENERATION | Do.RAISE,
            IllegalGenerationError: Do.CONFIRM_MEMBERSHIP
            | Do.NEXT_GENERATION
            | Do.PARTITIONS_LOST
            | Do.RAISE,
            UnknownMemberIdError: Do.CONFIRM_MEMBERSHIP | Do.PARTITIONS_LOST | Do.RAISE,
            GroupIdNotFoundError: Do.CONFIRM_MEMBERSHIP | Do.PARTITIONS_LOST | Do.RAISE,
            FencedInstanceIdError: Do.PARTITIONS_LOST | Do.RAISE,
            OffsetMetadataTooLargeError: Do.DROP_NOTE | Do.RAISE,
        },
        unanswered=_SUSPECT,
        denied=Do.RAISE,
    ),
    Answer.JOIN_GROUP: Rows(
        codes={
            **_NO_COORDINATOR,
            **_NOT_A_MEMBER,
            **_REFUSED,
            MemberIdRequiredError: Do.TAKE_MEMBER_ID | Do.REJOIN,
            RebalanceInProgressError: Do.RETRY,
        },
        fatal=REFUSED_FOR_GOOD,
        unanswered=_SUSPECT,  # unless heartbeats are answered meanwhile
    ),
    Answer.SYNC_GROUP: Rows(
        codes={
            **_NO_COORDINATOR,
            **_NOT_A_MEMBER,
            **_REFUSED,
            RebalanceInProgressError: Do.REJOIN,
        },
        fatal=REFUSED_FOR_GOOD,
        unanswered=_SUSPECT,  # unless heartbeats are answered meanwhile
    ),
    Answer.HEARTBEAT: Rows(
        codes={
            **_NO_COORDINATOR,
            **_NOT_A_MEMBER,
            **_REFUSED,
            RebalanceInProgressError: Do.DONE | Do.REJOIN,  # the member is known, and must join
        },
        fatal=REFUSED_FOR_GOOD,
        unanswered=_SUSPECT,
    ),
    # A member that the coordinator does not know has left. Other errors are not retried: the
    # application is leaving.
    Answer.LEAVE_GROUP: Rows(codes=_NO_COORDINATOR, fatal=Do.DONE, unanswered=_SUSPECT),
    # Heartbeats detect a lost coordinator. Without the right to describe the group the leader
    # goes on without the assignment.
    Answer.DESCRIBE_GROUPS: Rows(fatal=Do.DONE),
    Answer.CONSUMER_JOIN: Rows(
        codes={
            **_NO_COORDINATOR,
            # The member owns nothing that it could give up: it tries again.
            UnknownMemberIdError: Do.RETRY,
            FencedMemberEpochError: Do.RETRY,
            UnreleasedInstanceIdError: Do.FREE_INSTANCE_ID,
            TopicAuthorizationFailedError: _TRY_ON,
            GroupIdNotFoundError: Do.RAISE | Do.OTHER_PROTOCOL,
            UnsupportedVersionError: Do.RAISE | Do.OTHER_PROTOCOL,
        },
        unanswered=_SUSPECT,
    ),
    Answer.CONSUMER_HEARTBEAT: Rows(
        codes={
            **_NO_COORDINATOR,
            UnknownMemberIdError: Do.PARTITIONS_LOST | Do.REJOIN,
            # The group still has the member, with another epoch.
            FencedMemberEpochError: Do.PARTITIONS_LOST | Do.REJOIN | Do.LEAVE,
            # A group without members may have been deleted, or be a classic one by now.
            GroupIdNotFoundError: Do.PARTITIONS_LOST | Do.REJOIN,
            # The member stays; the coordinator checks its subscription again at each heartbeat.
            TopicAuthorizationFailedError: _TRY_ON,
        },
        fatal=_NO_MEMBER | Do.LEAVE,  # when the consumer is closed
        unanswered=_SUSPECT,
    ),
    Answer.CONSUMER_FREE: Rows(
        codes={
            **_NO_COORDINATOR,
            UnknownMemberIdError: Do.DONE,
            # There is no such group, so no member has the `group_instance_id`.
            GroupIdNotFoundError: Do.DONE,
        },
        unanswered=_SUSPECT,
    ),
    Answer.CONSUMER_LEAVE: Rows(codes=_NO_COORDINATOR, fatal=Do.DONE, unanswered=_SUSPECT),
    Answer.FETCH: Rows(
        codes={
            FetchSessionIdNotFoundError: Do.NEW_FETCH_SESSION | Do.FORGET_FETCH_SESSION,
            InvalidFetchSessionEpochError: Do.NEW_FETCH_SESSION,
            # The session was begun with names and goes on with ids, or the other way round.
            FetchSessionTopicIdError: Do.NEW_FETCH_SESSION | Do.REFRESH_METADATA,
            UnsupportedVersionError: Do.NEW_FETCH_SESSION
            | Do.RETRY
            | Do.REFRESH_METADATA
            | Do.RAISE,  # for each partition
        },
        retriable=Do.NEW_FETCH_SESSION | Do.RETRY | Do.REFRESH_METADATA,
        fatal=Do.NEW_FETCH_SESSION | Do.RETRY | Do.REFRESH_METADATA,
        denied=Do.NEW_FETCH_SESSION | Do.RETRY | Do.REFRESH_METADATA,
    ),
    Answer.FETCH_PARTITION: Rows(
        codes={
            **_STALE_METADATA,
            OffsetOutOfRangeError: Do.RESET_POSITION,
            TopicAuthorizationFailedError: _TRY_ON,
            CorruptRecordError: _TRY_ON,
        },
        fatal=_TRY_ON,
        unknown=Do.RETRY,
    ),
    Answer.FETCH_FOLLOWER: Rows(
        codes={
            **_STALE_METADATA,
            # A follower may be behind its leader: only the leader's error is final (KIP-392).
            OffsetOutOfRangeError: Do.RETRY,
            TopicAuthorizationFailedError: _TRY_ON,
            CorruptRecordError: _TRY_ON,
        },
        fatal=_TRY_ON,
        unknown=Do.RETRY,
    ),
}

#: Errors of a partition's position or records that no retry mends. The application gets each of
#: them again and again, until it seeks past the record or to another offset.
LASTING: Final = (
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    CorruptRecordError,
    BatchTooLargeError,
    RecordDeserializationError,
    UnsupportedCodecError,
)

#: A batch is corrupt: the broker says so, or our decoder does (`CorruptBatchError`).
CORRUPT: Final = CorruptRecordError

#: We may not describe or read a topic: it is refused, not the member or the group.
FORBIDDEN: Final = TopicAuthorizationFailedError


def means(answer: Answer, error: type[BaseException]) -> Do:
    """What is done about this error in this answer."""
    return ROWS[answer].of(error)


def only_a_seek_helps(error: BaseException) -> bool:
    """Whether this error of a partition lasts until the application seeks."""
    return isinstance(error, LASTING)


def is_corrupt(error: BaseException | None) -> bool:
    """Whether the batch is fetched again, because the next bytes may be sound."""
    return isinstance(error, CORRUPT)


def forbids_topic(error: type[BaseException]) -> bool:
    """Whether the error names the topics that we may not use. The parts of an answer that are about
    other topics may be fine."""
    return error is FORBIDDEN


def told_as(error: type[Exception]) -> type[Exception]:
    """The class of the error that the application is told. That a topic's id is not known is told
    as that its name is not known: programs that were written for kafka-python catch that."""
    return UnknownTopicOrPartitionError if error is UnknownTopicIdError else error


def doubts_epoch(error: type[BaseException]) -> bool:
    """Whether the leader says that it does not know the leader epoch that it was asked in: it lags
    behind, or there is no such epoch (`managers/metadata/leader_epochs`)."""
    return error is UnknownLeaderEpochError


#: Kafka's codes without a class in kafka-python.
_OURS: Final = {
    error.errno: error for error in (InvalidRegularExpressionError, RebootstrapRequired)
}


def error_of(code: int) -> type[Exception]:
    """The class of a code; of one that is not known a subclass of `UnknownError`."""
    found: type[Exception] = _OURS.get(code) or for_code(code)
    return found


def name_of(error: type[Exception]) -> str:
    """Kafka's own name for an error, "UNKNOWN_MEMBER_ID"; of a code that is not known the code."""
    code = getattr(error, "errno", None)
    if issubclass(error, UnknownError) and code != UnknownError.errno:
        return f"error code {code}"
    return str(getattr(error, "message", None) or error.__name__)
