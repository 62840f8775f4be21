"""A partition and its replicas: who leads, who is in sync, up to where all have it.

All replicas are in one process, so that there is one log: the leader's. A replica is a number, how
much of that log it has. Followers fetch at once, unless they are down or held back.
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
    ) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.log = log
        self.leader = replicas[0]
        self.leader_epoch = 0
        self.isr = list(replicas)
        log.begin_epoch(self.leader_epoch)
        self._on_change = on_change
        #: Where followers stand that do not follow: down, or held back by `hold`.
        self._ends: dict[int, int] = {}
        #: Since when followers that are in sync by name are behind.
        self._behind_since: dict[int, float] = {}
        self._down: set[int] = set()

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
        if self.leader != NO_LEADER:
            self.log.advance(min(self.end_of(node) for node in self.isr))
        self._on_change(self)

    # -- followers that stop following

    def hold(self, node: int) -> None:
        """This follower fetches no more; it stays in sync by name until `drop_laggards`."""
        if node != self.leader:
            self._ends.setdefault(node, self.log.end_offset)

    def follow(self, node: int) -> None:
        """It catches up, and is in sync again."""
        if node in self._down:
            return
        self._ends.pop(node, None)
        self._behind_since.pop(node, None)
        if self.leader != NO_LEADER and node in self.replicas and node not in self.isr:
            self.isr.append(node)
        self.settle()

    def drop_laggards(self, before: float) -> bool:
        """Out of the in-sync replicas with all that are behind since then; whether any was."""
        late = [node for node, since in self._behind_since.items() if since <= before]
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

    # -- brokers that come and go

    def node_down(self, node: int, *, unclean: bool) -> None:
        """Its broker is gone: another leads, if one is in sync (or any at all, if `unclean`)."""
        if node not in self.replicas:
            return
        self._down.add(node)
        self._ends.setdefault(node, self.log.end_offset)
        self._behind_since.pop(node, None)
        if self.isr != [node]:
            self.isr = [one for one in self.isr if one != node]
        if self.leader == node:
            self._elect(unclean=unclean)
        self.settle()

    def node_up(self, node: int, *, unclean: bool) -> None:
        """Its broker is back: it leads if nobody does and it may, else it catches up."""
        if node not in self._down:
            return
        self._down.discard(node)
        if self.leader == NO_LEADER:
            self._elect(unclean=unclean)
        if self.leader != NO_LEADER:
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
        self._catch_up_all()
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
            self._catch_up_all()
        elif self.leader != NO_LEADER:
            self.leader = NO_LEADER
            self.leader_epoch += 1

    def _become_leader(self, node: int) -> None:
        end = self.end_of(node)
        if end < self.log.end_offset:
            self.log.truncate(end)
            self._ends = {one: min(has, end) for one, has in self._ends.items()}
        self._ends.pop(node, None)
        self._behind_since.pop(node, None)
        self.leader = node
        self._next_epoch()

    def _next_epoch(self) -> None:
        self.leader_epoch += 1
        self.log.begin_epoch(self.leader_epoch)

    def _catch_up_all(self) -> None:
        """After an unclean election the others fetch from the new leader."""
        for node in self.replicas:
            if node not in self._down and node != self.leader:
                self._ends.pop(node, None)
                if node not in self.isr:
                    self.isr.append(node)
