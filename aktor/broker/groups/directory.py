"""All groups by their ids, each of one kind, and when the next of them has something to do."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from aktor.broker.call import Journal
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.group import ClassicGroup
from aktor.broker.groups.consumer.group import ConsumerGroup
from aktor.broker.groups.migration import check_upgradable, to_classic_members, to_consumer_members
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.groups.topics_view import TopicsView

__all__ = ["Directory", "Group", "is_empty", "is_subscribed"]

Group: TypeAlias = ClassicGroup | ConsumerGroup

#: Under which the two kinds of groups keep themselves, each with its id as the key.
_CLASSIC: Final = "classic-group"
_CONSUMER: Final = "consumer-group"


def is_empty(group: Group) -> bool:
    """Whether it has no members; it may have offsets."""
    return group.state == "Empty"


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether members want the topic; of consumers that do not say it yet, this is assumed."""
    topics = group.subscribed_topics()
    if topics is None:
        return group.protocol_type == "consumer"
    return topic in topics


class Directory:
    """Owns the groups. Who lets a group do something calls `touched` afterwards."""

    def __init__(
        self,
        *,
        rng: random.Random,
        settings: GroupSettings,
        journal: Journal,
        topics: TopicsView,
    ) -> None:
        self._rng = rng
        self._settings = settings
        self._journal = journal
        self._topics = topics
        #: What all consumer groups have in common.
        self._consumer_parts: dict[str, Any] = {
            "rng": rng,
            "settings": settings,
            "topics": topics,
            "journal": journal,
            "downgrade": self._downgrade,
        }
        self._groups: dict[str, Group] = {}
        #: When each group shall be asked next, and the same as a heap; what differs is outdated.
        #: It may be too early, as most alarms are put off by a sign of life; never too late.
        self._due: dict[str, float] = {}
        self._queue: list[tuple[float, str]] = []
        #: Groups whose coordinator is paused: nothing becomes due there.
        self._still: set[str] = set()

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        """All groups in the order of their ids."""
        return iter([self._groups[group_id] for group_id in sorted(self._groups)])

    # Look-up.

    def get(self, group_id: str) -> Group | None:
        """The group of whatever kind."""
        return self._groups.get(group_id)

    def __getitem__(self, group_id: str) -> Group:
        """The group of whatever kind. Raises Refused(GROUP_ID_NOT_FOUND)."""
        group = self._groups.get(group_id)
        if group is None:
            raise Refused(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def classic(self, group_id: str) -> ClassicGroup:
        """The classic group. Raises Refused(GROUP_ID_NOT_FOUND) for other kinds too."""
        group = self[group_id]
        if isinstance(group, ClassicGroup):
            return group
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")

    def consumer(self, group_id: str) -> ConsumerGroup:
        """The consumer group. Raises Refused(GROUP_ID_NOT_FOUND) for other kinds too."""
        group = self[group_id]
        if isinstance(group, ConsumerGroup):
            return group
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    # Groups that come and go.

    def new_classic(self, group_id: str, now: float) -> ClassicGroup:
        """Put in a classic group without members."""
        group = ClassicGroup(
            group_id, rng=self._rng, settings=self._settings, journal=self._journal, now=now
        )
        self._groups[group_id] = group
        return group

    def new_consumer(self, group_id: str, now: float) -> ConsumerGroup:
        """Put in a consumer group without members."""
        group = ConsumerGroup(group_id, now=now, **self._consumer_parts)
        self._groups[group_id] = group
        return group

    def upgrade(self, before: ClassicGroup, now: float) -> ConsumerGroup:
        """Put a consumer group with its members in the place of a classic one.

        Nothing is kept yet, and the classic group can be put back, should the new one come to
        nothing. Raises Refused(GROUP_ID_NOT_FOUND) if it cannot be a consumer group.
        """
        check_upgradable(before, self._settings)
        # As in Kafka even if its members turn out not to understand each other.
        before.call_again()
        members = to_consumer_members(before, self._topics)
        group = self.new_consumer(before.group_id, now)
        group.take_over(members, epoch=before.generation, now=now)
        return group

    def _downgrade(
        self, before: ConsumerGroup, generation: int, rebalance: bool, now: float
    ) -> None:
        """Put a classic group in the place of a consumer group, whose members are classic ones."""
        group = self.new_classic(before.group_id, now)
        group.take_over(
            to_classic_members(before.members.values(), before.targets, self._topics),
            generation=generation,
            rebalance=rebalance,
            now=now,
        )
        self._journal.put(_CONSUMER, (before.group_id,), None)

    def put_back(self, group_id: str, group: Group | None) -> None:
        """Know what was known before a new group was put in, which came to nothing."""
        if group is None:
            del self._groups[group_id]
        else:
            self._groups[group_id] = group

    def remove(self, group: Group, now: float) -> None:
        """Forget the group, and what was kept of it; not its offsets."""
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]
        if isinstance(group, ClassicGroup):
            group.remove(now)
        else:
            self._journal.put(_CONSUMER, (group.group_id,), None)

    def restore(self, values: Mapping[tuple[str, tuple[str | int, ...]], Any], now: float) -> None:
        """Take in the groups that were kept; all sessions begin anew."""
        for (kind, key), value in values.items():
            if kind == _CONSUMER:
                self._restore_consumer(str(key[0]), value, now)
            elif kind == _CLASSIC and (_CONSUMER, key) in values:
                # The process died between the two: what was there first was to be forgotten.
                self._journal.put(_CLASSIC, key, None)
            elif kind == _CLASSIC:
                self._restore_classic(str(key[0]), value, now)

    def _restore_classic(self, group_id: str, value: Any, now: float) -> None:
        self._groups[group_id] = ClassicGroup.restore(
            value,
            group_id=group_id,
            rng=self._rng,
            settings=self._settings,
            journal=self._journal,
            now=now,
        )
        self.touched(group_id)

    def _restore_consumer(self, group_id: str, value: Any, now: float) -> None:
        self._groups[group_id] = ConsumerGroup.restore(
            value, group_id, now=now, **self._consumer_parts
        )
        self.touched(group_id)

    # Time.

    def stand_still(self, group_id: str) -> None:
        """Nothing is due in this group until `go_on`."""
        self._still.add(group_id)

    def go_on(self, group_id: str) -> None:
        """Its time passes again."""
        self._still.discard(group_id)
        self.touched(group_id)

    def touched(self, group_id: str) -> None:
        """The group may have to do something earlier than it had."""
        if group_id in self._still:
            return
        group = self._groups.get(group_id)
        at = math.inf if group is None else group.wake_at()
        if at < self._due.get(group_id, math.inf):
            self._due[group_id] = at
            heapq.heappush(self._queue, (at, group_id))

    def wake_at(self) -> float:
        """When `tick` may have something to do, math.inf if never."""
        return self._queue[0][0] if self._queue else math.inf

    def tick(self, now: float) -> None:
        """Let the groups do what is due."""
        due = []
        while self._queue and self._queue[0][0] <= now:
            at, group_id = heapq.heappop(self._queue)
            if self._due.get(group_id) == at:
                del self._due[group_id]
                if group_id not in self._still:
                    due.append(group_id)
        for group_id in due:
            group = self._groups.get(group_id)
            if group is not None and group.wake_at() <= now:
                group.tick(now)
            self.touched(group_id)
