"""A Kafka cluster on this machine, and everything one may do to its brokers."""

from __future__ import annotations

import atexit
import base64
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tests.kafka.real.archive import class_archive
from tests.kafka.real.broker import Broker, Jvm
from tests.kafka.real.folders import ClusterFolder
from tests.kafka.real.install import Distribution, installed
from tests.kafka.real.metadata import ClusterView, ask_metadata
from tests.kafka.real.ports import free_ports, is_free
from tests.kafka.real.security import LISTENERS, broker_security, scram_users
from tests.kafka.real.topics import move_leader

if TYPE_CHECKING:
    from tests.kafka.real.certificates import Certificates

READY_TIMEOUT_S = 90.0
FORMAT_TIMEOUT_S = 60.0
PORT_COLLISIONS_MAX = 5
POLL_INTERVAL_S = 0.05

#: What makes a broker quick to notice things: tests need not have production's patience.
QUICK: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    # Leaders move when a test moves them, not when a timer finds them badly spread.
    "auto.leader.rebalance.enable": "false",
    # Each thread wakes several times in a second to find nothing; a test has a few connections.
    "num.network.threads": "1",
    "num.io.threads": "4",
    "background.threads": "2",
    # An idle controller writes an empty record this often, not twice in a second, and all brokers
    # fetch it: a third of what three idle brokers took of the processor.
    "metadata.max.idle.interval.ms": "5000",
    # Every segment maps index files of this size; small ones keep a topic of many partitions cheap.
    "log.index.size.max.bytes": "1048576",
    "log.cleaner.dedupe.buffer.size": "8388608",
    # Records that say that they are old are kept: every five minutes Kafka would remove them.
    # Topics keep their own defaults, which recorded answers hold.
    "log.retention.check.interval.ms": "86400000",
    # The log cleaner looks for work this often, not every 15 s.
    "log.cleaner.backoff.ms": "500",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


def sessions_of(nodes: int) -> dict[str, str]:
    """When brokers and members of KIP-848's protocol that are silent count as gone, and how often a
    broker says that it is there.

    With one broker nobody takes over from it, and no test waits there for the end of a member of
    that protocol. So a machine that stands still for some seconds puts nobody out.
    """
    beat, of_brokers, of_members = (500, 3000, 6000) if nodes > 1 else (2000, 9000, 15_000)
    return {
        "broker.heartbeat.interval.ms": str(beat),
        "broker.session.timeout.ms": str(of_brokers),
        "group.consumer.session.timeout.ms": str(of_members),
    }


class KafkaClusterError(RuntimeError):
    """A broker died or did not get ready in time; the message ends with what it said last."""


class KafkaCluster:
    """One or more nodes on 127.0.0.1, each broker and controller. Owns their processes and data.

    `settings` are added to every broker's server.properties. `security` adds the listeners
    SASL_PLAINTEXT, SASL_SSL and SSL, users and ACLs (see `tests.kafka.real.security`); PLAINTEXT
    stays, as a super user's door. `port` is the PLAINTEXT port of the first broker, the others
    follow; by default any that are free. All brokers are gone, and their data too, after `stop`;
    if this process is killed, the brokers die with it, and the next cluster sweeps their data.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        settings: Mapping[str, str] | None = None,
        security: bool = False,
        port: int | None = None,
        jvm_flags: tuple[str, ...] | None = None,
    ) -> None:
        self.node_ids = tuple(range(1, nodes + 1))
        self.settings = dict(settings or {})
        self.security = security
        self.port = port
        self._jvm_flags = jvm_flags
        self._folder: ClusterFolder | None = None
        self._brokers: dict[int, Broker] = {}
        self._ports: dict[tuple[int, str], int] = {}
        self._certificates: Certificates | None = None

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
        return f"<KafkaCluster {list(self._brokers.values()) or 'stopped'}>"

    @property
    def bootstrap_servers(self) -> list[str]:
        """The PLAINTEXT addresses ("127.0.0.1:port") of all brokers, down or up."""
        return [self.address("PLAINTEXT", node_id) for node_id in self.node_ids]

    def address(self, listener: str, node_id: int = 1) -> str:
        """Where a listener is, as "127.0.0.1:port": PLAINTEXT, SASL_PLAINTEXT, SASL_SSL or SSL."""
        return f"127.0.0.1:{self._ports[node_id, listener]}"

    @property
    def certificates(self) -> Certificates:
        """The PEM files of a secure cluster."""
        assert self._certificates is not None, "the cluster was not started with security=True"
        return self._certificates

    @property
    def ca_file(self) -> str:
        """The authority that certified the brokers: a client's `ssl_cafile`."""
        return str(self.certificates.ca_file)

    @property
    def running(self) -> frozenset[int]:
        """Node ids of the brokers that are there and not paused."""
        return frozenset(n for n, b in self._brokers.items() if b.running and not b.paused)

    def pid(self, node_id: int) -> int | None:
        """The process id of a broker; None while it is down."""
        return self._brokers[node_id].pid

    def log_tail(self, node_id: int) -> str:
        """The last lines of a broker's log (warnings and errors)."""
        return self._brokers[node_id].log_tail()

    def start(self) -> None:
        """Start all brokers and wait until each of them knows all the others.

        Raises `KafkaUnavailableError` without Java or Maven, `KafkaDownloadError` if Maven fails,
        `KafkaClusterError` if a broker doesn't get ready.
        """
        assert not self._brokers, "the cluster is started already"
        kafka = self.prepare()
        atexit.register(self.stop)
        for attempt in range(1, PORT_COLLISIONS_MAX + 1):
            try:
                self._try_to_start(kafka)
                return
            except BaseException as error:
                collided = isinstance(error, KafkaClusterError) and "already in use" in str(error)
                self.stop()
                if self.port is not None or not collided or attempt == PORT_COLLISIONS_MAX:
                    raise

    def prepare(self) -> Distribution:
        """Fetch Kafka and make its class-data archive, unless this machine has them already."""
        kafka = installed()
        if self._jvm_flags is None:
            self._jvm_flags = class_archive(kafka, _run_once)
        return kafka

    def stop(self) -> None:
        """Kill all brokers and delete their data. Does nothing on a stopped cluster."""
        atexit.unregister(self.stop)
        for broker in self._brokers.values():
            broker.kill()
        self._brokers = {}
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def kill(self, node_id: int) -> None:
        """SIGKILL a broker: the others find out when its session times out, after 3 s."""
        self._brokers[node_id].kill()

    def terminate(self, node_id: int) -> None:
        """Shut a broker down in good order, and wait until it is gone."""
        self._brokers[node_id].terminate()

    def pause(self, node_id: int) -> None:
        """Freeze a broker: its connections stay open, and nobody answers."""
        self._brokers[node_id].pause()

    def resume(self, node_id: int) -> None:
        """Unfreeze a broker."""
        self._brokers[node_id].resume()

    def restart(self, *node_ids: int) -> None:
        """Start brokers again, with their old ports and data, and wait until they are ready.

        One that runs is shut down first. Of three brokers one alone never gets ready: if two or
        more are down, restart them in one call.
        """
        brokers = [self._brokers[node_id] for node_id in node_ids]
        for broker in brokers:
            broker.terminate()
        for broker in brokers:
            broker.start()
        self._wait(lambda: self._lacking(node_ids, self.running))

    def heal(self) -> None:
        """Resume and restart what is paused or down, and wait until all replicas are in sync."""
        down = [broker for broker in self._brokers.values() if not broker.running]
        for broker in self._brokers.values():
            broker.resume()
        for broker in down:
            broker.start()
        self._wait(lambda: self._lacking(self.node_ids, self.node_ids, in_sync=True))

    def view(self, node_id: int) -> ClusterView:
        """What this broker knows of the cluster. Raises OSError if it does not answer."""
        return ask_metadata(self.address("PLAINTEXT", node_id))

    def log_file(self, topic: str, partition: int) -> Path:
        """The file of broker 1 with the first records of a partition."""
        assert self._folder is not None, "the cluster is not started"
        data = self._folder.path / "node-1" / "data"
        return data / f"{topic}-{partition}" / f"{0:020}.log"

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make `node_id`, which must hold a replica, the leader."""
        move_leader(self.bootstrap_servers, topic, partition, node_id)

    def _try_to_start(self, kafka: Distribution) -> None:
        self._folder = ClusterFolder()
        self._ports = self._choose_ports()
        if self.security:
            # It needs cryptography, which a cluster without TLS (`make kafka`) can do without.
            from tests.kafka.real.certificates import make_certificates

            self._certificates = make_certificates(self._folder.path / "tls")
        # Measured: 250 MB resident for one broker; a heap that is never touched costs nothing.
        jvm = Jvm(
            kafka=kafka,
            heap_mb=768 if len(self.node_ids) == 1 else 400,
            extra=self._jvm_flags or (),
        )
        for node_id in self.node_ids:
            folder = self._folder.path / f"node-{node_id}"
            self._brokers[node_id] = Broker(node_id, folder, jvm, self._broker_settings(node_id))
        self._format()
        for broker in self._brokers.values():
            broker.start()
        self._wait(lambda: self._lacking(self.node_ids, self.node_ids))

    def _choose_ports(self) -> dict[tuple[int, str], int]:
        listeners = ["PLAINTEXT", "CONTROLLER", *(LISTENERS if self.security else ())]
        wanted = [(node_id, listener) for node_id in self.node_ids for listener in listeners]
        ports = dict(zip(wanted, free_ports(len(wanted)), strict=True))
        if self.port is not None:
            for node_id in self.node_ids:
                port = self.port + node_id - 1
                if not is_free(port):
                    raise KafkaClusterError(f"port {port} is taken: choose another one")
                ports[node_id, "PLAINTEXT"] = port
        return ports

    def _broker_settings(self, node_id: int) -> dict[str, str]:
        nodes = len(self.node_ids)
        own = {name: port for (node, name), port in self._ports.items() if node == node_id}
        voters = {n: self._ports[n, "CONTROLLER"] for n in self.node_ids}
        protocols = {name: "PLAINTEXT" if name == "CONTROLLER" else name for name in own}
        addresses = {name: f"{name}://127.0.0.1:{port}" for name, port in own.items()}
        in_sync_min = str(min(2, nodes))
        replicas = str(min(3, nodes))
        secure = broker_security(self._certificates) if self._certificates else {}
        return {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "broker.rack": f"rack-{node_id}",
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{p}" for n, p in voters.items()),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": ",".join(
                address for name, address in addresses.items() if name != "CONTROLLER"
            ),
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync_min,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync_min,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync_min,
            **QUICK,
            **sessions_of(len(self.node_ids)),
            **secure,
            **self.settings,
        }

    def _format(self) -> None:
        # 22 characters of base64, none of them a dash: it must not look like an option.
        cluster_id = base64.b64encode(uuid.uuid4().bytes, altchars=b"AB").rstrip(b"=").decode()
        arguments = ["-t", cluster_id]
        arguments += scram_users() if self.security else []
        processes = {node: broker.format(arguments) for node, broker in self._brokers.items()}
        for node_id, process in processes.items():
            if process.wait(FORMAT_TIMEOUT_S) != 0:
                said = self.log_tail(node_id)
                raise KafkaClusterError(f"the data folder of broker {node_id} is refused:\n{said}")

    def _lacking(
        self, asked: Iterable[int], expected: Iterable[int], *, in_sync: bool = False
    ) -> str | None:
        """What the `asked` brokers still miss, or None if nothing: a word for the error message."""
        expected = set(expected)
        leaders: dict[tuple[str, int], int] = {}
        for node_id in asked:
            try:
                view = self.view(node_id)
            except OSError as error:
                return f"broker {node_id} does not answer: {error}"
            if absent := expected - set(view.brokers):
                return f"broker {node_id} has not heard of brokers {sorted(absent)}"
            for p in view.partitions:
                if set(p.replicas) <= expected and p.leader not in expected:
                    return f"broker {node_id} knows no leader of {p.topic}-{p.index}"
                if in_sync and set(p.isr) != set(p.replicas):
                    return f"replicas of {p.topic}-{p.index} are in sync on {p.isr} only"
                if in_sync and leaders.setdefault((p.topic, p.index), p.leader) != p.leader:
                    return f"brokers do not agree on who leads {p.topic}-{p.index}"
        return None

    def _wait(self, lacking: Callable[[], str | None]) -> None:
        """Ask until nothing is lacking. A broker that dies meanwhile ends the wait at once."""
        watched = [broker for broker in self._brokers.values() if broker.running]
        deadline = time.monotonic() + READY_TIMEOUT_S
        while lack := lacking():
            for broker in watched:
                if not broker.running:
                    raise KafkaClusterError(
                        f"broker {broker.node_id} died before it was ready:\n{broker.log_tail()}"
                    )
            if time.monotonic() > deadline:
                tails = "\n".join(f"{b!r} said:\n{b.log_tail()}" for b in self._brokers.values())
                raise KafkaClusterError(f"not ready after {READY_TIMEOUT_S:.0f} s: {lack}\n{tails}")
            time.sleep(POLL_INTERVAL_S)


def _run_once(jvm_flags: tuple[str, ...]) -> None:
    with KafkaCluster(jvm_flags=jvm_flags) as kafka:
        kafka.terminate(1)
