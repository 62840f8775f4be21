"""What the members of a consumer group subscribe to, as topics that are there."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from aktor.broker.groups.consumer.member import Member
from aktor.broker.groups.consumer.members import Members
from aktor.broker.groups.consumer.topic_regexes import TopicRegexes
from aktor.broker.groups.topics_view import TopicsView

__all__ = ["Subscriptions"]


class Subscriptions:
    """Looks at the members, at what their patterns matched, and at the topics. Owns nothing."""

    def __init__(self, members: Members, regexes: TopicRegexes, topics: TopicsView) -> None:
        self._members = members
        self._regexes = regexes
        self._topics = topics

    def names(self) -> frozenset[str]:
        """All topics that a member subscribes to, existing or not."""
        return frozenset[str]().union(*map(self._names_of, self._members.values()))

    def _names_of(self, member: Member) -> frozenset[str]:
        if not member.regex:
            return member.topics
        return member.topics | self._regexes.topics(member.regex)

    def _existing(self, names: frozenset[str]) -> list[tuple[str, UUID]]:
        """Those topics that are there, by name."""
        found = [(name, self._topics.topic_id(name)) for name in sorted(names)]
        return [(name, topic_id) for name, topic_id in found if topic_id is not None]

    def topic_ids(self, member: Member) -> tuple[UUID, ...]:
        """The existing topics of one member, in the order of their names."""
        return tuple(topic_id for _, topic_id in self._existing(self._names_of(member)))

    def partitions(self) -> dict[UUID, int]:
        """How many partitions each topic has that a member subscribes to, by name."""
        return {t: self._topics.partitions(name) for name, t in self._existing(self.names())}

    def metadata(self) -> list[list[Any]]:
        """What makes a rebalance when it changes: [name, id, partitions] of each of them."""
        return [
            [name, topic_id.hex, self._topics.partitions(name)]
            for name, topic_id in self._existing(self.names())
        ]

    @property
    def homogeneous(self) -> bool:
        """Whether all subscribe alike: by the same names, or by one pattern and no names."""
        first, *others = self._members.values()
        if first.regex and first.topics:
            return False
        return all((m.regex, m.topics) == (first.regex, first.topics) for m in others)
