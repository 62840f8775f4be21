"""A fetch cursor: where one partition is fetched next and from whom, and how much is buffered."""

from __future__ import annotations

from collections import deque
from uuid import UUID

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import Backoff
from aktor.events.metadata import Cluster, PartitionInfo
from aktor.events.positions import Assigned, Position
from aktor.managers.fetch.session import Wanted, Watermarks
from aktor.trace import Trace
from aktor.values import Value

__all__ = ["FetchCursor"]


class PreferredReplica(Value, kw_only=False):
    """A broker near us, named by the leader: read from it up to the time `until` (KIP-392)."""

    node: int
    until: float

    def serves(self, cluster: Cluster, now: float) -> bool:
        """Whether to read from it and not from the leader: until its time is over, or it is gone
        from the cluster."""
        return now < self.until and self.node in cluster.brokers


class FetchCursor:
    """Owns the reading of one partition in one epoch; a seek or a reset makes a new cursor.

    `offset` is None while the partition waits for a position. `leader` is the newest one known and
    reachable; a preferred replica goes before it for a while (KIP-392).
    """

    __slots__ = (
        "_is_refusal_told",
        "_log",
        "_moved_to",
        "_spans",
        "_validated",
        "_wanted",
        "ahead",
        "backoff",
        "buffered",
        "epoch",
        "last_epoch",
        "leader",
        "offset",
        "replica",
        "stopped",
        "told_watermarks",
        "topic_id",
        "tp",
        "trouble",
        "validating",
    )

    def __init__(
        self,
        tp: TopicPartition,
        epoch: int,
        position: Position | None,
        *,
        ahead: bool = True,
        backoff: Backoff,
        log: Trace,
    ) -> None:
        self.tp = tp
        self.epoch = epoch
        self.offset = None if position is None else position.offset
        #: The leader epoch of the record before the offset; -1 unknown.
        self.last_epoch = -1 if position is None else position.leader_epoch
        #: The latest leader epoch in which a leader was found to have the position (KIP-320).
        self._validated = -1
        #: The position manager is asked whether the leader has the position.
        self.validating = False
        #: The application was told an error: no fetch until the partition is sought or reset.
        self.stopped = False
        self._is_refusal_told = False
        #: The watermarks that the application knows.
        self.told_watermarks: Watermarks | None = None
        #: The partition is not fetched before `backoff.retry_at`.
        self.backoff = backoff
        #: How the last Fetch of it has failed, in words; "": it has not.
        self.trouble = ""
        #: Bytes that the application holds; `_spans` are their (end offset, size).
        self.buffered = 0
        #: More is fetched while the application has not read what it holds.
        self.ahead = ahead
        self._spans: deque[tuple[int, int]] = deque()
        #: By the metadata; None if it does not tell ids, or does not know the topic.
        self.topic_id: UUID | None = None
        self.leader: PartitionInfo | None = None
        #: The leader that a Fetch answer named (KIP-951).
        self._moved_to: PartitionInfo | None = None
        #: The replica from which the partition is read instead of the leader, if there is one.
        self.replica: PreferredReplica | None = None
        #: The result of `wanted`, kept while neither offset nor leader change.
        self._wanted: Wanted | None = None
        self._log = log

    @property
    def name(self) -> str:
        """The partition, as people read it."""
        return f"{self.tp.topic}-{self.tp.partition}"

    # -- the offset

    @property
    def at(self) -> int:
        """The offset; only for a cursor that has one."""
        assert self.offset is not None, "a partition without a position was asked for"
        return self.offset

    @property
    def position(self) -> Position:
        """The offset, with the leader epoch of the record before it."""
        return Position(offset=self.at, leader_epoch=self.last_epoch)

    def go_to(self, position: Position) -> None:
        """Fetch from this position next."""
        self.offset = position.offset
        self.last_epoch = position.leader_epoch
        self._wanted = None

    def move_on(self, offset: int, last_epoch: int, leader_epoch: int) -> None:
        """The leader of `leader_epoch` has sent the records up to this offset; `last_epoch` is the
        leader epoch of the last one (-1 unknown), which was perhaps written long before."""
        self.offset = offset
        self.last_epoch = last_epoch
        self._validated = max(self._validated, leader_epoch)
        self._wanted = None

    # -- whether the leader has what we have read

    @property
    def must_validate(self) -> bool:
        """Whether a leader was elected after the one that wrote the record before the position: it
        may have another record there (KIP-320). Without an epoch there is nothing to compare."""
        return (
            self.leader is not None
            and self.offset is not None
            and self.leader.leader_epoch > self._validated
            and self.leader.leader_epoch > self.last_epoch >= 0
        )

    def validate(self) -> Assigned:
        """The position manager is asked; no answer of a Fetch counts until it has answered."""
        self.validating = True
        return Assigned(epoch=self.epoch, position=self.position)

    def validated(self, leader_epoch: int) -> None:
        """The leader of this epoch has the position, and so all that was read before it."""
        self._validated = max(self._validated, leader_epoch)
        self.validating = False

    def wanted(self, max_bytes: int) -> Wanted:
        """What the next Fetch asks for: epoch, offset, leader epoch and bytes."""
        if self._wanted is None:
            leader_epoch = -1 if self.leader is None else self.leader.leader_epoch
            # By position: once for each partition that brought records.
            self._wanted = Wanted(
                self.epoch, self.at, leader_epoch, max_bytes, self.last_epoch, self.topic_id
            )
        return self._wanted

    def still_wants(self, wanted: Wanted | None) -> bool:
        """Whether epoch, offset and topic are those of this Fetch (None: it was not asked for)."""
        return (
            wanted is not None
            and self.epoch == wanted.epoch
            and self.offset == wanted.offset
            and (self.topic_id is wanted.topic_id or self.topic_id == wanted.topic_id)
            and not self.stopped
            and not self.validating
        )

    # -- when to fetch

    def try_again(self) -> None:
        """Forget the failures: the partition may be fetched at once."""
        self.trouble = ""
        self.backoff.reset()

    def retry_later(self, now: float, jitter: float, because: str = "") -> None:
        """Fetching it failed: ask for it again after the backoff."""
        self.trouble = because
        self.backoff.failed(now, jitter)

    def rest(self, until: float) -> None:
        """Do not ask for it before this time, however short the backoff is."""
        self.backoff.pause(max(self.backoff.retry_at, until))

    def refused(self, until: float, because: str = "") -> bool:
        """The broker refuses the partition, perhaps until an operator mends the cause: try again at
        `until`.

        Returns True if the application must be told: this is the first refusal since the last
        answer without one.
        """
        self.trouble = because
        self.backoff.pause(until)
        is_news = not self._is_refusal_told
        self._is_refusal_told = True
        return is_news

    def stop(self, because: str = "") -> None:
        """Do not fetch the partition until it is sought or reset."""
        self.trouble = because
        self.stopped = True

    # -- from which broker

    def find_leader(self, cluster: Cluster) -> None:
        """Take the topic's id, and the newest leader that is known and can be reached."""
        self.topic_id = cluster.topic_id(self.tp.topic)
        known = cluster.leader(*self.tp)
        if known is not None and known.leader not in cluster.brokers:
            known = None
        named = self._moved_to
        if (
            named is not None
            and named.leader in cluster.brokers
            and (known is None or named.leader_epoch > known.leader_epoch)
        ):
            known = named
        self.leader = known
        self._wanted = None

    def follow(self, before: Cluster, cluster: Cluster) -> None:
        """The metadata changed: if there is a new leader, fetch from it at once. A topic that was
        created anew has other leaders, and its leader epochs begin again."""
        if self._told(cluster) != self._told(before):
            self._moved_to = None
            self.try_again()
        self.find_leader(cluster)

    def _told(self, cluster: Cluster) -> tuple[PartitionInfo | None, UUID | None]:
        return cluster.leader(*self.tp), cluster.topic_id(self.tp.topic)

    def move_to(self, leader: PartitionInfo, cluster: Cluster, *, because: str) -> None:
        """A Fetch answer named this leader, which the metadata does not know yet (KIP-951)."""
        self._moved_to = leader
        self.find_leader(cluster)
        self.try_again()
        self._log.info(
            "leader.learned",
            partition=self.tp,
            leader=leader.leader,
            leader_epoch=leader.leader_epoch,
            because=because,
        )

    def source(self, cluster: Cluster, now: float) -> int | None:
        """The node to read from: the preferred replica until its time is over, else the leader."""
        if self.replica is not None:
            if self.replica.serves(cluster, now):
                return self.replica.node
            self.leave_replica(because="its time is over, or it is gone")
        return None if self.leader is None else self.leader.leader

    def prefers(self, node: int) -> bool:
        """Whether this node is the preferred replica."""
        return self.replica is not None and self.replica.node == node

    def prefer_replica(self, node: int, until: float) -> None:
        """Read from this broker, which is near us, instead of the leader (KIP-392)."""
        self.replica = PreferredReplica(node, until)
        self._log.info("replica.preferred", partition=self.tp, node=node)

    def leave_replica(self, *, because: str) -> None:
        """Read from the leader again."""
        assert self.replica is not None, "there is no preferred replica to leave"
        self._log.info("replica.left", partition=self.tp, node=self.replica.node, because=because)
        self.replica = None

    # -- what the application has

    def tell_watermarks(self, watermarks: Watermarks) -> bool:
        """The broker has sent these watermarks and no error. Returns True if the application does
        not know them yet and must be told."""
        self._is_refusal_told = False
        self.trouble = ""
        is_news = watermarks != self.told_watermarks
        self.told_watermarks = watermarks
        return is_news

    def buffer(self, end: int, size: int, watermarks: Watermarks) -> None:
        """The application is given `size` bytes that lead up to the offset `end`, and told the
        watermarks that came with them."""
        self._is_refusal_told = False
        self.trouble = ""
        self.told_watermarks = watermarks
        self._spans.append((end, size))
        self.buffered += size

    def consumed_up_to(self, offset: int) -> None:
        """Forget the spans that the application has read to their end."""
        while self._spans and self._spans[0][0] <= offset:
            self.buffered -= self._spans.popleft()[1]
            self.ahead = True  # the batch that was corrupt could be read

    def consumed_all(self) -> None:
        """The application's buffer is empty."""
        self._spans.clear()
        self.buffered = 0
