"""The user's subscription: topics, a pattern of topics, or partitions assigned by hand."""

from __future__ import annotations

from aktor.consumer.core.link import Link
from aktor.events.membership import SubscriptionChanged
from aktor.events.metadata import TopicPattern

__all__ = ["Subscription"]


class Subscription:
    """Owns the subscription, and the one that the membership manager was told last."""

    __slots__ = (
        "_log",
        "_port",
        "_publish",
        "_published",
        "assigned_by_user",
        "group_id",
        "pattern",
        "regex",
        "topics",
    )

    def __init__(self, link: Link, group_id: str | None) -> None:
        #: The topics, or those that match the pattern.
        self.topics: frozenset[str] = frozenset()
        #: In place of topics: a pattern that we evaluate, or one that the brokers evaluate.
        self.pattern: TopicPattern | None = None
        self.regex = ""
        self.assigned_by_user = False
        self.group_id = group_id
        self._port = link.port
        self._publish = link.publish
        self._log = link.log
        #: The (topics, regex) that the membership manager was told last; None if that is unsure.
        self._published: tuple[frozenset[str], str] | None = (frozenset(), "")

    @property
    def is_subscribed(self) -> bool:
        """Whether the user has subscribed to topics or to a pattern."""
        return bool(self.topics or self.pattern or self.regex)

    @property
    def in_group(self) -> bool:
        """Whether partitions are assigned by a group."""
        return self.is_subscribed and self.group_id is not None

    @property
    def follows_cluster(self) -> bool:
        """Whether topics or partitions that come or go change what is read."""
        return self.pattern is not None or (self.is_subscribed and self.group_id is None)

    def replace(self, topics: frozenset[str], pattern: TopicPattern | None, regex: str) -> None:
        """The user subscribes to these topics, or to this pattern."""
        self.topics, self.pattern, self.regex = topics, pattern, regex
        if pattern is not None:
            self.topics = self._matching(pattern)

    def assign_by_user(self) -> None:
        """The user assigns partitions by hand."""
        self.assigned_by_user = True

    def unsubscribe(self) -> None:
        """The user wants to read nothing."""
        self.topics, self.pattern, self.regex = frozenset(), None, ""
        self.assigned_by_user = False

    def _matching(self, pattern: TopicPattern) -> frozenset[str]:
        topics = self._port.cluster.topics
        return frozenset(name for name, info in topics.items() if pattern.matches(name, info))

    def match_topics(self) -> bool:
        """Set the topics that the pattern matches in the metadata; True if they have changed.

        `say` tells the membership manager.
        """
        if self.pattern is None:
            return False
        matching = self._matching(self.pattern)
        if matching == self.topics:
            return False
        self._log.info(
            "subscription.matched",
            pattern=self.pattern.pattern.pattern,
            added=matching - self.topics,
            removed=self.topics - matching,
        )
        self.topics = matching
        return True

    # -- what the membership manager is told

    def say(self, member_id: str = "", leaving: frozenset[str] = frozenset()) -> None:
        """Tell the membership manager, which joins the group or leaves it."""
        self._published = None
        topics, regex = self.topics, self.regex
        self._publish(
            SubscriptionChanged(topics=topics, regex=regex, member_id=member_id, leaving=leaving)
        )
        self._published = topics, regex

    def say_changes(self) -> None:
        """Tell the membership manager the subscription, unless it knows it already."""
        if self._published != (self.topics, self.regex):
            self.say()

    def forget_told(self) -> None:
        """The membership manager may not know the subscription: `say_changes` tells it again."""
        self._published = None
