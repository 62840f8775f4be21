"""Progress: whether each group has committed all that it reads; if not, where it hangs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafka.structs import TopicPartition

from aktor.simulation.world.topic import Topic
from aktor.simulation.world.world import World

__all__ = ["Progress"]


class Progress:
    """Owns which topics each group reads, as far as is known, and of which that was demanded."""

    def __init__(self, simulation: World) -> None:
        self._simulation = simulation
        #: By group; None: what a pattern matches.
        self._reads: dict[str, set[str] | None] = {}
        self._demanded: dict[str, frozenset[str]] = {}

    def until_all_partitions_are_known(self) -> float:
        """Seconds until every consumer has metadata that is younger than the youngest partition."""
        ages = [
            host.consumer.config["metadata_max_age_ms"] / 1000
            for member in self._simulation.members
            for host in member.hosts
        ]
        grown = max(
            (
                event["at"]
                for event in self._simulation.history.named("topic.grown", "topic.created")
            ),
            default=0.0,
        )
        return max(0.0, grown + max(ages, default=0.0) - self._simulation.now) if grown else 0.0

    def learn(self, group: str, topics: Collection[str] | None = ()) -> None:
        """There is this group, and it reads these topics, too; None: those of a pattern."""
        if group not in self._simulation.groups:
            self._simulation.groups.append(group)
            self._reads[group] = set()
        known = self._reads.get(group)
        if topics is None:
            self._reads[group] = None
        elif known is not None:
            known.update(topics)

    def is_made(self) -> bool:
        """Whether every group has committed all records of the topics that it reads, which is
        demanded from now on. A group of which no consumer has said yet what it reads has not."""
        for member in self._simulation.members:
            for host in member.hosts:
                if (asked := host.asks_for) is not None:
                    self.learn(*asked)
        for group in self._simulation.groups:
            self._demand(group)
        return not self._silent() and next(self._lagging(), None) is None

    def _silent(self) -> list[str]:
        """The groups of which nobody has said what they read: their members are between one
        consumer and the next, for example."""
        return [group for group in self._simulation.groups if self._reads.get(group) == set()]

    def _demand(self, group: str) -> None:
        """Note, where it is news, that the group has to finish what it reads."""
        reads = self._reads.get(group)
        topics = frozenset(self._simulation.topics if reads is None else reads)
        if self._demanded.get(group) != topics:
            self._demanded[group] = topics
            self._simulation.history.note("progress.demanded", group=group, topics=sorted(topics))

    def _lagging(self) -> Iterator[tuple[str, Topic]]:
        for group in self._simulation.groups:
            for topic in self._simulation.topics:
                if topic in self._demanded.get(group, ()) and topic.lag(group):
                    yield group, topic

    def missing(self) -> str:
        """In words: what is not committed, who owns it, and what that member waits for."""
        lagging = list(self._lagging())
        left = [f"{topic.lag(group)} of {topic} by group {group}" for group, topic in lagging]
        where = [
            self._where_it_hangs(group, topic, number)
            for group, topic in lagging
            for number in range(topic.partitions)
            if self._simulation.brokers.unread(group, topic, number)
        ]
        silent = [f"nobody has said what group {group} reads" for group in self._silent()]
        return "\n  ".join([f"records are not committed: {', '.join(left)}", *where, *silent])

    def _where_it_hangs(self, group: str, topic: Topic, number: int) -> str:
        """How far the group has committed the partition, its owner, and what that waits for."""
        brokers, partition = self._simulation.brokers, TopicPartition(topic, number)
        committed = brokers.committed(group, topic, number)
        done = "nothing" if committed is None else f"up to {committed}"
        leader = brokers.leader(topic, number)
        led = "no leader" if leader not in brokers.running else f"leader b{leader}"
        owners = [
            f"{host.name} owns it, {host.how_far(partition)} and {member.what_it_does}"
            for member in self._simulation.members
            if not member.gone
            for host in member.hosts
            if host.is_in(group) and partition in host.owned
        ]
        said = "; ".join(owners) or f"nobody owns it, {self._who_is_in(group)}"
        return (
            f"{topic}-{number} (end {brokers.end(topic, number)}, {led}): {done} committed; {said}"
        )

    def _who_is_in(self, group: str) -> str:
        known = [
            f"{consumer} ({member.member_id})"
            for consumer, member in self._simulation.brokers.members_by_consumer(group)
        ]
        doing = [
            f"{member} {member.what_it_does}"
            for member in self._simulation.members
            if not member.gone
        ]
        there = f"members of {group} are {', '.join(known) or 'none'}"
        return f"{there}; {', '.join(doing) or 'no process lives'}"
