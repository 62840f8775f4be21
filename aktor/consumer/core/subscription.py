"""The user's subscription: topics, a pattern of topics, or partitions assigned by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from aktor.consumer.core.port import ApplicationPort, Publish
from aktor.events.membership import SubscriptionChanged
from aktor.events.metadata import Cluster, TopicPattern, TrackTopics
from aktor.events.routes import APPLICATION
from aktor.structs import TopicPartition
from aktor.trace import Trace
from aktor.values import Value

__all__ = ["Subscription", "SubscriptionPattern", "TopicIds"]


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
        "topic_ids",
        "topics",
    )

    def __init__(
        self, port: ApplicationPort, publish: Publish, log: Trace, group_id: str | None
    ) -> None:
        #: The topics, or those that match the pattern.
        self.topics: frozenset[str] = frozenset()
        #: In place of topics: a pattern that we evaluate, or one that the brokers evaluate.
        self.pattern: TopicPattern | None = None
        self.regex = ""
        self.assigned_by_user = False
        self.group_id = group_id
        #: The ids of the topics that are read.
        self.topic_ids = TopicIds(port)
        self._port = port
        self._publish = publish
        self._log = log
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

    def wants(self, topic: str) -> bool:
        """Whether records of this topic are wanted, if the group has assigned its partitions.

        A pattern that the brokers evaluate is not judged here: until the group revokes a partition
        we cannot know that it does not match.
        """
        if not self.in_group or self.regex:
            return True
        if self.pattern is None:
            return topic in self.topics
        info = self._port.cluster.topics.get(topic)
        if info is None:  # not described yet
            return self.pattern.pattern.match(topic) is not None
        return self.pattern.matches(topic, info)

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
            topics_added=matching - self.topics,
            topics_removed=self.topics - matching,
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

    # -- what the metadata manager is told

    def track_topics(self, assigned: Iterable[TopicPartition]) -> None:
        """Tell the metadata manager which topics to follow: those that are subscribed to, or those
        of the partitions that are `assigned` by hand."""
        topics = self.topics
        if self.pattern is not None:
            topics = frozenset()
        elif not topics and not self.regex:
            topics = frozenset(partition.topic for partition in assigned)
        self._publish(TrackTopics(owner=APPLICATION, topics=topics, pattern=self.pattern))

    def track_topics_of_question(self, ticket: int, topics: frozenset[str]) -> None:
        """Tell the metadata manager which topics to follow for this question; none: it is over."""
        self._publish(TrackTopics(owner=f"question {ticket}", topics=topics))


class SubscriptionPattern(Value, kw_only=False):
    """For `subscribe(pattern=...)`: a regular expression in the syntax of RE2 (KIP-848).

    The brokers match it with the names of all topics that the group may describe, and again as
    topics come and go: no consumer has to know all topics of a large cluster. It must match the
    whole name. An invalid one is an `InvalidRegularExpressionError`, raised by `poll`.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise TypeError("a SubscriptionPattern is made of a str")
        if not self.pattern:
            raise ValueError("an empty SubscriptionPattern matches no topic")

    def __str__(self) -> str:
        return self.pattern


class TopicIds:
    """Owns the ids of the topics that are read, and the last cluster that was acted on.

    A topic that is deleted and created again gets another id.
    """

    __slots__ = ("_port", "followed", "ids")

    def __init__(self, port: ApplicationPort) -> None:
        self._port = port
        #: Topic -> id, of those that are read, as far as known. Replaced, never changed: messages
        #: have it.
        self.ids: Mapping[str, UUID] = {}
        #: The cluster whose changes were acted on.
        self.followed: Cluster | None = None

    def created_anew(self) -> tuple[Cluster, Mapping[str, UUID]]:
        """The latest cluster, and the topics that have another id in it than we know, each with its
        new id."""
        cluster = self._port.cluster
        anew = {
            topic: info.topic_id
            for topic, was in self.ids.items()
            if (info := cluster.topics.get(topic))
            and info.topic_id is not None
            and info.topic_id != was
        }
        return cluster, anew

    def learn(self, ids: Mapping[str, UUID]) -> None:
        """From now on these are the topics' ids."""
        self.ids = {**self.ids, **ids}

    def note(self, read: Collection[str]) -> None:
        """These topics are read. For each topic keep the first id that the metadata told."""
        topics = self._port.cluster.topics
        ids = {
            topic: self.ids.get(topic) or (topics[topic].topic_id if topic in topics else None)
            for topic in read
        }
        self.ids = {topic: known for topic, known in ids.items() if known is not None}

    def is_known_as(self, topic: str, topic_id: UUID | None) -> bool:
        """Whether this is the topic's id in the latest cluster; also if neither is known."""
        info = self._port.cluster.topics.get(topic)
        return info is not None and info.topic_id == topic_id

    def follow(self, cluster: Cluster) -> None:
        """The changes of this cluster were acted on."""
        self.followed = cluster
