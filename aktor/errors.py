"""What can go wrong: typed errors that say where it happened and what to do about it.

Everything kafka-python already has a class for keeps that class (a drop-in must raise what the
caller catches), and all of its classes are here, too; what is ours adds coordinates and remedies,
as subclasses of those classes.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, dataclass_transform

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: off
# All of `kafka.errors`: a program need only replace the name of the package.
from aktor import kafka_errors
from aktor.kafka_errors import (
    AuthorizationError as AuthorizationError,
    BrokerIdNotRegisteredError as BrokerIdNotRegisteredError,
    BrokerNotAvailableError as BrokerNotAvailableError,
    BrokerResponseError as BrokerResponseError,
    Cancelled as Cancelled,
    ClusterAuthorizationFailedError as ClusterAuthorizationFailedError,
    CommitFailedError as CommitFailedError,
    ConcurrentTransactionsError as ConcurrentTransactionsError,
    CoordinatorLoadInProgressError as CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError as CoordinatorNotAvailableError,
    CorrelationIdError as CorrelationIdError,
    CorruptRecordError as CorruptRecordError,
    CorruptRecordException as CorruptRecordException,
    DelegationTokenAuthDisabledError as DelegationTokenAuthDisabledError,
    DelegationTokenAuthorizationFailedError as DelegationTokenAuthorizationFailedError,
    DelegationTokenExpiredError as DelegationTokenExpiredError,
    DelegationTokenNotFoundError as DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError as DelegationTokenOwnerMismatchError,
    DelegationTokenRequestNotAllowedError as DelegationTokenRequestNotAllowedError,
    DuplicateBrokerRegistrationError as DuplicateBrokerRegistrationError,
    DuplicateResourceError as DuplicateResourceError,
    DuplicateSequenceNumberError as DuplicateSequenceNumberError,
    DuplicateVoterError as DuplicateVoterError,
    ElectionNotNeededError as ElectionNotNeededError,
    EligibleLeadersNotAvailableError as EligibleLeadersNotAvailableError,
    FeatureUpdateFailedError as FeatureUpdateFailedError,
    FencedInstanceIdError as FencedInstanceIdError,
    FencedLeaderEpochError as FencedLeaderEpochError,
    FencedMemberEpochError as FencedMemberEpochError,
    FencedStateEpochError as FencedStateEpochError,
    FetchSessionIdNotFoundError as FetchSessionIdNotFoundError,
    FetchSessionTopicIdError as FetchSessionTopicIdError,
    GroupAuthorizationFailedError as GroupAuthorizationFailedError,
    GroupIdNotFoundError as GroupIdNotFoundError,
    GroupMaxSizeReachedError as GroupMaxSizeReachedError,
    GroupSubscribedToTopicError as GroupSubscribedToTopicError,
    IllegalArgumentError as IllegalArgumentError,
    IllegalGenerationError as IllegalGenerationError,
    IllegalSaslStateError as IllegalSaslStateError,
    IllegalStateError as IllegalStateError,
    IncompatibleBrokerVersion as IncompatibleBrokerVersion,
    InconsistentClusterIdError as InconsistentClusterIdError,
    InconsistentGroupProtocolError as InconsistentGroupProtocolError,
    InconsistentTopicIdError as InconsistentTopicIdError,
    InconsistentVoterSetError as InconsistentVoterSetError,
    IneligibleReplicaError as IneligibleReplicaError,
    InvalidCommitOffsetSizeError as InvalidCommitOffsetSizeError,
    InvalidConfigurationError as InvalidConfigurationError,
    InvalidFetchRequestError as InvalidFetchRequestError,
    InvalidFetchSessionEpochError as InvalidFetchSessionEpochError,
    InvalidGroupIdError as InvalidGroupIdError,
    InvalidMetadataError as InvalidMetadataError,
    InvalidPartitionsError as InvalidPartitionsError,
    InvalidPrincipalTypeError as InvalidPrincipalTypeError,
    InvalidProducerEpochError as InvalidProducerEpochError,
    InvalidProducerIdMappingError as InvalidProducerIdMappingError,
    InvalidReceiveError as InvalidReceiveError,
    InvalidRecordError as InvalidRecordError,
    InvalidRecordStateError as InvalidRecordStateError,
    InvalidRegistrationError as InvalidRegistrationError,
    InvalidReplicationAssignmentError as InvalidReplicationAssignmentError,
    InvalidReplicationFactorError as InvalidReplicationFactorError,
    InvalidRequestError as InvalidRequestError,
    InvalidRequiredAcksError as InvalidRequiredAcksError,
    InvalidSessionTimeoutError as InvalidSessionTimeoutError,
    InvalidShareSessionEpochError as InvalidShareSessionEpochError,
    InvalidTimestampError as InvalidTimestampError,
    InvalidTopicError as InvalidTopicError,
    InvalidTransactionTimeoutError as InvalidTransactionTimeoutError,
    InvalidTxnStateError as InvalidTxnStateError,
    InvalidUpdateVersionError as InvalidUpdateVersionError,
    InvalidVoterKeyError as InvalidVoterKeyError,
    KafkaConfigurationError as KafkaConfigurationError,
    KafkaConnectionError as KafkaConnectionError,
    KafkaError as KafkaError,
    KafkaProtocolError as KafkaProtocolError,
    KafkaStorageError as KafkaStorageError,
    KafkaTimeoutError as KafkaTimeoutError,
    LeaderNotAvailableError as LeaderNotAvailableError,
    ListenerNotFoundError as ListenerNotFoundError,
    LogDirNotFoundError as LogDirNotFoundError,
    MemberIdRequiredError as MemberIdRequiredError,
    MessageSizeTooLargeError as MessageSizeTooLargeError,
    MetadataEmptyBrokerList as MetadataEmptyBrokerList,
    MismatchedEndpointTypeError as MismatchedEndpointTypeError,
    NetworkExceptionError as NetworkExceptionError,
    NewLeaderElectedError as NewLeaderElectedError,
    NoError as NoError,
    NoOffsetForPartitionError as NoOffsetForPartitionError,
    NoReassignmentInProgressError as NoReassignmentInProgressError,
    NodeNotReadyError as NodeNotReadyError,
    NonEmptyGroupError as NonEmptyGroupError,
    NotControllerError as NotControllerError,
    NotCoordinatorError as NotCoordinatorError,
    NotEnoughReplicasAfterAppendError as NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError as NotEnoughReplicasError,
    NotLeaderForPartitionError as NotLeaderForPartitionError,
    OffsetMetadataTooLargeError as OffsetMetadataTooLargeError,
    OffsetMovedToTieredStorageError as OffsetMovedToTieredStorageError,
    OffsetNotAvailableError as OffsetNotAvailableError,
    OffsetOutOfRangeError as OffsetOutOfRangeError,
    OperationNotAttemptedError as OperationNotAttemptedError,
    OutOfOrderSequenceNumberError as OutOfOrderSequenceNumberError,
    PolicyViolationError as PolicyViolationError,
    PositionOutOfRangeError as PositionOutOfRangeError,
    PreferredLeaderNotAvailableError as PreferredLeaderNotAvailableError,
    PrincipalDeserializationFailureError as PrincipalDeserializationFailureError,
    ProducerFencedError as ProducerFencedError,
    QuotaViolationError as QuotaViolationError,
    ReassignmentInProgressError as ReassignmentInProgressError,
    RebalanceInProgressError as RebalanceInProgressError,
    RecordListTooLargeError as RecordListTooLargeError,
    ReplicaNotAvailableError as ReplicaNotAvailableError,
    RequestTimedOutError as RequestTimedOutError,
    ResourceNotFoundError as ResourceNotFoundError,
    RetriableError as RetriableError,
    SaslAuthenticationFailedError as SaslAuthenticationFailedError,
    SecurityDisabledError as SecurityDisabledError,
    ShareSessionNotFoundError as ShareSessionNotFoundError,
    SnapshotNotFoundError as SnapshotNotFoundError,
    StaleBrokerEpochError as StaleBrokerEpochError,
    StaleControllerEpochError as StaleControllerEpochError,
    StaleMemberEpochError as StaleMemberEpochError,
    StaleMetadata as StaleMetadata,
    TelemetryTooLargeError as TelemetryTooLargeError,
    ThrottlingQuotaExceededError as ThrottlingQuotaExceededError,
    TooManyInFlightRequests as TooManyInFlightRequests,
    TopicAlreadyExistsError as TopicAlreadyExistsError,
    TopicAuthorizationFailedError as TopicAuthorizationFailedError,
    TopicDeletionDisabledError as TopicDeletionDisabledError,
    TransactionAbortableError as TransactionAbortableError,
    TransactionAbortedError as TransactionAbortedError,
    TransactionCoordinatorFencedError as TransactionCoordinatorFencedError,
    TransactionalIdAuthorizationFailedError as TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError as TransactionalIdNotFoundError,
    UnacceptableCredentialError as UnacceptableCredentialError,
    UnknownBrokerIdError as UnknownBrokerIdError,
    UnknownControllerIdError as UnknownControllerIdError,
    UnknownError as UnknownError,
    UnknownLeaderEpochError as UnknownLeaderEpochError,
    UnknownMemberIdError as UnknownMemberIdError,
    UnknownProducerIdError as UnknownProducerIdError,
    UnknownSubscriptionIdError as UnknownSubscriptionIdError,
    UnknownTopicIdError as UnknownTopicIdError,
    UnknownTopicOrPartitionError as UnknownTopicOrPartitionError,
    UnrecognizedBrokerVersion as UnrecognizedBrokerVersion,
    UnreleasedInstanceIdError as UnreleasedInstanceIdError,
    UnstableOffsetCommitError as UnstableOffsetCommitError,
    UnsupportedAssignorError as UnsupportedAssignorError,
    UnsupportedCodecError as UnsupportedCodecError,
    UnsupportedCompressionTypeError as UnsupportedCompressionTypeError,
    UnsupportedEndpointTypeError as UnsupportedEndpointTypeError,
    UnsupportedForMessageFormatError as UnsupportedForMessageFormatError,
    UnsupportedSaslMechanismError as UnsupportedSaslMechanismError,
    UnsupportedVersionError as UnsupportedVersionError,
    VoterNotFoundError as VoterNotFoundError,
    for_code as for_code,
)

# isort: on
from aktor.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "ActorCrashedError",
    "ActorRestartedError",
    "AuthenticationError",
    "BackgroundThreadError",
    "BatchTooLargeError",
    "BootstrapError",
    "BrokersUnreachableError",
    "ConcurrentAccessError",
    "ConfigurationError",
    "ConsumerClosedError",
    "ConsumerForkedError",
    "ConsumerStoppedError",
    "CorruptBatchError",
    "DataLossError",
    "DeliveryError",
    "FrameError",
    "HandlerError",
    "InvalidRowError",
    "InvalidRegularExpressionError",
    "LogTruncationError",
    "NoBrokersAvailable",
    "OutsideLogError",
    "RecordDeserializationError",
    "SchemaLookUpError",
    "UserCallbackError",
    "WakeupError",
    "WorkerDiedError",
]
# As `from kafka.errors import *`; where ours is a subclass of the same name, ours.
__all__ += sorted(
    {name for name, value in vars(kafka_errors).items() if callable(value) and name[0] != "_"}
    - {*__all__}
)


#: Brokers that an error names; a cluster may have hundreds.
_NAMED = 5


@dataclass_transform(kw_only_default=True, eq_default=False)
class _WithFields(KafkaError):
    """An error that is made of keyword arguments: those that its classes annotate, with defaults.

    Each of them is an attribute of the error, and `_text` makes the message of them. pickle and
    copy make the error again of the same arguments. (No `dataclass`: it would compile functions for
    each of these classes, see `aktor.values`.)
    """

    #: The names of the arguments.
    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._names = (*cls._names, *inspect.get_annotations(cls))

    def __init__(self, **fields: Any) -> None:
        kind = type(self)
        for name in self._names:
            if name not in fields and not hasattr(kind, name):
                raise TypeError(f"{kind.__name__}() lacks the argument {name!r}")
            value = fields.pop(name, None) if name in fields else getattr(kind, name)
            # (Who gave a dict may go on changing it.)
            self.__dict__[name] = dict(value) if isinstance(value, dict) else value
        if fields:
            raise TypeError(f"{kind.__name__}() has no argument {', '.join(map(repr, fields))}")
        super().__init__(self._text())

    def _text(self) -> str:
        raise NotImplementedError

    def __reduce__(self) -> Any:
        return _made_again, (type(self), {name: getattr(self, name) for name in self._names})


def _made_again(kind: type[Any], fields: dict[str, Any]) -> Any:
    return kind(**fields)


class InvalidRegularExpressionError(BrokerResponseError):
    """A broker cannot read a `SubscriptionPattern`: it must be in the syntax of RE2 (KIP-848)."""

    errno = 128
    message = "INVALID_REGULAR_EXPRESSION"
    description = "The regular expression is not valid."


class ConfigurationError(KafkaConfigurationError):
    """A setting is unknown, out of range or contradicts another one."""


class AuthenticationError(_WithFields, SaslAuthenticationFailedError):
    """A broker refused who we say we are (SASL), or we refused the broker (TLS).

    Carries `broker` ("host:port") and `mechanism` ("PLAIN", "SCRAM-SHA-256", "SSL", ...); never a
    credential.
    """

    broker: str
    mechanism: str
    reason: str

    def _text(self) -> str:
        return (
            f"authentication with broker {self.broker} by {self.mechanism} failed: {self.reason}."
            " Check the credentials, the mechanism and the certificate settings."
        )


class BootstrapError(_WithFields, KafkaConnectionError, KafkaTimeoutError):
    """None of the bootstrap servers answered as a Kafka broker.

    The constructor raises it after `bootstrap_timeout_ms`, where kafka-python 3 raises
    KafkaTimeoutError and kafka-python 2 raised NoBrokersAvailable: `except` with one of these
    catches it, too. `attempts` maps "host:port" to the reason it failed last.
    """

    attempts: dict[str, str]

    def _text(self) -> str:
        tried = "; ".join(f"{broker}: {why}" for broker, why in sorted(self.attempts.items()))
        return (
            f"no Kafka broker could be reached ({tried})."
            " Check bootstrap_servers, the port and security_protocol."
        )


#: The name in kafka-python 2, which kafka-python 3 does not have any more.
NoBrokersAvailable = BootstrapError


class BrokersUnreachableError(_WithFields, KafkaConnectionError):
    """A bootstrap server answered, and none of the addresses that its brokers advertise does.

    `attempts` maps "host:port" to the reason it failed last, `advertised_by` is the server that
    told the addresses. It passes when a broker can be reached; what was asked for goes on then.
    """

    attempts: dict[str, str]
    advertised_by: str = ""
    untried: int = 0

    def _text(self) -> str:
        named = [f"{broker}: {why}" for broker, why in list(self.attempts.items())[:_NAMED]]
        more = len(self.attempts) - len(named)
        tried = "; ".join(named) + (f"; {more} more" if more else "")
        return (
            f"none of the cluster's brokers can be reached at its advertised address ({tried}"
            f"{f'; {self.untried} not tried' if self.untried else ''}), advertised by"
            f" {self.advertised_by or 'the bootstrap servers'}. Check that the brokers are up, that"
            " each broker's advertised.listeners can be reached from this client, and that its"
            " name resolves here."
        )


class FrameError(_WithFields, KafkaConnectionError):
    """A broker sent bytes that are not a Kafka response; the connection was closed."""

    broker: str
    reason: str

    def _text(self) -> str:
        return (
            f"broker {self.broker} sent a malformed answer ({self.reason}); the connection was"
            " closed. Check that the port speaks Kafka and that security_protocol matches the"
            " listener."
        )


class CorruptBatchError(_WithFields, CorruptRecordError):
    """The bytes at this offset are not a sound record batch (checksum or structure).

    They are fetched again, three times at most. Polls read on once sound bytes have come. Until
    then, and if none come, each poll raises this error.
    """

    topic: str
    partition: int
    offset: int
    reason: str

    def _text(self) -> str:
        return (
            f"corrupt record batch in {self.topic}-{self.partition} at offset {self.offset}:"
            f" {self.reason}. The position stays at {self.offset}: the batch is fetched anew a few"
            " times; if polling on does not help, seek past it."
        )


class DataLossError(KafkaError):
    """Records that a Spark query had to read do not exist any more, and `failOnDataLoss` is true.

    The text names topic, partition and offsets.
    """


class OutsideLogError(_WithFields, OffsetOutOfRangeError):
    """`to_table` was to read at an offset that the log does not have.

    Carries `topic`, `partition`, `offset`, and the log's first offset and end, `log_start` and
    `log_end`. Below `log_start` records were deleted; beyond `log_end` they are not written, or the
    log was cut off (an unclean election).
    """

    topic: str
    partition: int
    offset: int
    log_start: int
    log_end: int

    def _text(self) -> str:
        advice = ". to_table(skip_deleted=True) goes on where the log begins"
        return (
            f"{self.topic}-{self.partition} was to be read from offset {self.offset}, but its log"
            f" begins at {self.log_start} and ends at {self.log_end}"
            f"{advice if self.offset < self.log_start else ''}"
        )


class DeliveryError(_WithFields):
    """Records that a Spark task had to write were not acknowledged.

    Carries `topic`, `partition` (None if none was chosen) and `reason` of the first record that
    failed, and `not_acknowledged`, the number of records that may be missing.
    """

    topic: str
    partition: int | None
    not_acknowledged: int
    reason: str

    def _text(self) -> str:
        where = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        return (
            f"records were not acknowledged ({self.not_acknowledged}), the first of them for"
            f" {where}: {self.reason}. Spark tries the task again (spark.task.maxFailures), which"
            " writes all of its rows again"
        )


class InvalidRowError(_WithFields):
    """A row cannot be written to Kafka. Carries `row`, its position in the task's input from 0 on,
    and `reason`; never what is in the row."""

    row: int
    reason: str

    def _text(self) -> str:
        return f"row {self.row} of the task (counted from 0) cannot be written: {self.reason}"


class SchemaLookUpError(_WithFields):
    """A schema registry did not answer, or refused to: it is not known how to read a record.

    `registry` is its address, without a user name and a password.
    """

    topic: str
    partition: int
    offset: int
    schema_id: int
    registry: str
    reason: str

    def _text(self) -> str:
        return (
            f"the record in {self.topic}-{self.partition} at offset {self.offset} was written with"
            f" the schema {self.schema_id}, which could not be looked up in the registry"
            f" {self.registry}: {self.reason}. Check that it can be reached from here, and the"
            " options schemaRegistry.*; then start the query again"
        )


class BatchTooLargeError(_WithFields):
    """A batch would decompress to more than the limit (a decompression bomb, or a small limit)."""

    topic: str
    partition: int
    offset: int
    limit: int

    def _text(self) -> str:
        return (
            f"the record batch in {self.topic}-{self.partition} at offset {self.offset}"
            f" decompresses to more than {self.limit} bytes. Raise max_decompressed_batch_bytes if"
            " that is expected, or seek past it."
        )


class LogTruncationError(_WithFields, kafka_errors.LogTruncationError):
    """The log was truncated below the position: records that were given out are not in it any more,
    and others may be at their offsets (KIP-320: an unclean leader election).

    Raised if the policy for offsets out of range is "none" (`auto_offset_reset_out_of_range`, by
    default `auto_offset_reset`), by each poll until the application seeks, and by `to_table`. With
    another policy the position is set back by itself.

    `topic` and `partition` say what was read, up to `position`; `epoch` is the leader epoch of the
    last record. `diverging_offset` is the first offset at which the log of the leader, `broker`,
    differs, and `diverging_epoch` the leader epoch of the record before it; both None if the leader
    does not know. `committed` is the committed offset as far as it is known, else None.
    `divergent_offsets` is kafka-python's: {partition: OffsetAndMetadata or None}, for `seek`.
    """

    topic: str
    partition: int
    position: int
    epoch: int
    diverging_offset: int | None
    diverging_epoch: int | None
    broker: str
    committed: int | None = None

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.args = (self._text(),)  # kafka-python's class makes a text of its own

    @property
    def divergent_offsets(self) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """kafka-python's: where the logs differ, as `seek` takes it."""
        offset, there = self.diverging_offset, None
        if offset is not None:
            there = OffsetAndMetadata(offset, "", self.diverging_epoch)
        return {TopicPartition(self.topic, self.partition): there}

    @divergent_offsets.setter
    def divergent_offsets(self, _: object) -> None:
        """kafka-python's class sets it: to the text, because it is given no more."""

    def _text(self) -> str:
        at, committed = self.diverging_offset, self.committed
        where, there = "", "to where it is to be read from"
        if at is not None:
            where = f" from offset {at} (leader epoch {self.diverging_epoch}) on"
            there = f"to {at}, or to where it is to be read from"
        if committed is None:
            stored = "no committed offset of it is known"
        else:
            beyond = 0 if at is None else max(0, committed - at)
            stored = (
                f"the group has committed {committed}{f', {beyond} beyond it' if beyond else ''}"
            )
        return (
            f"the log of {self.topic}-{self.partition} was truncated: it was read up to"
            f" {self.position} (leader epoch {self.epoch}), and {self.broker} has another log"
            f"{where}; {stored}. Records that were given out are lost there, others may have their"
            f" offsets. Seek {there}; with auto_offset_reset_out_of_range set to earliest or latest"
            " poll goes back to the first offset that differs."
        )


class RecordDeserializationError(_WithFields):
    """A deserializer refused a record; the raw bytes are here, the position stays at the record.

    `key`, `value` are the raw bytes (or None), `headers` a list of (str, bytes | None).
    The deserializer's own exception is `__cause__`. The error is an instance of its class, too,
    wherever there can be one: `except json.JSONDecodeError` catches it as with kafka-python.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    def _text(self) -> str:
        return (
            f"the record in {self.topic}-{self.partition} at offset {self.offset} could not be"
            f" deserialized. The position stays at {self.offset}; seek to {self.offset + 1} to skip"
            " it."
        )


class HandlerError(_WithFields):
    """In `process`, a handler failed with a record, and no `on_error` has settled it.

    `topic`, `partition`, `offset` and `attempts` say which record, and how often it was tried.
    `__cause__` is the handler's exception, or that of `on_error` if `on_error` failed, too. Nothing
    from this record on was committed.
    """

    topic: str
    partition: int
    offset: int
    attempts: int
    what: str = ""

    def _text(self) -> str:
        # If `what` is set, an `on_error` would not have helped: do not advise one.
        advice = "" if self.what else ", or give process() on_error='skip' or a dead_letter topic"
        return (
            f"{self.what or 'the handler failed'} with the record at offset {self.offset} of"
            f" {self.topic}-{self.partition}"
            f" ({self.attempts} attempt{'' if self.attempts == 1 else 's'})."
            f" The group goes on from this record; see the cause{advice}."
        )


class ActorRestartedError(_WithFields, RetriableError):
    """The actor that was working on this call crashed and was restarted; the call may be retried.

    `actor` is its name; the original exception is `__cause__`.
    """

    retriable = True

    actor: str

    def _text(self) -> str:
        return f"the {self.actor} actor crashed and was restarted; call again"


class ActorCrashedError(_WithFields):
    """An actor crashed more often than its restart budget allows; this consumer is finished.

    `actor` is its name; the original exception is `__cause__`.
    """

    actor: str
    reason: str

    def _text(self) -> str:
        return (
            f"the {self.actor} actor crashed too often and was given up ({self.reason})."
            " Close this consumer and make a new one; please report the traceback."
        )


class BackgroundThreadError(_WithFields):
    """The consumer's background thread has ended; this consumer is finished.

    `reason` says why, as far as it is known; the exception that has ended it, if there is one, is
    `__cause__`.
    """

    reason: str

    def _text(self) -> str:
        return (
            f"the consumer's background thread has ended ({self.reason}): this consumer can neither"
            " read nor commit nor leave its group any more. Close this consumer and make a new one."
        )


class UserCallbackError(_WithFields):
    """A rebalance listener raised, or a commit callback raised StopIteration; the exception is
    `__cause__`.

    Other exceptions of a commit callback are raised as they are.
    """

    callback: str
    of: str = "rebalance"

    def _text(self) -> str:
        return f"User {self.of} callback throws an error: {self.callback}"


class ConsumerClosedError(_WithFields, IllegalStateError):
    """The consumer was used after `close`."""

    def _text(self) -> str:
        return "this consumer is closed; make a new one"


class ConsumerStoppedError(ConsumerClosedError):
    """An asyncio consumer was used after `stop`, or was stopped while the call waited. (The name is
    aiokafka's.)"""


class ConsumerForkedError(_WithFields, IllegalStateError):
    """The consumer was made in another process and inherited by `fork()`."""

    made_in: int
    used_in: int

    def _text(self) -> str:
        return (
            f"this consumer was made in process {self.made_in} and cannot be used in its child"
            f" {self.used_in}; make the consumer in the process that uses it"
        )


class ConcurrentAccessError(_WithFields, IllegalStateError):
    """Another thread called the consumer while one runs `process`: a handler, perhaps. It may call
    `close`, `wakeup`, and methods that only read."""

    owner: str
    other: str

    def _text(self) -> str:
        return (
            f"thread {self.owner!r} is in process(), and thread {self.other!r} called the consumer."
            " Handlers and other threads may only call close(), wakeup(), and what only looks"
            " (metrics, status, assignment, ...) meanwhile. Let a handler raise, or end process()"
            " first, by wakeup()"
        )


class WakeupError(_WithFields):
    """`wakeup` was called; the blocked call ended early and nothing was lost."""

    def _text(self) -> str:
        return "wakeup() was called"


class WorkerDiedError(_WithFields):
    """In `process` with workers="processes": the worker process died while it handled this record.

    It was killed, for instance because memory ran out, or the handler has called `os._exit` or
    crashed the interpreter. The record was alone in the pool when that happened, so it was not the
    fault of another one.
    """

    def _text(self) -> str:
        return (
            "the worker process died while it handled this record: it was killed (was there enough"
            " memory?), or the handler ended or crashed the interpreter"
        )


#: Another error code of Kafka 4.3 that kafka-python has no class for.
class RebootstrapRequired(BrokerResponseError):
    """The broker asks the client to bootstrap again (KIP-1102)."""

    errno = 129
    message = "REBOOTSTRAP_REQUIRED"
