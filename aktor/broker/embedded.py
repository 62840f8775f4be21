"""A Kafka cluster inside this process, for tests, demonstrations and notebooks.

    with EmbeddedKafka(brokers=3) as kafka:
        consumer = KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers)

Clients in any language can use it: it listens on TCP ports and speaks Kafka's protocol.
"""

from __future__ import annotations

import base64
import os
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

from aktor.address import written
from aktor.broker.cluster import Cluster
from aktor.broker.codes import Refused
from aktor.broker.faults import Fault, to_json
from aktor.broker.journal import DataFolder
from aktor.broker.log.log import LogConfig, PartitionLog
from aktor.broker.log.store import FileStore
from aktor.broker.partition import Partition
from aktor.broker.server import Clock, Server
from aktor.broker.settings import ClusterSettings
from aktor.broker.status import committed, status
from aktor.broker.topic_configs import check_topic_configs
from aktor.broker.topics import GROUP_OFFSETS, TRANSACTION_STATE, Topic, check_name
from aktor.broker.topology import Node

if TYPE_CHECKING:
    from aktor.broker.sasl import Authentication, Users

__all__ = ["EmbeddedKafka"]

#: Addresses that mean "all interfaces": a broker can listen on them, but a client cannot connect to
#: them, so "localhost" is advertised.
_ANY: Final = ("", "0.0.0.0", "::")


class EmbeddedKafka:
    """One or more brokers on this machine; `start` and `stop`, or a `with` block.

    brokers: how many; their ids are 1, 2, ...
    port: of the first broker, the others follow; None: any that are free.
    host: where to listen; advertised_host: where clients are told to go, if that is elsewhere.
    partitions: of topics that are made by being asked for.
    topics: made at the start: names, or {name: how many partitions}.
    data: a folder that keeps topics, records, groups and transactions; None: in memory.
    users: {name: password}: clients must log in by SASL PLAIN or SCRAM; None: without login.
    racks: one per broker, for clients that read from the replica next to them (KIP-392).
    settings: everything else (see ClusterSettings); `partitions` above wins.
    seed: makes ids and member names repeatable.
    clock: tells the time; who passes one in need not wait for sessions to end.

    `start` raises PortInUseError, DataFolderError, and ValueError for topics that can't be made.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        partitions: int | None = None,
        topics: Iterable[str] | Mapping[str, int] = (),
        data: str | os.PathLike[str] | None = None,
        users: Mapping[str, str] | None = None,
        racks: Iterable[str] = (),
        settings: ClusterSettings | None = None,
        seed: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: a cluster has at least one")
        self.node_ids = tuple(range(1, brokers + 1))
        self._host = host
        self._port = port
        self._topics = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics)
        self._data = data
        self._passwords = dict(users) if users is not None else None
        self._users: Users | None = None
        self._racks = tuple(racks)
        self._settings = settings or ClusterSettings()
        if partitions is not None:
            self._settings = replace(self._settings, partitions=partitions)
        self._advertised_host = advertised_host or ("localhost" if host in _ANY else host)
        self._rng = random.Random(seed)
        self._clock = clock
        self._folder: DataFolder | None = None
        self._server: Server | None = None
        self._starts: dict[tuple[str | int, ...], int] = {}

    # -- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        where = self.bootstrap_servers if self._server else "stopped"
        return f"<EmbeddedKafka {where}>"

    def start(self) -> None:
        """Listen on all ports. Starting what runs already does nothing."""
        if self._server is not None:
            return
        clock = self._clock or Clock()
        cluster: Cluster | None = None
        try:
            cluster = self._cluster(clock())
            for name, partitions in self._topics.items():
                if cluster.topics.get(name) is None:
                    _make_topic(cluster, name, partitions)
            server = Server(cluster, clock=clock, log_in=self._log_in(), host=self._host)
            server.start()
        except BaseException:
            self._close(cluster)
            raise
        self._server = server

    def stop(self) -> None:
        """Close all connections and ports; the data folder can be used by others then."""
        if self._server is not None:
            self._server.stop()
            self._close(self._server.cluster)
            self._server = None

    def _cluster(self, now: float) -> Cluster:
        """As it was kept, if there is a data folder."""
        kept: Mapping[Any, Any] = {}
        cluster_id = new_cluster_id(self._rng)
        if self._data is not None:
            self._folder = DataFolder(self._data, cluster_id=cluster_id)
            kept, cluster_id = self._folder.values(), self._folder.cluster_id
            self._starts = {key: at for (kind, key), at in kept.items() if kind == "log-start"}
        cluster = Cluster(
            self._nodes(),
            now=now,
            cluster_id=cluster_id,
            settings=self._settings,
            rng=self._rng,
            journal=self._folder,
            open_log=self._open_log if self._folder else None,
            kept=kept,
        )
        if self._folder is not None:
            self._forget_deleted(self._folder, cluster)
        return cluster

    def _forget_deleted(self, folder: DataFolder, cluster: Cluster) -> None:
        """What is left of topics that were deleted before the last process ended."""
        for topic_id in folder.topic_ids():
            if cluster.topics.name(topic_id) is None:
                folder.forget_topic(topic_id)
        for key in self._starts:
            if cluster.topics.name(UUID(hex=str(key[0]))) is None:
                folder.put("log-start", key, None)

    def _log_in(self) -> Callable[[], Authentication] | None:
        if self._passwords is None:
            return None
        from aktor.broker.sasl import Authentication, Users

        users = self._users = Users(self._passwords)
        return lambda: Authentication(users, rng=self._rng)

    def _nodes(self) -> list[Node]:
        racks = dict(zip(self.node_ids, self._racks, strict=False))
        first = self._port
        return [
            Node(
                node_id=node_id,
                host=self._advertised_host,
                port=0 if first is None else first + node_id - 1,
                rack=racks.get(node_id),
            )
            for node_id in self.node_ids
        ]

    def _open_log(self, topic_id: UUID, index: int, config: LogConfig) -> PartitionLog:
        folder = self._folder
        assert folder is not None
        key = (topic_id.hex, index)
        return PartitionLog(
            config=config,
            store=FileStore(folder.log_path(topic_id, index)),
            start_offset=self._starts.get(key, 0),
            on_start=lambda start: folder.put("log-start", key, start),
        )

    def _close(self, cluster: Cluster | None) -> None:
        if cluster is not None:
            cluster.topics.close()
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    @property
    def server(self) -> Server:
        """What runs; its `ask` reaches the cluster. Raises RuntimeError if it does not."""
        if self._server is None:
            raise RuntimeError("the embedded Kafka is not running: call start(), or use `with`")
        return self._server

    # -- where it is

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, "127.0.0.1:41873,127.0.0.1:36459": any client takes it."""
        return ",".join(self.address(node_id) for node_id in self.node_ids)

    def address(self, node_id: int) -> str:
        """Where one broker is, "host:port"."""
        node = self.server.cluster.nodes[node_id]
        return written(node.host, node.port)

    def status(self) -> dict[str, Any]:
        """Brokers, topics, groups and faults as JSON values; docs/embedded.md lists the keys."""
        server = self.server
        return server.ask(
            lambda: {
                **status(server.cluster),
                "faults": {
                    str(number): to_json(fault) for number, fault in server.faults.rules().items()
                },
            }
        )

    # -- topics

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic; it is there when this returns. Raises ValueError if it can't be made."""
        cluster = self.server.cluster

        def act() -> None:
            if cluster.topics.get(name):
                raise ValueError(f"topic {name!r} exists already")
            _make_topic(cluster, name, partitions, replication_factor, configs or {})

        self.server.ask(act)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and committed offsets. Raises ValueError if unknown."""
        cluster = self.server.cluster
        self.server.ask(lambda: cluster.delete_topic(self._topic(name), cluster.now))

    def add_partitions(self, name: str, count: int) -> None:
        """Let a topic have `count` partitions from now on."""
        cluster = self.server.cluster

        def act() -> None:
            topic = self._topic(name)
            more = count - len(topic.partitions)
            if more < 1:
                raise ValueError(f"topic {name!r} has {len(topic.partitions)} partitions already")
            replication = len(topic.partitions[0].replicas)
            cluster.grow_topic(topic, cluster.topology.assignment(more, replication), cluster.now)

        self.server.ask(act)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The high watermark: how far consumers can read."""
        return self.server.ask(lambda: self._partition(topic, partition).log.high_watermark)

    def _topic(self, name: str) -> Topic:
        topic = self.server.cluster.topics.get(name)
        if topic is None:
            raise ValueError(f"there is no topic {name!r}")
        return topic

    def _partition(self, topic: str, partition: int) -> Partition:
        found = self.server.cluster.topics.partition(topic, partition)
        if found is None:
            raise ValueError(f"there is no partition {topic}-{partition}")
        return found

    # -- brokers

    def stop_broker(self, node_id: int) -> None:
        """Shut one broker down: its connections and its port close, others take over."""
        self.server.stop_broker(self._known(node_id))

    def kill_broker(self, node_id: int, *, session_timeout: float = 9.0) -> None:
        """Kill the broker: its connections and its port are gone, and after `session_timeout`
        seconds other brokers take over; until then its partitions have no leader."""
        self.server.kill_broker(self._known(node_id), session_timeout=session_timeout)

    def start_broker(self, node_id: int) -> None:
        """Start it again, on the port it had."""
        self.server.start_broker(self._known(node_id))

    def pause_broker(self, node_id: int, *, session_timeout: float = 9.0) -> None:
        """Pause the broker: it accepts connections and answers nothing; after `session_timeout`
        seconds other brokers take over."""
        self.server.pause_broker(self._known(node_id), session_timeout=session_timeout)

    def resume_broker(self, node_id: int) -> None:
        """Let a paused broker go on."""
        self.server.resume_broker(self._known(node_id))

    def _known(self, node_id: int) -> int:
        if node_id not in self.node_ids:
            raise ValueError(f"there is no broker {node_id}; there are 1 to {len(self.node_ids)}")
        return node_id

    def disconnect(self) -> int:
        """Break all connections of all clients; how many there were."""
        return self.server.disconnect()

    # -- leaders and coordinators

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads a partition, -1 if none does."""
        return self.server.ask(lambda: self._partition(topic, partition).leader)

    def move_leader(
        self, topic: str, partition: int = 0, to: int | None = None, *, unclean: bool = False
    ) -> int:
        """Let another in-sync replica lead. `unclean`: any replica may; records that it lacks are
        lost.

        With one replica the same broker is elected anew. Returns the leader's id. Raises ValueError
        if it can't lead.
        """
        cluster = self.server.cluster
        return self.server.ask(
            lambda: cluster.move_leader(topic, partition, to, cluster.now, unclean=unclean)
        )

    def hold_replica(self, topic: str, partition: int, node_id: int) -> None:
        """Let a follower fetch no more: out of sync after `settings.replica_lag_max` seconds."""
        cluster = self.server.cluster
        self.server.ask(lambda: cluster.hold_replica(topic, partition, node_id))

    def release_replica(self, topic: str, partition: int, node_id: int) -> None:
        """Let it catch up."""
        cluster = self.server.cluster
        self.server.ask(lambda: cluster.release_replica(topic, partition, node_id))

    def coordinator(self, group_id: str) -> int:
        """The id of the broker that coordinates a group, -1 if none does."""
        cluster = self.server.cluster

        def act() -> int:
            node = cluster.coordinator(GROUP_OFFSETS, group_id)
            return node.node_id if node else -1

        return self.server.ask(act)

    def move_coordinator(self, group_id: str, to: int | None = None) -> int:
        """Let another broker coordinate a group; its id."""
        cluster = self.server.cluster
        return self.server.ask(
            lambda: cluster.move_coordinator(GROUP_OFFSETS, group_id, to, cluster.now)
        )

    def move_transaction_coordinator(self, transactional_id: str, to: int | None = None) -> int:
        """Let another broker coordinate a transactional id; its id."""
        cluster = self.server.cluster
        return self.server.ask(
            lambda: cluster.move_coordinator(TRANSACTION_STATE, transactional_id, to, cluster.now)
        )

    # -- groups

    def members(self, group_id: str) -> list[str]:
        """The member ids of a group."""
        cluster = self.server.cluster
        return self.server.ask(
            lambda: [member.member_id for member in cluster.groups.members(group_id)]
        )

    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """What a group has committed, {(topic, partition): offset}; empty for an unknown group."""
        return self.server.ask(lambda: committed(self.server.cluster, group_id))

    def expire_session(self, group_id: str, member_id: str) -> None:
        """As if this member had not been heard of for its session timeout."""
        cluster = self.server.cluster
        self.server.ask(lambda: cluster.groups.expire_session(group_id, member_id, cluster.now))

    def fence_member(self, group_id: str, member_id: str) -> None:
        """Its next request is refused, as if the member had been replaced."""
        cluster = self.server.cluster
        self.server.ask(lambda: cluster.groups.fence_member(group_id, member_id, cluster.now))

    def set_password(self, user: str, password: str) -> None:
        """From now on this is the password of this user. Who is logged in stays so, as with Kafka;
        `disconnect` ends that. Raises ValueError if nobody has to log in."""
        if self._passwords is None:
            raise ValueError("this cluster was made without users, so that nobody logs in")
        self._passwords[user] = password
        if self._users is not None:
            users = self._users
            self.server.ask(lambda: users.set_password(user, password))

    # -- faults

    def inject(self, fault: Fault) -> Fault:
        """From now on requests that match meet this fault; see `aktor.broker.faults`."""
        self.server.ask(lambda: self.server.faults.add(fault))
        return fault

    def faults(self) -> dict[int, Fault]:
        """The faults in force by number, with what is left of their `times` and `after`."""
        return self.server.ask(self.server.faults.rules)

    def remove_fault(self, number: int) -> bool:
        """Take one fault back; False if it is used up or never was."""
        return self.server.ask(lambda: self.server.faults.remove(number))

    def clear_faults(self) -> None:
        """No more faults."""
        self.server.ask(self.server.faults.clear)


def _make_topic(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    replication_factor: int | None = None,
    configs: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raises ValueError with Kafka's reason why it can't be made."""
    try:
        check_name(name)
        checked = check_topic_configs(configs, defaults=cluster.settings.topic_configs)
        cluster.create_topic(name, partitions, replication_factor, checked)
    except Refused as refused:
        raise ValueError(str(refused)) from None


def new_cluster_id(rng: random.Random) -> str:
    """16 bytes at random in base64, 22 characters, as Kafka calls its clusters."""
    return base64.urlsafe_b64encode(rng.randbytes(16)).rstrip(b"=").decode()
