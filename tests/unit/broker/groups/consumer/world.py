"""A consumer group with members that do what they are told; time is a number the test moves."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from aktor.broker.codes import Code
from aktor.broker.groups.consumer.group import ConsumerGroup
from aktor.broker.groups.settings import GroupSettings
from aktor.protocol.consumer_group import ConsumerGroupHeartbeatRequest
from tests.unit.broker.harness import Topics, World

_TopicPartitions = ConsumerGroupHeartbeatRequest.TopicPartitions


class ConsumerWorld(World):
    """One group, its topics, and the time."""

    def __init__(self, topics: Topics | None = None, **settings: Any) -> None:
        super().__init__(seed=1)
        self.topics = topics or Topics(t=4)
        self.parts: dict[str, Any] = {
            "rng": self.rng,
            "topics": self.topics,
            "journal": self.journal,
            "settings": GroupSettings(**{"consumer_regex_min_interval": 10.0, **settings}),
        }
        self.group = ConsumerGroup("g", now=self.now, **self.parts)

    def ask(self, *, version: int = 1, client_id: str = "c", **fields: Any) -> Any:
        """Send a heartbeat over the wire's form; the answer."""
        request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", **fields})
        return self.heartbeat(request, version=version, client_id=client_id)

    def heartbeat(self, request: Any, *, version: int = 1, client_id: str = "c") -> Any:
        """The same with a request that somebody else has made."""
        return self.send(self.group.heartbeat, request, version, client_id).answer

    def member(self, member_id: str, **subscription: Any) -> Client:
        """A client that has not joined yet; it subscribes to `t` if nothing else is said."""
        return Client(self, member_id, **(subscription or {"topics": ["t"]}))

    @property
    def machine(self) -> ConsumerGroup:
        return self.group

    def kept(self) -> Any:
        """What the journal has of the group."""
        return self.journal.value("consumer-group", "g")

    def restart(self) -> None:
        """The broker dies, and another finds what was kept."""
        kept = self.kept()
        if kept is None:
            self.group = ConsumerGroup("g", now=self.now, **self.parts)
        else:
            self.group = ConsumerGroup.restore(kept, "g", now=self.now, **self.parts)

    def settle(self, *clients: Client, rounds: int = 10) -> None:
        """Heartbeats until nobody is told anything new."""
        for _ in range(rounds):
            for client in clients:
                client.beat()
        assert self.group.state in ("Stable", "Empty")


class Client:
    """A member of the consumer protocol: it owns what it was told, and says so."""

    def __init__(
        self,
        world: ConsumerWorld,
        member_id: str,
        *,
        topics: list[str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        instance_id: str | None = None,
        rebalance_timeout: float = 60.0,
    ) -> None:
        self.world = world
        self.id = member_id
        self.topics = topics
        self.regex = regex
        self.assignor = assignor
        self.instance_id = instance_id
        self.rebalance_timeout_ms = round(rebalance_timeout * 1000)
        self.epoch = 0
        self.owned: dict[UUID, list[int]] = {}
        self.told: dict[UUID, list[int]] = {}
        self.lost_an_answer = False

    def join(self, *, version: int = 1) -> Any:
        """Send all there is to say, with epoch 0."""
        self.owned, self.told = {}, {}
        return self._send(version=version, member_epoch=0, **self._all(version))

    def beat(self, **fields: Any) -> Any:
        """A heartbeat; what it should own by the last answer it owns from now on."""
        self.owned = dict(self.told)
        return self.hold(**fields)

    def hold(self, **fields: Any) -> Any:
        """A heartbeat of one that has done nothing yet about the last answer."""
        said = self._all() if self.lost_an_answer else {"topic_partitions": self.report()}
        return self._send(member_epoch=self.epoch, **{**said, **fields})

    def beat_in_vain(self) -> None:
        """A heartbeat whose answer is lost: the next one says all, to be told all."""
        self.owned = dict(self.told)
        before = self.id, self.epoch, self.told
        self.hold()
        self.id, self.epoch, self.told = before
        self.lost_an_answer = True

    def _all(self, version: int = 1) -> dict[str, Any]:
        return {
            "topic_partitions": self.report(),
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex if version > 0 else None,
            "server_assignor": self.assignor,
        }

    def leave(self, *, epoch: int = -1) -> Any:
        """Leave; -2 for a while."""
        answer = self._send(member_epoch=epoch)
        self.owned, self.told = {}, {}
        return answer

    def report(self) -> list[Any]:
        return [_TopicPartitions(topic_id=t, partitions=ps) for t, ps in self.owned.items()]

    def _send(self, *, version: int = 1, **fields: Any) -> Any:
        answer = self.world.ask(
            version=version, member_id=self.id, instance_id=self.instance_id, **fields
        )
        self.lost_an_answer = False
        if answer.error_code == Code.NONE:
            self.id, self.epoch = answer.member_id, answer.member_epoch
            if answer.assignment is not None:
                self.told = {
                    topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions
                }
        return answer

    @property
    def partitions(self) -> dict[str, list[int]]:
        """What it was last told to own, by topic."""
        return {self.world.topics.name(t) or str(t): sorted(ps) for t, ps in self.told.items()}


def told(answer: Any) -> list[int] | None:
    """The partitions in an answer about one topic; None if it says nothing of partitions."""
    if answer.assignment is None:
        return None
    return [p for topic in answer.assignment.topic_partitions for p in topic.partitions]


def a_join(**fields: Any) -> dict[str, Any]:
    """What a first heartbeat says."""
    return {
        "member_id": "m1",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **fields,
    }
