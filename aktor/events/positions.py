"""The positions conversation: where each assigned partition starts.

Every partition has an `epoch` here: a new one with each assignment and reset, and with each seek to
an offset that has to be fetched. A message about an older epoch is dropped and traced.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.message import Message
from aktor.values import Value


class ResetStrategy(enum.Enum):
    """Where to go when there is no position: ListOffsets' own timestamps."""

    EARLIEST = -2
    LATEST = -1


class ResetPolicy(Value):
    """What a setting such as `auto_offset_reset` says: an end of the log; or, with `duration`, the
    first record of the last so many seconds (KIP-1106), and the end if there is none.

    `strategy` None: the application decides.
    """

    strategy: ResetStrategy | None
    duration: float | None = None

    @classmethod
    def named(cls, name: str) -> ResetPolicy:
        """The policy of this name: "earliest", "latest", "none", "by_duration:PT1H".

        Raises ValueError if there is none.
        """
        if name.startswith(BY_DURATION):
            return cls(strategy=ResetStrategy.LATEST, duration=seconds(name[len(BY_DURATION) :]))
        if name == "none":
            return cls(strategy=None)
        try:
            return cls(strategy=ResetStrategy[name.upper()])
        except KeyError:
            raise ValueError(f"no policy {name!r}") from None


BY_DURATION: Final = "by_duration:"

_DURATION: Final = re.compile(
    r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)


def seconds(duration: str) -> float:
    """The seconds of a duration in ISO 8601, as Java's `Duration.parse` reads it: PT1H, P1DT12H.

    Raises ValueError if it is none.
    """
    parts = _DURATION.fullmatch(duration)
    if parts is None:
        raise ValueError(f"{duration!r} is no duration")
    days, hours, minutes, rest = (float(part or 0) for part in parts.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


class Position(Value):
    """The next offset to read, with the leader epoch of the record before it (-1 unknown)."""

    offset: int
    leader_epoch: int = -1


class Assigned(Value):
    """One assigned partition: its epoch, and its position if the application knows it already.

    `ahead` False: its next batch was corrupt. Fetch the batch again, and nothing behind it until
    the application has read it. `left`: where the application stood when the group took the
    partition away, just before it gave it back.
    """

    epoch: int
    position: Position | None = None
    ahead: bool = True
    left: Position | None = None


class AssignmentChanged(Message):
    """application ▶ positions, fetch, commits: exactly these partitions are assigned now.

    A partition with the epoch it had before is kept as it is. `by_group` says that a group gave
    them, so that only its member may commit for them; `all_of_topics`, that they are all partitions
    of the topics that are subscribed to, without a group; `let_go`, that the application has
    unsubscribed or closes the consumer: the group has not taken those away that are not here.
    """

    partitions: Mapping[TopicPartition, Assigned]
    by_group: bool = False
    all_of_topics: bool = False
    let_go: bool = False


class SeekPartitions(Message):
    """application ▶ positions, fetch: read on from these positions (in the new epochs; `position`
    is never None here). To have a position looked up there is `ResetPositions`."""

    partitions: Mapping[TopicPartition, Assigned]


class Reset(Value):
    """One reset: the partition's new epoch, and where to go (None: by `auto_offset_reset`)."""

    epoch: int
    strategy: ResetStrategy | None = None
    from_offset: int | None = None


class ResetPositions(Message):
    """application ▶ positions, fetch: forget the position and look it up (`because`)."""

    partitions: Mapping[TopicPartition, Reset]
    because: str


class PositionsResolved(Message):
    """positions ▶ fetch, application: reading starts here (position is never None here). Whatever
    has led to a position, `Partitions.resolved` of the position manager says it."""

    partitions: Mapping[TopicPartition, Assigned]


class PositionsFailed(Message):
    """positions ▶ application: no position can be found; raise `error` from poll and position.

    `epochs` says for which epochs of the partitions. `error` is a `NoOffsetForPartitionError`
    (policy none), a `TopicAuthorizationFailedError`, ... The partitions stay without a position
    until they are sought, reset or assigned again.
    """

    epochs: Mapping[TopicPartition, int]
    error: Exception


class ValidatePositions(Message):
    """fetch ▶ positions: are these positions still in the logs of their leaders? (KIP-320)

    Asked if a leader was elected after the leader epoch of the position. The partitions are not
    fetched until the answer.
    """

    partitions: Mapping[TopicPartition, Assigned]


class Validated(Value):
    """A position that the leader of `leader_epoch` has, in this epoch of the partition."""

    epoch: int
    leader_epoch: int


class PositionsValidated(Message):
    """positions ▶ fetch: the leaders have these positions; fetch on."""

    partitions: Mapping[TopicPartition, Validated]


class Divergence(Value):
    """The log of a leader (`node`) differs from the one that we have read up to `position`.

    `epoch` is the partition's. `end` is where the logs differ, as far as the leader knows: its last
    leader epoch up to ours, and the offset at which it ends there; None if it knows of none.
    """

    epoch: int
    position: Position
    end: Position | None
    node: int


class PositionsDiverged(Message):
    """fetch ▶ positions: leaders have answered Fetches with a diverging epoch (KIP-595)."""

    partitions: Mapping[TopicPartition, Divergence]


class TruncationFound(Message):
    """positions ▶ commits: logs were truncated; tell the application, with what was committed."""

    partitions: Mapping[TopicPartition, Divergence]


class LogsTruncated(Message):
    """commits ▶ application: logs were truncated; set the positions back, or raise it.

    The policy for offsets out of range decides: with "none" it is raised. These partitions are not
    fetched until they are sought or reset. `committed` has the committed offsets, as far as they
    are known.
    """

    partitions: Mapping[TopicPartition, Divergence]
    committed: Mapping[TopicPartition, OffsetAndMetadata]


class ListOffsets(Message):
    """application ▶ positions: offsets by time (ms; -2 earliest, -1 latest), assigned or not.

    Answered `{partition: OffsetAndTimestamp | None}`; None where no record is that young. Fails
    with `KafkaTimeoutError` naming the partitions, or an authorization error.
    """

    ticket: int
    timestamps: Mapping[TopicPartition, int]
    deadline: float


class FollowEnds(Message):
    """application ▶ positions: somebody looks at the consumer, and these partitions are not
    fetched: ask their leaders where their logs end, for a while. Of others no longer.

    Any thread may say it, at most once a second.
    """

    partitions: frozenset[TopicPartition]
    now: float


class LogEnd(Value):
    """Where a log ended, at `at` or later: the high watermark, or the last stable offset, by the
    isolation level."""

    offset: int
    at: float


class EndsListed(Message):
    """positions ▶ application: where the logs of followed partitions end, as told last."""

    ends: Mapping[TopicPartition, LogEnd]


class ExplainPosition(Message):
    """application ▶ positions: what does this partition's position wait for, at `now`?

    Answered with a text; by the commit manager if the position waits for the committed offset.
    """

    ticket: int
    partition: TopicPartition
    now: float
