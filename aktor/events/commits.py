"""The commit conversation: where the group will go on reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from uuid import UUID

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.message import Message


class CommitOffsets(Message):
    """application ▶ commits: store these offsets before `deadline`.

    `retry` True (commit): retriable errors are retried until the deadline. False (commit_async):
    one attempt once the coordinator is known. Commits keep their order. `topic_ids` are the ids of
    the topics that the application reads, as far as they are known: an offset in a topic that was
    deleted means nothing in a later one with its name.
    """

    ticket: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    deadline: float
    retry: bool
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)


class CommitBeforeRevocation(Message):
    """membership ▶ commits: commit the positions of partitions that are being revoked. The
    revocation waits for it until `deadline`. `topic_ids`: as in `CommitOffsets`.
    """

    rebalance: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    deadline: float
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)


class RevocationCommitted(Message):
    """commits ▶ membership: the commit is done, or has failed and was traced; go on either way.

    `expelled`: the coordinator refused the commit because we are no member of this generation any
    more, so that the partitions are lost, not revoked.
    """

    rebalance: int
    expelled: bool = False


class OffsetsCommitted(Message):
    """commits ▶ nobody yet: the group has stored these offsets, whoever asked for the commit
    (Java: `ConsumerInterceptor.onCommit`).

    Said once for each OffsetCommit that stored something, before the outcomes of its commits.
    """

    offsets: Mapping[TopicPartition, OffsetAndMetadata]


class FetchCommittedOffsets(Message):
    """application ▶ commits: Answered `{partition: OffsetAndMetadata | None}`."""

    ticket: int
    partitions: frozenset[TopicPartition]
    deadline: float


class FindStartingOffsets(Message):
    """positions ▶ commits: look up these committed offsets, and repeat it until they are known.

    `stable` False: nothing begins at them, so they need not wait for the end of a transaction that
    is about to replace them (KIP-447).
    """

    partitions: frozenset[TopicPartition]
    stable: bool = True


class StartingOffsetsFound(Message):
    """commits ▶ positions: the committed offsets; None where nothing was ever committed."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]


class StartingOffsetsFailed(Message):
    """commits ▶ positions: the committed offsets cannot be looked up, and a retry does not help
    (authorization, fenced group).
    """

    partitions: frozenset[TopicPartition]
    error: Exception


class AutoCommitFinished(Message):
    """commits ▶ application: an automatic commit is over, for `default_offset_commit_callback`;
    error None is success.
    """

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    error: Exception | None


class ExplainStartingOffset(Message):
    """positions ▶ commits: say why this committed offset is not found yet.

    The application asked; it is answered with a text.
    """

    ticket: int
    partition: TopicPartition
    now: float
