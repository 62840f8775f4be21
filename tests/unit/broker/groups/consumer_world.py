"""A consumer group with members that do what they are told; time is a number the test moves."""

from __future__ import annotations

import json
import random
from typing import Any
from uuid import UUID

from aktor.broker.call import Call
from aktor.broker.codes import Code
from aktor.broker.groups.consumer import ConsumerGroup
from aktor.broker.groups.settings import GroupSettings
from aktor.protocol.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

START = 1_700_000_000.0

_TopicPartitions = ConsumerGroupHeartbeatRequest.TopicPartitions


class Topics:
    """The topics of a cluster that has nothing else."""

    def __init__(self, **partitions: int) -> None:
        self.forbidden: set[str] = set()
        self.version = 0
        self._made = 0
        self._topics: dict[str, tuple[UUID, int]] = {}
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int) -> None:
        self._made += 1
        self.version += 1
        self._topics[name] = (UUID(int=self._made), partitions)

    def grow(self, name: str, partitions: int) -> None:
        self.version += 1
        self._topics[name] = (self._topics[name][0], partitions)

    def delete(self, name: str) -> None:
        self.version += 1
        del self._topics[name]

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._topics))

    def topic_id(self, name: str) -> UUID | None:
        return self._topics[name][0] if name in self._topics else None

    def name(self, topic_id: UUID) -> str | None:
        return next((n for n, (known, _) in self._topics.items() if known == topic_id), None)

    def partitions(self, name: str) -> int:
        return self._topics[name][1] if name in self._topics else 0


class Recorder:
    """A journal that keeps values as a file would: as text."""

    def __init__(self) -> None:
        self.texts: dict[tuple[Any, ...], str] = {}
        self.puts = 0

    def put(self, kind: str, key: tuple[str | int, ...], value: Any | None) -> None:
        self.puts += 1
        self.texts[(kind, *key)] = json.dumps(value)

    def group(self) -> Any | None:
        text = self.texts.get(("consumer-group", "g"))
        return None if text is None else json.loads(text)


class World:
    """One group, its topics, and the time."""

    def __init__(self, topics: Topics | None = None, **settings: Any) -> None:
        self.topics = topics or Topics(t=4)
        self.journal = Recorder()
        self.now = START
        self.parts: dict[str, Any] = {
            "rng": random.Random(1),
            "topics": self.topics,
            "journal": self.journal,
            "settings": GroupSettings(**{"consumer_regex_min_interval": 10.0, **settings}),
        }
        self.group = ConsumerGroup("g", now=self.now, **self.parts)

    def ask(self, *, version: int = 1, client_id: str = "c", **fields: Any) -> Any:
        """Send a heartbeat over the wire's form; the answer."""
        request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", **fields})
        return self.send(request, version=version, client_id=client_id)

    def send(self, request: Any, *, version: int = 1, client_id: str = "c") -> Any:
        """The same with a request that somebody else has made."""
        answers: list[Any] = []
        self.group.heartbeat(
            Call(
                ConsumerGroupHeartbeatRequest.decode(request.encode(version), version),
                answer=answers.append,
                version=version,
                now=self.now,
                client_id=client_id,
            )
        )
        (answer,) = answers
        return ConsumerGroupHeartbeatResponse.decode(answer.encode(version), version)

    def member(self, member_id: str, **subscription: Any) -> Client:
        """A client that has not joined yet; it subscribes to `t` if nothing else is said."""
        return Client(self, member_id, **(subscription or {"topics": ["t"]}))

    def after(self, seconds: float) -> None:
        """Let time pass, and what is due happen."""
        self.now += seconds
        if self.now >= self.group.wake_at():
            self.group.tick(self.now)

    def restart(self) -> None:
        """The broker dies, and another finds what was kept."""
        kept = self.journal.group()
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
        world: World,
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
