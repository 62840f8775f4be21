"""The names of topics that a KIP-848 coordinator names by their ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from aktor.events.message import Message
from aktor.events.metadata import Cluster, NameTopics, RefreshMetadata, TrackTopics
from aktor.events.routes import MEMBERSHIP
from aktor.trace import Trace

__all__ = ["TopicNames"]


class TopicNames:
    """Owns which topic each id stands for, and which ids of the target have no name yet.

    `say` sends a message: the metadata manager is asked for names, and is told which
    topics to keep fresh.
    """

    def __init__(self, *, say: Callable[[Message], None], log: Trace) -> None:
        self._say = say
        self._log = log
        self._names: dict[Any, str] = {}
        #: Ids that no snapshot has: the metadata manager was asked to look them up.
        self._unnamed: frozenset[Any] = frozenset()
        #: Ids whose name belongs to another topic now: the metadata or the coordinator is behind.
        self._doubtful: frozenset[Any] = frozenset()
        self._tracked: frozenset[str] = frozenset()
        self._cluster = Cluster()

    def cluster_changed(self, cluster: Cluster) -> None:
        """The metadata that is known from now on."""
        self._cluster = cluster

    def __getitem__(self, topic_id: Any) -> str:
        return self._names[topic_id]

    @property
    def are_awaited(self) -> bool:
        """Whether the metadata manager has yet to say what some of the target's topics are."""
        return bool(self._unnamed or self._doubtful)

    def resolve(self, target: Collection[Any]) -> dict[Any, str]:
        """The names of the target's topics, as far as they are known; asks for the others."""
        known = {info.topic_id: name for name, info in self._cluster.topics.items()}
        for topic_id in target:
            name = known.get(topic_id)
            if name is not None:
                self._names[topic_id] = name
        unnamed = frozenset(target) - self._names.keys()
        # Either the coordinator or the metadata does not know yet that a topic was created again.
        doubtful = frozenset(self.recreated(target))
        if doubtful - self._doubtful:
            self._say(RefreshMetadata(because="a topic has another id than its partitions have"))
        self._doubtful = doubtful
        self._ask(unnamed)
        without = unnamed | doubtful
        return {topic_id: self._names[topic_id] for topic_id in target if topic_id not in without}

    def _ask(self, unnamed: frozenset[Any]) -> None:
        if unnamed == self._unnamed:
            return
        self._unnamed = unnamed
        if unnamed:
            self._log.info("rebalance.unresolved", topic_count=len(unnamed))
        self._say(NameTopics(topic_ids=unnamed))

    def recreated(self, topic_ids: Iterable[Any]) -> list[Any]:
        """Topic ids whose name belongs to another topic now: the topic was deleted and created
        again."""
        return [topic_id for topic_id in topic_ids if self._is_recreated(topic_id)]

    def _is_recreated(self, topic_id: Any) -> bool:
        info = self._cluster.topics.get(self._names.get(topic_id, ""))
        return info is not None and info.topic_id not in (None, topic_id)

    def learn(self, names: Mapping[Any, str]) -> None:
        """The metadata manager has found these names."""
        self._names.update(names)

    def doubt_anew(self) -> None:
        """The coordinator has answered: if a name is still in doubt, ask for metadata again."""
        self._doubtful = frozenset()

    def track(self, target: Iterable[Any], owned: Iterable[str]) -> None:
        """Have the metadata manager keep these topics fresh: nobody else asks for a topic that a
        broker-side pattern has found.

        Track the target's topics, also re-created ones; otherwise the new topic is mistaken for the
        old, because no metadata shows its new id. Track also the topics of which the application
        still has partitions (`owned`): the fetch manager needs their leaders until the application
        has released them.
        """
        targets = {self._names[topic_id] for topic_id in target if topic_id in self._names}
        topics = frozenset(targets.union(owned))
        if topics != self._tracked:
            self._tracked = topics
            self._say(TrackTopics(owner=MEMBERSHIP, topics=topics))

    def track_again(self) -> None:
        """The metadata manager was restarted: ask it for the same topics and names again."""
        self._say(TrackTopics(owner=MEMBERSHIP, topics=self._tracked))
        if self._unnamed:
            self._say(NameTopics(topic_ids=self._unnamed))

    def stop_asking(self) -> None:
        """There is no target any more: do not ask for names."""
        if self._unnamed:
            self._unnamed = frozenset()
            self._say(NameTopics(topic_ids=frozenset()))

    def keep(self, needed: Collection[Any]) -> None:
        """Keep the names of these topic ids, and forget all others."""
        self._names = {
            topic_id: name for topic_id, name in self._names.items() if topic_id in needed
        }
