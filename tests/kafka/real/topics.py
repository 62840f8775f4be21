"""What tests do to a cluster besides consuming from it: topics, records, transactions, leaders.

Every function takes the PLAINTEXT `bootstrap_servers` of a `KafkaCluster`, and returns when every
broker that is up knows of the change: a consumer may be pointed at any of them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from types import TracebackType
from typing import Any, Literal, Self

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ACL

from tests.kafka.real.metadata import ClusterView, Partition, ask_coordinator, ask_metadata

WAIT_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.02
PREFERRED_ELECTION = 0

Compression = Literal["gzip", "snappy", "lz4", "zstd"]
Headers = Sequence[tuple[str, bytes]]
Text = bytes | str | None


def create_topic(
    bootstrap: Sequence[str],
    name: str,
    partitions: int = 1,
    replication: int = 1,
    configs: Mapping[str, str] | None = None,
) -> str:
    """Create a topic, wait until all its partitions have leaders, and return its name."""
    wanted = {
        "num_partitions": partitions,
        "replication_factor": replication,
        "configs": dict(configs or {}),
    }
    with admin(bootstrap) as client:
        client.create_topics({name: wanted})
    _wait_until(lambda: _all_led(bootstrap, name, partitions), f"{name} has no leaders")
    return name


def add_partitions(bootstrap: Sequence[str], name: str, total: int) -> None:
    """Let the topic have `total` partitions from now on."""
    with admin(bootstrap) as client:
        client.create_partitions({name: total})
    _wait_until(lambda: _all_led(bootstrap, name, total), f"{name} has not {total} leaders")


def delete_topic(bootstrap: Sequence[str], name: str) -> None:
    """Delete a topic."""
    with admin(bootstrap) as client:
        client.delete_topics([name])
    _wait_until(
        lambda: not any(view.of_topic(name) for view in views(bootstrap)), f"{name} is still there"
    )


def grant(bootstrap: Sequence[str], rules: Sequence[ACL]) -> None:
    """Add access rules, and wait until the broker that answers goes by them."""
    with admin(bootstrap) as client:
        client.create_acls(list(rules))

        def known() -> bool:
            return all(client.describe_acls(rule)[0] for rule in rules)

        _wait_until(known, f"the rules {rules} are not known")


def withdraw(bootstrap: Sequence[str], rules: Sequence[ACL]) -> None:
    """Take access rules away, and wait until the broker that answers goes by that."""
    with admin(bootstrap) as client:
        client.delete_acls(list(rules))

        def gone() -> bool:
            return not any(client.describe_acls(rule)[0] for rule in rules)

        _wait_until(gone, f"the rules {rules} are still there")


def add_scram_user(bootstrap: Sequence[str], mechanism: str, user: str, password: str) -> None:
    """Let this user log in with the password, and wait until the broker that answers knows it.

    By confluent-kafka: kafka-python's client is the one under test.
    """
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    kind = ScramMechanism[mechanism.replace("-", "_")]
    change = UserScramCredentialUpsertion(
        user, ScramCredentialInfo(kind, 4096), password.encode(), b"salt of tests"
    )
    client = AdminClient({"bootstrap.servers": ",".join(bootstrap)})
    client.alter_user_scram_credentials([change])[user].result(WAIT_TIMEOUT_S)

    def known() -> bool:
        answer = client.describe_user_scram_credentials([user])[user]
        try:
            infos = answer.result(WAIT_TIMEOUT_S).scram_credential_infos
        except Exception:  # RESOURCE_NOT_FOUND
            return False
        return any(info.mechanism is kind for info in infos)

    _wait_until(known, f"the user {user!r} is not known")


def produce(
    bootstrap: Sequence[str],
    topic: str,
    values: Iterable[Text],
    *,
    partition: int | None = None,
    key: Text = None,
    compression: Compression | None = None,
    headers: Headers | None = None,
    timestamp: int | None = None,
) -> list[Any]:
    """Write records, wait for acks=all, and return kafka-python's RecordMetadata of each, in order.

    Text is encoded as UTF-8; a value of None is a tombstone; `timestamp` is in milliseconds.
    """
    with producer(bootstrap, compression_type=compression) as client:
        return _send(client, topic, values, partition, key, headers, timestamp)


class Transaction:
    """An open transaction of a producer of its own; left without `commit`, it is aborted.

    with Transaction(bootstrap) as transaction:
        transaction.produce("orders", ["a", "b"])
        transaction.commit()
    """

    def __init__(
        self,
        bootstrap: Sequence[str],
        *,
        transactional_id: str | None = None,
        timeout_ms: int = 60_000,
    ) -> None:
        self.transactional_id = transactional_id or f"transaction-{uuid.uuid4().hex[:8]}"
        self._open = True
        self._producer = KafkaProducer(
            bootstrap_servers=list(bootstrap),
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        self._producer.init_transactions()
        self._producer.begin_transaction()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._open:
            self.abort()

    def produce(
        self,
        topic: str,
        values: Iterable[Text],
        *,
        partition: int | None = None,
        key: Text = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
    ) -> list[Any]:
        """Write records, uncommitted. Arguments and result as in `produce`."""
        return _send(self._producer, topic, values, partition, key, headers, timestamp)

    def commit(self) -> None:
        """Commit, and close the producer."""
        self._producer.commit_transaction()
        self._close()

    def abort(self) -> None:
        """Abort, and close the producer."""
        self._producer.abort_transaction()
        self._close()

    def _close(self) -> None:
        self._open = False
        self._producer.close()


def wait_for_markers(bootstrap: Sequence[str], topic: str, partition: int = 0) -> int:
    """Wait until no transaction is open in a partition; its end.

    A producer is told that its transaction has ended before Kafka has written the markers: until
    then a committed reader is not given what came after its beginning. Nobody may write meanwhile.
    """
    one = TopicPartition(topic, partition)
    ends: set[int] = set()
    with ExitStack() as stack:
        readers = [
            stack.enter_context(closing(KafkaConsumer(bootstrap_servers=bootstrap, **settings)))
            for settings in ({}, {"isolation_level": "read_committed"})
        ]

        def ask() -> bool:
            ends.clear()
            ends.update(reader.end_offsets([one])[one] for reader in readers)
            return len(ends) == 1

        _wait_until(ask, f"a transaction is open in {topic}-{partition}")
    return ends.pop()


def leader_of(bootstrap: Sequence[str], topic: str, partition: int) -> int:
    """Node id of the leader; -1 while there is none."""
    return _partition(bootstrap, topic, partition).leader


def wait_for_leader(
    bootstrap: Sequence[str], topic: str, partition: int, *, other_than: int = -1
) -> int:
    """Wait until all brokers in `bootstrap` that answer agree on a leader; its node id.

    After a `kill` or `pause` give the lost leader as `other_than`: it is replaced when its session
    has timed out, after 3 s.
    """
    agreed: set[int] = set()

    def ask() -> bool:
        known = [view.of_topic(topic)[partition:] for view in views(bootstrap)]
        agreed.clear()
        agreed.update(those[0].leader if those else -1 for those in known)
        return len(agreed) == 1 and not agreed & {-1, other_than}

    _wait_until(ask, f"{topic}-{partition} has no leader other than {other_than}")
    return agreed.pop()


def move_leader(bootstrap: Sequence[str], topic: str, partition: int, node_id: int) -> None:
    """Make `node_id`, which must hold a replica, the leader and the preferred leader."""
    replicas = _partition(bootstrap, topic, partition).replicas
    assert node_id in replicas, (
        f"broker {node_id} has no replica of {topic}-{partition}: {replicas}"
    )
    order = [node_id, *(replica for replica in replicas if replica != node_id)]
    with admin(bootstrap) as client:
        client.alter_partition_reassignments({TopicPartition(topic, partition): order})
        _wait_until(
            lambda: _partition(bootstrap, topic, partition).replicas == tuple(order),
            f"the replicas of {topic}-{partition} were not reordered",
        )
        client.elect_leaders(PREFERRED_ELECTION, {topic: [partition]})
    _wait_until(
        lambda: wait_for_leader(bootstrap, topic, partition) == node_id,
        f"broker {node_id} does not lead {topic}-{partition}",
    )


def coordinator_of(bootstrap: Sequence[str], group: str) -> int:
    """Node id of the broker that coordinates `group`. The first call creates the offsets topic."""
    found: list[int] = []

    def ask() -> bool:
        for address in bootstrap:
            try:
                coordinator = ask_coordinator(address, group)
            except OSError:
                continue
            if coordinator is not None:
                found.append(coordinator)
                return True
        return False

    _wait_until(ask, f"group {group} has no coordinator")
    return found[0]


def views(bootstrap: Sequence[str]) -> list[ClusterView]:
    """What every broker that is up knows of the cluster.

    Raises OSError if none of them answers, or one that is up takes too long: nobody knows what it
    knows.
    """
    answers = []
    for address in bootstrap:
        try:
            answers.append(ask_metadata(address))
        except ConnectionError:
            continue
    if not answers:
        raise ConnectionError(f"none of {list(bootstrap)} answers: is the cluster running?")
    return answers


@contextmanager
def admin(bootstrap: Sequence[str], **settings: Any) -> Iterator[Any]:
    """kafka-python's KafkaAdminClient, closed in the end."""
    client = KafkaAdminClient(bootstrap_servers=list(bootstrap), **settings)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def producer(bootstrap: Sequence[str], **settings: Any) -> Iterator[Any]:
    """kafka-python's KafkaProducer with acks=all, closed in the end."""
    client = KafkaProducer(bootstrap_servers=list(bootstrap), acks="all", **settings)
    # How long it waits before it asks for the metadata of a topic that is new to it: 100 ms in each
    # of hundreds of tests, for which 3.0.12 has no setting.
    client._metadata.config["retry_backoff_ms"] = 5
    try:
        yield client
    finally:
        client.close()


def _send(
    client: Any,
    topic: str,
    values: Iterable[Text],
    partition: int | None,
    key: Text,
    headers: Headers | None,
    timestamp: int | None,
) -> list[Any]:
    futures = [
        client.send(
            topic,
            value=_encoded(value),
            key=_encoded(key),
            headers=list(headers or []),
            partition=partition,
            timestamp_ms=timestamp,
        )
        for value in values
    ]
    client.flush()
    return [future.get(timeout=WAIT_TIMEOUT_S) for future in futures]


def _encoded(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _partition(bootstrap: Sequence[str], topic: str, index: int) -> Partition:
    for view in views(bootstrap):
        for partition in view.of_topic(topic):
            if partition.index == index:
                return partition
    raise KeyError(f"there is no partition {topic}-{index}")


def _all_led(bootstrap: Sequence[str], topic: str, partitions: int) -> bool:
    return all(
        len(known := view.of_topic(topic)) == partitions
        and all(partition.leader in view.brokers for partition in known)
        for view in views(bootstrap)
    )


def _wait_until(happened: Callable[[], bool], complaint: str) -> None:
    """Ask again and again, also if a broker was too busy to answer."""
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while True:
        try:
            if happened():
                return
            unanswered = None
        except OSError as error:
            unanswered = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"{complaint} after {WAIT_TIMEOUT_S:.0f} s") from unanswered
        time.sleep(POLL_INTERVAL_S)
