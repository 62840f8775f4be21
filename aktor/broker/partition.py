"""A partition and its replicas: its leader, the in-sync replicas, the high watermark.

All replicas are in one process, so that there is one log: the leader's. A replica is a number: the
offset up to which it has this log. Followers fetch at once, unless they are down or held back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from aktor.broker.log.log import Appended, PartitionLog

__all__ = ["NO_LEADER", "Partition"]

NO_LEADER: Final = -1


class Partition:
    """One partition of a topic.

    `replicas` are node ids, the preferred leader first; `leader` is one of them, or NO_LEADER.
    `leader` and `leader_epoch` are those it is restored with. `min_insync` replicas must be in
    sync, as far as there are that many: with fewer, acks=all is refused, and the high watermark
    stands still (KIP-966). `unclean`: a replica that lacks records may lead as the last resort.
    `on_change` is called when the log, its high watermark or the leader changed: someone may wait
    for it.
    """

    def __init__(
        self,
        *,
        topic: str,
        index: int,
        replicas: tuple[int, ...],
        log: PartitionLog,
        on_change: Callable[[Partition], None],
        min_insync: int = 1,
        unclean: bool = False,
        leader: int | None = None,
        leader_epoch: int = 0,
    ) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.log = log
        self.leader = replicas[0] if leader is None else leader
        self.leader_epoch = leader_epoch
        self.isr = list(replicas)
        self.min_insync = min_insync
        self.unclean = unclean
        #: Where the log ended when the leader was elected.
        self.epoch_start = log.end_offset
        log.begin_epoch(self.leader_epoch)
        self._on_change = on_change
        #: Where followers stand that do not follow: down, held back, or without a leader.
        self._ends: dict[int, int] = {}
        self._held: set[int] = set()
        #: By follower that is still in the ISR, but behind: since when.
        self._behind_since: dict[int, float] = {}
        self._down: set[int] = set()
        #: The leader's broker does not answer, and nobody leads in its place yet.
        self._is_leader_silent = False

    def __repr__(self) -> str:
        return (
            f"<Partition {self.topic}-{self.index} leader {self.leader} epoch {self.leader_epoch}"
            f" isr {self.isr} end {self.log.end_offset}>"
        )

    # -- what replicas have

    def end_of(self, node: int) -> int:
        """Up to where this replica has the log."""
        return self._ends.get(node, self.log.end_offset)

    def visible_to(self, node: int) -> int:
        """The high watermark as this replica knows it."""
        return min(self.log.high_watermark, self.end_of(node))

    @property
    def enough_in_sync(self) -> bool:
        """Whether as many replicas are in sync as must be (Partition.effectiveMinIsr)."""
        return len(self.isr) >= min(self.min_insync, len(self.replicas))

    @property
    def offline(self) -> list[int]:
        """Replicas whose broker is down, in replica order."""
        return [node for node in self.replicas if node in self._down]

    def append(self, records: bytes | memoryview, *, now: float, api_version: int) -> Appended:
        """Append as the leader; the followers that follow have it at once. Raises Refused."""
        appended = self.log.append(
            records, leader_epoch=self.leader_epoch, now=now, api_version=api_version
        )
        if not appended.duplicate:
            self._appended(now)
        return appended

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        now: float,
    ) -> None:
        """End a producer's transaction in this log."""
        self.log.append_marker(
            producer_id,
            producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            leader_epoch=self.leader_epoch,
            now=now,
        )
        self._appended(now)

    def _appended(self, now: float) -> None:
        for node in self._ends:
            if node in self.isr:
                self._behind_since.setdefault(node, now)
        self.settle()

    def settle(self) -> None:
        """Work out the high watermark anew, and say that something changed."""
        if self.leader != NO_LEADER and self.enough_in_sync:
            self.log.advance(min(self.end_of(node) for node in self.isr))
        self._on_change(self)

    # -- followers that stop following

    def silence(self, node: int) -> None:
        """Its broker does not answer: a follower fetches no more, and from a leader nobody can
        fetch, until `follow`, or until another leads."""
        if node == self.leader:
            self._is_leader_silent = True
        elif node in self.isr:
            self.hold(node)

    def hold(self, node: int) -> None:
        """This follower fetches no more, until `follow`, or until it leads or its broker starts
        anew. It stays in sync by name until `drop_laggards`."""
        if node != self.leader and node in self.replicas:
            self._held.add(node)
            self._ends.setdefault(node, self.log.end_offset)

    def follow(self, node: int) -> None:
        """It fetches again: it catches up as soon as there is a leader that answers, and is in sync
        again. The leader itself answers again."""
        self._held.discard(node)
        if node == self.leader:
            self._is_leader_silent = False
            self._catch_all_up()
        else:
            self._catch_up(node)
        self.settle()

    def _catch_all_up(self) -> None:
        for replica in self.replicas:
            self._catch_up(replica)

    def _catch_up(self, node: int) -> None:
        if self.leader == NO_LEADER or self._is_leader_silent:
            return
        if node in self._down or node in self._held:
            return
        self._ends.pop(node, None)
        self._behind_since.pop(node, None)
        if node in self.replicas and node not in self.isr:
            self.isr.append(node)

    def drop_laggards(self, now: float, *, lag_max: float) -> bool:
        """Out of the in-sync replicas with all that are behind for so long; whether any was."""
        late = [node for node, since in self._behind_since.items() if since + lag_max <= now]
        for node in late:
            del self._behind_since[node]
            self.isr.remove(node)
        if late:
            self.settle()
        return bool(late)

    @property
    def behind_since(self) -> float | None:
        """Since when the first of the in-sync followers is behind."""
        return min(self._behind_since.values(), default=None)

    # -- replicas that are moved

    def reassign(self, replicas: tuple[int, ...]) -> None:
        """Other replicas from now on; the new ones are up, and have all of the log at once."""
        before, self.replicas = self.replicas, replicas
        self.isr = [node for node in replicas if node in self.isr or node not in before]
        for node in before:
            if node not in replicas:
                self._held.discard(node)
                self._ends.pop(node, None)
                self._behind_since.pop(node, None)
                self._down.discard(node)
        if self.leader not in replicas:
            self._elect(unclean=False)
        self.settle()

    # -- brokers that come and go

    def node_down(self, node: int, *, unclean: bool) -> None:
        """Its broker is gone: another leads, if one is in sync (or any at all, if `unclean`)."""
        if node not in self.replicas:
            return
        self._down.add(node)
        self._held.discard(node)
        self._ends.setdefault(node, self.log.end_offset)
        self._behind_since.pop(node, None)
        if self.isr != [node]:
            self.isr = [replica for replica in self.isr if replica != node]
        if self.leader == node:
            self._elect(unclean=unclean)
        self.settle()

    def node_up(self, node: int, *, unclean: bool) -> None:
        """Its broker is back: it leads if there is no leader and it may, else it catches up."""
        if node not in self._down:
            return
        self._down.discard(node)
        if self.leader == NO_LEADER:
            self._elect(unclean=unclean)
        self.follow(node)

    def lead(self, node: int) -> bool:
        """Let this replica lead, if it is up and in sync; whether it does now."""
        if node in self._down or node not in self.isr:
            return False
        if node != self.leader:
            self._become_leader(node)
            self.settle()
        return True

    def lead_uncleanly(self, node: int) -> bool:
        """Let it lead though it may lack records: what it does not have is lost."""
        if node in self._down or node not in self.replicas:
            return False
        self.isr = [node]
        self._become_leader(node)
        self.settle()
        return True

    def new_epoch(self) -> None:
        """The same leader, elected once more."""
        self._next_epoch()
        self.settle()

    def _elect(self, *, unclean: bool) -> None:
        up: Collection[int] = [node for node in self.replicas if node not in self._down]
        in_sync = [node for node in up if node in self.isr]
        if in_sync:
            self._become_leader(in_sync[0])
        elif unclean and up:
            best = max(up, key=self.end_of)
            self.isr = [best]
            self._become_leader(best)
        elif self.leader != NO_LEADER:
            self.leader = NO_LEADER
            self._is_leader_silent = False
            self.leader_epoch += 1

    def _become_leader(self, node: int) -> None:
        end = self.end_of(node)
        if end < self.log.end_offset:
            self.log.truncate(end)
            self._ends = {replica: min(has, end) for replica, has in self._ends.items()}
        self._held.discard(node)
        self._ends.pop(node, None)
        self._behind_since = {
            replica: since
            for replica, since in self._behind_since.items()
            if replica in self.isr and self.end_of(replica) < end
        }
        self.leader = node
        self._is_leader_silent = False
        self._next_epoch()
        # Also those that came back before, and had no leader to fetch from.
        self._catch_all_up()

    def _next_epoch(self) -> None:
        self.leader_epoch += 1
        self.epoch_start = self.log.end_offset
        self.log.begin_epoch(self.leader_epoch)
