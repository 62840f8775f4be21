"""The plan of fetching: which partitions each broker can be asked for now.

A tick follows every message, and most messages concern one partition of thousands. So the plan is
kept from tick to tick: only a partition to which something happened is looked at again
(`look_again`), or one whose time has come.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import field
from enum import Enum, auto
from typing import Final, NamedTuple

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import NEVER
from aktor.events.metadata import Cluster
from aktor.events.positions import Assigned
from aktor.events.present import Crowded, Hindrance
from aktor.managers.fetch.cursor import FetchCursor
from aktor.managers.fetch.room import FetchRoom
from aktor.values import Mutable

__all__ = ["FetchPlan"]


class FetchState(Enum):
    """Whether a partition can be fetched now, or why not."""

    #: Not to be fetched: not polled since `assign`; stopped by an error; its corrupt batch was
    #: fetched again and is not read yet; or without a position while it is paused or has no known
    #: leader.
    OUT = auto()
    #: Its position is being looked up.
    LOOKED_UP = auto()
    #: It is not known whether a new leader has what we have read.
    VALIDATED = auto()
    PAUSED = auto()
    #: It failed, and is tried again later.
    WAITING = auto()
    LEADERLESS = auto()
    #: So much of it is buffered that it is not fetched until the application has read some of it.
    CROWDED = auto()
    READY = auto()


#: Before Python 3.12 a member of an Enum class is slow to read; each look compares with these.
_READY: Final = FetchState.READY
_CROWDED: Final = FetchState.CROWDED
_PAUSED: Final = FetchState.PAUSED

#: Partitions in these states are read from their node, or will be soon: the node gets a part of the
#: room.
_READ: Final = (
    FetchState.READY,
    FetchState.VALIDATED,
    FetchState.PAUSED,
    FetchState.WAITING,
    FetchState.CROWDED,
)

#: Partitions in these states will be asked for when a look-up has ended.
_LOOKED_UP: Final = (FetchState.LOOKED_UP, FetchState.VALIDATED)


class _PartitionState(NamedTuple):
    """How a partition was counted when it was looked at last."""

    state: FetchState
    #: The node it is read from, if one is known.
    source: int | None
    #: Bytes of it that the application can read now.
    readable: int


class _OfNode(Mutable, kw_only=False):
    """The partitions of one node in the plan: the ready ones, and counts of others."""

    ready: dict[TopicPartition, FetchCursor] = field(default_factory=dict)
    read: int = 0
    crowded: int = 0
    looked_up: int = 0
    readable: int = 0

    def put_in(self, cursor: FetchCursor) -> None:
        """This partition can be fetched from the node."""
        self.ready[cursor.tp] = cursor

    def take_out(self, tp: TopicPartition) -> None:
        """This partition cannot be fetched from the node any more."""
        del self.ready[tp]

    def to_the_end(self, tp: TopicPartition) -> None:
        """This partition is listed last from now on."""
        self.ready[tp] = self.ready.pop(tp)

    def count(self, known: _PartitionState, sign: int) -> None:
        """Count a partition in this state for the node (`sign` is 1), or take it out (-1)."""
        state = known.state
        self.readable += sign * known.readable
        self.read += sign * (state in _READ)
        self.crowded += sign * (state is FetchState.CROWDED)
        self.looked_up += sign * (state in _LOOKED_UP)


class FetchPlan:
    """Owns the cursors, the paused partitions, and the state of each partition."""

    def __init__(self, room: FetchRoom) -> None:
        self.cursors: dict[TopicPartition, FetchCursor] = {}
        self.paused: set[TopicPartition] = set()
        #: Assigned by hand since the last Poll: nobody has asked for their records yet.
        self.unpolled: set[TopicPartition] = set()
        self.cluster = Cluster()
        #: The partitions that are not fetched because enough of them is buffered.
        self.all_crowded = Crowded()
        #: Partitions without a leader now.
        self.leaderless: dict[TopicPartition, FetchCursor] = {}
        #: Partitions whose positions a new leader may not have, and nobody was asked about yet.
        self._unvalidated: dict[TopicPartition, FetchCursor] = {}
        #: The nodes that will be asked once positions are known.
        self.expected: set[int] = set()
        #: Bytes that the application can read now.
        self.readable = 0
        self._room = room
        self._states: dict[TopicPartition, _PartitionState] = {}
        self._of_nodes: dict[int, _OfNode] = {}
        #: Why partitions are not fetched that the application wants to read.
        self.hindered: dict[TopicPartition, Hindrance] = {}
        #: The nodes from which partitions are read instead of from their leaders.
        self.replicas: dict[TopicPartition, int] = {}
        #: Whether one of these two has changed since they were shown.
        self.has_news = True
        # In the order in which something happened to them.
        self._to_look_at: dict[TopicPartition, None] = {}
        #: When to look at each partition again; and a heap of these times, some of them outdated.
        self._alarm_at: dict[TopicPartition, float] = {}
        self._alarms: list[tuple[float, TopicPartition]] = []

    def shown(self) -> None:
        """What hinders partitions is shown now."""
        self.has_news = False

    def show_again(self) -> None:
        """Something else has changed that is shown with it."""
        self.has_news = True

    # -- what happens to partitions

    def assign(
        self, cursors: dict[TopicPartition, FetchCursor], *, await_poll: bool = False
    ) -> None:
        """Fetch exactly these; `await_poll`: the new ones only from the next `Poll` on."""
        before, self.cursors = self.cursors, cursors
        self.paused &= cursors.keys()
        if await_poll:
            self.unpolled |= cursors.keys() - before.keys()
        self.unpolled &= cursors.keys()
        self.look_at_all()

    def replace(self, cursor: FetchCursor) -> None:
        """Its partition is read from another position now."""
        self.cursors[cursor.tp] = cursor
        self.look_again((cursor.tp,))

    def pause(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Do not fetch these any more."""
        self.paused |= partitions
        self.look_again(sorted(partitions))

    def resume(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Fetch these again."""
        self.paused -= partitions
        self.look_again(sorted(partitions))

    def polled(self) -> None:
        """The application polls: it wants records of all its partitions."""
        if self.unpolled:
            self.look_again(sorted(self.unpolled))
            self.unpolled.clear()

    def follow(self, cluster: Cluster) -> None:
        """The cluster is another now: the cursors follow their leaders."""
        before, self.cluster = self.cluster, cluster
        for cursor in self.cursors.values():
            cursor.follow(before, cluster)
        self.look_at_all()

    def look_again(self, partitions: Iterable[TopicPartition]) -> None:
        """Something happened to these: look at them again."""
        self._to_look_at.update(dict.fromkeys(partitions))

    def look_at_all(self) -> None:
        """Look at all partitions again, also at those that are not assigned any more."""
        self.look_again(self._states)
        self.look_again(self.cursors)

    def to_the_end(self, cursor: FetchCursor) -> None:
        """This partition brought records. In the next Fetch to its node it is listed last
        (fairness)."""
        known = self._states.get(cursor.tp)
        if known is not None and known.state is FetchState.READY:
            assert known.source is not None, "ready, but at no node"
            self._of_nodes[known.source].to_the_end(cursor.tp)

    def refresh(self, now: float) -> list[tuple[int, FetchCursor]]:
        """Look at the partitions to which something happened, and at those whose time has come;
        returns the ready ones, each with its node."""
        while self.wake_at <= now:
            self.look_again((heapq.heappop(self._alarms)[1],))
        if not self._to_look_at:
            return []
        changed, self._to_look_at = self._to_look_at, {}
        crowded_from = self._room.crowded_from(len(self.cursors))
        found = []
        for tp in changed:
            known = self._look(tp, crowded_from, now)
            if known is None:
                continue
            if known.state is FetchState.VALIDATED and not self.cursors[tp].validating:
                self._unvalidated[tp] = self.cursors[tp]
            elif known.state is FetchState.READY:
                assert known.source is not None, "ready, but at no node"
                found.append((known.source, self.cursors[tp]))
        self.expected = {node for node, its in self._of_nodes.items() if its.looked_up}
        return found

    def to_validate(self) -> dict[TopicPartition, Assigned]:
        """The positions that new leaders may not have; the caller asks about them."""
        if not self._unvalidated:
            return {}
        found, self._unvalidated = self._unvalidated, {}
        return {tp: cursor.validate() for tp, cursor in found.items()}

    # -- what can be asked

    @property
    def wake_at(self) -> float:
        """When to look again, though nothing happened."""
        while self._alarms:
            at, tp = self._alarms[0]
            if self._alarm_at.get(tp) == at:
                return at
            heapq.heappop(self._alarms)
        return NEVER

    def ready_nodes(self) -> list[int]:
        """The nodes that can be asked for at least one partition."""
        return [node for node, its in self._of_nodes.items() if its.ready]

    def ready(self, node: int) -> dict[TopicPartition, FetchCursor]:
        """The partitions that this node can be asked for, in this order."""
        return self._of_nodes[node].ready

    def crowded(self, node: int) -> bool:
        """Whether a partition of this node is not fetched because enough of it is buffered."""
        return self._of_nodes[node].crowded > 0

    def readable_from(self, node: int) -> int:
        """Bytes from this node that the application can read now."""
        return self._of_nodes[node].readable

    @property
    def nodes(self) -> int:
        """How many nodes are read from."""
        return sum(its.read > 0 for its in self._of_nodes.values())

    # -- where one stands

    def _look(self, tp: TopicPartition, crowded_from: int, now: float) -> _PartitionState | None:
        before = self._states.pop(tp, None)
        cursor = self.cursors.get(tp)
        after = None if cursor is None else self._state_of(cursor, crowded_from, now)
        if after != before:
            if before is not None:
                self._count(before, -1)
            if after is not None:
                self._count(after, 1)
            if after is not None and after.state is _CROWDED:
                self.all_crowded.add(tp)
            elif before is not None and before.state is _CROWDED:
                self.all_crowded.remove(tp)
        if before is not None and _place(before) != (None if after is None else _place(after)):
            self._take_out(tp, before)
        if cursor is not None and after is not None:
            self._states[tp] = after
            self._put_in(cursor, after)
        self._set_alarm(tp, cursor, after)
        self._note_replica(tp, cursor)
        if cursor is None or after is None:
            if self.hindered.pop(tp, None) is not None:
                self.has_news = True
        else:
            state = after.state
            fetched = state is _READY or state is _CROWDED or state is _PAUSED
            if not fetched or cursor.trouble:
                self._hinder(cursor, after, now, None if before is None else before.source)
            elif tp in self.hindered:
                del self.hindered[tp]
                self.has_news = True
        return after

    def _note_replica(self, tp: TopicPartition, cursor: FetchCursor | None) -> None:
        replica = None if cursor is None else cursor.replica
        if replica is not None:
            if self.replicas.get(tp) != replica.node:
                self.replicas[tp] = replica.node
                self.has_news = True
        elif self.replicas and self.replicas.pop(tp, None) is not None:
            self.has_news = True

    def _hinder(
        self, cursor: FetchCursor, after: _PartitionState, now: float, source: int | None
    ) -> None:
        """Note why this partition is not fetched; since when, if the reason is a new one. `source`:
        the broker from which it was read just before."""
        state = after.state.name.lower()
        if cursor.trouble and not cursor.stopped:
            state = "failing"  # also while the next attempt is under way
        elif cursor.stopped:
            state = "stopped"
        elif cursor.tp in self.unpolled:
            state = "unpolled"
        elif cursor.offset is None and after.source is None:
            state = "leaderless"
        before = self.hindered.get(cursor.tp)
        since = before.since if before is not None and before.state == state else now
        if source is None and before is not None:
            source = before.node
        node = source if after.source is None else after.source
        until = cursor.backoff.retry_at
        hindrance = Hindrance(
            state=state, since=since, node=node, until=until, trouble=cursor.trouble
        )
        if hindrance != before:
            self.hindered[cursor.tp] = hindrance
            self.has_news = True

    def _state_of(self, cursor: FetchCursor, crowded_from: int, now: float) -> _PartitionState:
        tp = cursor.tp
        if tp in self.unpolled:
            return _PartitionState(FetchState.OUT, None, 0)
        source = cursor.source(self.cluster, now)
        paused = tp in self.paused
        if cursor.offset is None:
            wanted = source is not None and not paused
            return _PartitionState(FetchState.LOOKED_UP if wanted else FetchState.OUT, source, 0)
        readable = 0 if paused else cursor.buffered
        if cursor.stopped or (cursor.buffered and not cursor.ahead):
            state = FetchState.OUT
        elif cursor.validating or cursor.must_validate:
            state = FetchState.VALIDATED
        elif paused:
            state = FetchState.PAUSED
        elif now < cursor.backoff.retry_at:
            state = FetchState.WAITING
        elif source is None:
            state = FetchState.LEADERLESS
        elif cursor.buffered >= crowded_from:
            state = FetchState.CROWDED
        else:
            state = FetchState.READY
        return _PartitionState(state, source, readable)

    def _count(self, known: _PartitionState, sign: int) -> None:
        self.readable += sign * known.readable
        if known.source is None:
            return
        node = self._of_nodes.get(known.source)
        if node is None:  # `setdefault` would make one each time
            node = self._of_nodes[known.source] = _OfNode()
        node.count(known, sign)

    def _take_out(self, tp: TopicPartition, before: _PartitionState) -> None:
        if before.state is FetchState.READY:
            assert before.source is not None, "ready, but at no node"
            self._of_nodes[before.source].take_out(tp)
        elif before.state is FetchState.LEADERLESS:
            del self.leaderless[tp]

    def _put_in(self, cursor: FetchCursor, after: _PartitionState) -> None:
        if after.state is FetchState.READY:
            assert after.source is not None, "ready, but at no node"
            self._of_nodes[after.source].put_in(cursor)
        elif after.state is FetchState.LEADERLESS:
            self.leaderless[cursor.tp] = cursor

    def _set_alarm(
        self, tp: TopicPartition, cursor: FetchCursor | None, after: _PartitionState | None
    ) -> None:
        at = NEVER
        if cursor is not None and after is not None:
            if after.state is FetchState.WAITING:
                at = cursor.backoff.retry_at
            if cursor.replica is not None and after.source == cursor.replica.node:
                at = min(at, cursor.replica.until)
        before = self._alarm_at.pop(tp, NEVER)
        if at != NEVER:
            self._alarm_at[tp] = at
            if at != before:
                heapq.heappush(self._alarms, (at, tp))


def _place(known: _PartitionState) -> tuple[FetchState, int | None]:
    return known.state, known.source
