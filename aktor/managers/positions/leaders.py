"""What the leaders of partitions are asked: one request to each broker, for all its partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import NEVER
from aktor.events.message import Message
from aktor.events.metadata import Cluster, LeaderEpochsUnknown, RefreshMetadata
from aktor.managers.positions.partition import AskedOf, Partition, Partitions, State
from aktor.protocol.error_codes import Answer, Do, doubts_epoch, means
from aktor.protocol.partitions import listed
from aktor.trace import Trace
from aktor.values import Value

__all__ = ["PATIENCE", "Asked", "LeaderRequests", "Leaders", "Send"]

#: How long a leader may take for its first answer, in seconds. The time doubles with each failure,
#: so a leader that reads from remote storage (KIP-1075) has enough time in the end.
PATIENCE: Final = 5.0


class Send(Protocol):
    """Sends a request of the manager's to a broker."""

    def __call__(self, body: Any, *, to: int, deadline: float, context: Any) -> None: ...


class Leaders:
    """Owns what the metadata says about leaders. `say` and `log` are the manager's."""

    def __init__(self, say: Callable[[Message], None], log: Trace) -> None:
        self._say = say
        self._log = log
        self.cluster = Cluster()
        self._before = self.cluster

    def know(self, cluster: Cluster) -> None:
        """The metadata has changed to this."""
        self._before, self.cluster = self.cluster, cluster

    def has_changed(self, tp: TopicPartition) -> bool:
        """Whether the last change has named another leader of this partition, or none."""
        return self._before.leader(*tp) != self.cluster.leader(*tp)

    def epoch(self, tp: TopicPartition) -> int:
        """The epoch of this partition's leader, which is known."""
        info = self.cluster.leader(*tp)
        assert info is not None, "asked about a partition without a leader"
        return info.leader_epoch

    def of(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], list[TopicPartition]]:
        """The partitions of each leader, and those without one. If there are some, the metadata is
        asked for again."""
        by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        leaderless: list[TopicPartition] = []
        for tp in sorted(partitions):
            info = self.cluster.leader(*tp)
            (leaderless if info is None else by_leader[info.leader]).append(tp)
        if leaderless:
            self._say(RefreshMetadata(because=f"no leader is known of {listed(leaderless)}"))
        return by_leader, leaderless

    def refresh_after(self, answer: Answer, troubles: Mapping[TopicPartition, Exception]) -> None:
        """Refresh the metadata after errors of a broker that may not lead any more: otherwise the
        next attempt would go to the same node (KAFKA-18469)."""
        if not troubles:
            return
        reasons = sorted({str(error) for error in troubles.values()})
        self._log.warning("position.retrying", partitions=sorted(troubles), because=reasons)
        if any(Do.REFRESH_METADATA in means(answer, type(error)) for error in troubles.values()):
            self._say(RefreshMetadata(because=f"offsets were not listed: {reasons[0]}"))

    def doubt_epochs(self, troubles: Mapping[TopicPartition, Exception], now: float) -> None:
        """Tell which leaders do not know the epochs that the metadata told of them."""
        epochs = {
            tp: info.leader_epoch
            for tp, error in troubles.items()
            if doubts_epoch(type(error)) and (info := self.cluster.leader(*tp)) is not None
        }
        if epochs:
            self._say(LeaderEpochsUnknown(epochs=epochs, now=now))

    # -- in words

    def name(self, node: int) -> str:
        """The broker, for a text."""
        broker = self.cluster.brokers.get(node)
        return f"broker {node}" if broker is None else str(broker)

    def obstacle(
        self, tp: TopicPartition, asked: AskedOf | None, trouble: Exception | None, now: float
    ) -> str:
        """Why the offset of a partition is not found yet: `asked` has not answered, or the attempt
        before has failed with `trouble`."""
        info = self.cluster.leader(*tp)
        if asked is not None:
            silence = f"{self.name(asked.node)} has not answered for {now - asked.at:.1f} s"
            return f"{silence} (before that: {trouble})" if trouble is not None else silence
        if info is None:
            return self._why_no_leader(tp)
        if trouble is not None:
            return f"{self.name(info.leader)}: {trouble}"
        return f"{self.name(info.leader)} was not asked in time"

    def _why_no_leader(self, tp: TopicPartition) -> str:
        topic = self.cluster.topics.get(tp.topic)
        if not self.cluster.brokers:
            return "no broker has said yet who leads it"
        if tp.topic in self.cluster.forbidden:
            return "this principal may not describe the topic (TopicAuthorizationFailedError)"
        if topic is None:
            return "no broker has described the topic; it may not exist"
        if tp.partition not in topic.partitions:
            return f"the topic has no such partition (it has {len(topic.partitions)})"
        return "the partition has no leader at the moment"


class Asked(Value, kw_only=False):
    """Context of a request on behalf of assigned partitions.

    `wanted` is what the answer must be about: it counts for a partition that still wants the same.
    `epochs` are those of the leaders that were asked.
    """

    wanted: Mapping[TopicPartition, object]
    epochs: Mapping[TopicPartition, int]


class LeaderRequests(ABC):
    """Base of what asks the leaders of all assigned partitions in one state, again and again, until
    each partition has left it."""

    #: The partitions in this state wait for an answer of their leader,
    WAITING: ClassVar[State]
    #: which is read as this kind of answer.
    ANSWER: ClassVar[Answer]

    def __init__(
        self,
        partitions: Partitions,
        leaders: Leaders,
        *,
        send: Send,
        log: Trace,
    ) -> None:
        self._partitions = partitions
        self._leaders = leaders
        #: The partitions that wait. It is there to be looked at in each tick, without a call.
        self.waiting = partitions.in_state(self.WAITING)
        self._send = send
        self._log = log

    # -- what subclasses write

    @abstractmethod
    def _wanted(self, partition: Partition) -> object:
        """What an answer for this partition must be about."""

    @abstractmethod
    def _body(self, epochs: Mapping[TopicPartition, int], seconds: float) -> Any:
        """The request for these partitions, whose leaders have these epochs."""

    # -- what is sent

    def ask(self, now: float, jitter: float) -> float:
        """A request to each leader of partitions that are due; returns when others are."""
        if due := [tp for tp in self.waiting if now >= self._partitions[tp].exchange.due]:
            self._ask(due, now, jitter)
        return min((self._partitions[tp].exchange.due for tp in self.waiting), default=NEVER)

    def _ask(self, due: list[TopicPartition], now: float, jitter: float) -> None:
        by_leader, leaderless = self._leaders.of(due)
        for tp in leaderless:
            self._partitions[tp].failed(None, now, jitter)
        for node, tps in by_leader.items():
            partitions = {tp: self._partitions[tp] for tp in tps}
            patience = max(one.exchange.patience(PATIENCE) for one in partitions.values())
            epochs = {tp: self._leaders.epoch(tp) for tp in tps}
            body = self._body(epochs, patience)
            wanted = {tp: self._wanted(one) for tp, one in partitions.items()}
            self._send(body, to=node, deadline=now + patience, context=Asked(wanted, epochs))
            for one in partitions.values():
                one.sent(node, now)

    def leaders_changed(self) -> None:
        """A partition whose leader is another now need not wait for its backoff."""
        for tp in self.waiting:
            if self._leaders.has_changed(tp):
                self._partitions[tp].exchange.hurry()

    # -- what is answered

    def _still_wanted(self, asked: Asked) -> list[TopicPartition]:
        """The partitions that still want this answer: after a seek, a new assignment or another
        reset they do not."""
        wanted: list[TopicPartition] = []
        dropped: list[TopicPartition] = []
        for tp, then in asked.wanted.items():
            valid = tp in self.waiting and self._wanted(self._partitions[tp]) == then
            (wanted if valid else dropped).append(tp)
        if dropped:
            self._log.info("position.dropped", partitions=dropped, because="no longer wanted")
        return wanted

    def _retry(
        self, troubles: Mapping[TopicPartition, Exception], now: float, jitter: float
    ) -> None:
        """These are asked about again, after the backoff."""
        for tp, error in troubles.items():
            self._partitions[tp].failed(error, now, jitter)
        self._leaders.refresh_after(self.ANSWER, troubles)
        self._leaders.doubt_epochs(troubles, now)
