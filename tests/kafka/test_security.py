"""Security: who gets in, what happens to who doesn't, and that no secret is ever shown."""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from pyspark.sql.types import BinaryType, StructField, StructType

from aktor import KafkaConsumer, TopicPartition
from aktor.errors import AuthenticationError, BootstrapError
from aktor.net.sasl.oauth import ClientCredentials
from aktor.spark.options import client_settings, producer_settings
from aktor.spark.sink.confluent_producer import ConfluentProducer
from aktor.spark.sink.kafka_python_producer import KafkaPythonProducer
from aktor.spark.sink.rows import RowLayout
from aktor.trace.file import trace_file
from tests.kafka.real import KafkaCluster, topics
from tests.kafka.real.certificates import make_certificates
from tests.kafka.real.security import MECHANISMS, USERS, UnsecuredToken
from tests.kafka.support import (
    PROMPT_S,
    QUICK,
    SOON_S,
    named,
    numbered,
    poll,
    poll_until,
    raised_within,
    read,
    read_through,
    traced,
    values,
    wait_until,
)
from tests.token_endpoint import TokenEndpoint

pytestmark = pytest.mark.real("the embedded Kafka has neither TLS nor ACLs")

#: What the client finds out by itself, after several attempts, and long before a poll of 20 s ends.
TOLD_S = 10.0

WRONG = "not-the-password-5c1"


def login(mechanism: str, user: str = "alice", password: str | None = None) -> dict[str, Any]:
    """Settings to log in as `user`."""
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": UnsecuredToken(user)}
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password or USERS[user],
    }


def through(kafka: KafkaCluster, listener: str, *names: str, **settings: Any) -> KafkaConsumer:
    """A consumer that comes through this listener, impatient and with the right authority. Its
    constructor does not wait for a broker, unless told: the calls after it are looked at."""
    door: dict[str, Any] = {
        "bootstrap_servers": [kafka.address(listener)],
        "bootstrap_timeout_ms": 0,
        "security_protocol": listener,
    }
    if listener.endswith("SSL"):
        door["ssl_cafile"] = kafka.ca_file
    return KafkaConsumer(*names, **{**QUICK, **door, **settings})


@pytest.fixture
def orders(secure_kafka: KafkaCluster, topic: str) -> TopicPartition:
    """The only partition of a topic with three records."""
    topics.create_topic(secure_kafka.bootstrap_servers, topic)
    topics.produce(secure_kafka.bootstrap_servers, topic, numbered(3))
    return TopicPartition(topic, 0)


@contextmanager
def allowed(
    kafka: KafkaCluster, kind: ResourceType, name: str, *operations: ACLOperation
) -> Iterator[None]:
    """What bob may do meanwhile."""
    topics.grant(kafka.bootstrap_servers, [bobs(kind, name, one) for one in operations])
    yield


def bobs(kind: ResourceType, name: str, operation: ACLOperation) -> ACL:
    """The rule that lets bob do this."""
    return ACL(
        principal="User:bob",
        host="*",
        operation=operation,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(kind, name),
    )


# -- who gets in


@pytest.fixture
def token_endpoint() -> Iterator[TokenEndpoint]:
    """An identity provider for alice."""
    found = TokenEndpoint(lambda _: UnsecuredToken("alice").token())
    yield found
    found.close()


def test_client_credentials_let_alice_in_and_all_connections_share_a_token(
    secure_kafka: KafkaCluster, orders: TopicPartition, group: str, token_endpoint: TokenEndpoint
) -> None:
    tokens = ClientCredentials(token_endpoint.url, "billing", "canary-7f3")
    door = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": tokens}

    with through(secure_kafka, "SASL_PLAINTEXT", orders.topic, group_id=group, **door) as consumer:
        assert len(read(consumer, 3)) == 3
        shown = repr(consumer.config) + repr(consumer.status())
    assert len(token_endpoint.asked) == 1
    assert "canary" not in shown


def test_client_credentials_that_are_refused_are_told_with_the_reason(
    secure_kafka: KafkaCluster, orders: TopicPartition, token_endpoint: TokenEndpoint
) -> None:
    tokens = ClientCredentials(token_endpoint.url, "billing", "canary-7f3")
    for _ in range(20):
        token_endpoint.will(401, {"error": "invalid_client"})
    door = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": tokens}

    with (
        through(secure_kafka, "SASL_PLAINTEXT", orders.topic, **door) as consumer,
        pytest.raises(AuthenticationError, match=r"401 Unauthorized, invalid_client") as refused,
    ):
        consumer.poll(20_000)
    assert "canary" not in "".join(traceback.format_exception(refused.value))


def test_options_of_spark_let_alice_in_to_read_and_to_write(
    secure_kafka: KafkaCluster, topic: str, token_endpoint: TokenEndpoint
) -> None:
    topics.create_topic(secure_kafka.bootstrap_servers, topic)
    options = {
        "bootstrap.servers": secure_kafka.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": token_endpoint.url,
        "sasl.jaas.config": 'a.OAuthBearerLoginModule required clientId="b" clientSecret="c";',
    }
    settings = producer_settings.read(options, transactional=False)
    layout = RowLayout(StructType([StructField("value", BinaryType())]), topic)
    for make in (ConfluentProducer, KafkaPythonProducer):
        producer = make(settings, None)
        with contextlib.closing(producer):
            batch = pa.RecordBatch.from_pydict({"value": [make.__name__.encode()]})
            for rows in layout.rows(batch, 0):
                producer.send(rows)
            producer.flush()

    with KafkaConsumer(**client_settings.consumer_settings(options)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        assert [r.value for r in read(consumer, 2)] == [
            b"ConfluentProducer",
            b"KafkaPythonProducer",
        ]


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_lets_alice_read_in_a_group_and_commit(
    secure_kafka: KafkaCluster, orders: TopicPartition, group: str, listener: str, mechanism: str
) -> None:
    with through(
        secure_kafka, listener, orders.topic, group_id=group, **login(mechanism)
    ) as consumer:
        assert values(read(consumer, 3)) == numbered(3)
        consumer.commit()

        assert consumer.committed(orders) == 3


#: Names and passwords that a client must escape, and must not change: SASLprep (RFC 4013), which
#: Kafka leaves out, would turn the last ones into others. Kafka takes names in ASCII only.
ODD_USERS: Mapping[str, str] = {
    "a=b,c": "p=2C,q",
    "=2C=3D": "=3D",
    "with space;@/:%": "100 %",
    "umlauts": "p\u00e4ss-\u00df-\u00b5",
    "nfkc": "\ufb01\u2168\u00aa\u00a0-\u00ad",
    "astral": "\U0001f511\U0001f600",
    "long": "\u20ac" * 300,
}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ODD_USERS)
def test_scram_lets_users_in_whose_names_and_passwords_are_odd(
    secure_kafka: KafkaCluster, user: str, mechanism: str
) -> None:
    password = ODD_USERS[user]
    topics.add_scram_user(secure_kafka.bootstrap_servers, mechanism, user, password)
    right = login(mechanism, user, password)
    wrong = login(mechanism, user, password + "x")

    with through(secure_kafka, "SASL_PLAINTEXT", **right) as consumer:
        assert isinstance(consumer.topics(), set)
    with (
        through(secure_kafka, "SASL_PLAINTEXT", **wrong) as consumer,
        pytest.raises(AuthenticationError),
    ):
        consumer.topics()


@pytest.mark.parametrize("mutual", [False, True], ids=["server only", "mutual"])
def test_tls_works_with_and_without_a_certificate_of_ours(
    secure_kafka: KafkaCluster, orders: TopicPartition, group: str, mutual: bool
) -> None:
    files = secure_kafka.certificates
    ours = {"ssl_certfile": str(files.alice_cert_file), "ssl_keyfile": str(files.alice_key_file)}

    with through(
        secure_kafka, "SSL", orders.topic, group_id=group, **(ours if mutual else {})
    ) as consumer:
        assert values(read(consumer, 3)) == numbered(3)


# -- who does not


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told_at_once_with_broker_and_mechanism(
    secure_kafka: KafkaCluster, orders: TopicPartition, group: str, mechanism: str
) -> None:
    door = login(mechanism, "alice", WRONG)

    began = time.monotonic()
    with through(secure_kafka, "SASL_PLAINTEXT", orders.topic, group_id=group, **door) as consumer:
        with pytest.raises(AuthenticationError) as caught:
            consumer.poll(20_000)

        assert time.monotonic() - began < PROMPT_S
        assert caught.value.broker == secure_kafka.address("SASL_PLAINTEXT")
        assert caught.value.mechanism == mechanism
        assert caught.value.broker in str(caught.value)
        assert mechanism in str(caught.value)


CALLS: Mapping[str, Callable[[KafkaConsumer, TopicPartition], Any]] = {
    "topics": lambda consumer, _: consumer.topics(),
    "partitions_for_topic": lambda consumer, one: consumer.partitions_for_topic(one.topic),
    "end_offsets": lambda consumer, one: consumer.end_offsets([one]),
    "offsets_for_times": lambda consumer, one: consumer.offsets_for_times({one: 0}),
    "committed": lambda consumer, one: consumer.committed(one),
    "position": lambda consumer, one: consumer.position(one),
    "commit": lambda consumer, one: consumer.commit(),
    "iteration": lambda consumer, one: next(consumer),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_password_is_told_by_every_call_that_needs_the_broker(
    secure_kafka: KafkaCluster, orders: TopicPartition, group: str, call: str
) -> None:
    door = login("PLAIN", "alice", WRONG)

    with through(secure_kafka, "SASL_PLAINTEXT", group_id=group, **door) as consumer:
        consumer.assign([orders])
        consumer.seek(orders, 0) if call == "commit" else None
        began = time.monotonic()
        with pytest.raises(AuthenticationError):
            CALLS[call](consumer, orders)

        assert time.monotonic() - began < PROMPT_S


def test_a_refused_login_is_tried_again_about_once_a_second_and_told_each_time(
    secure_kafka: KafkaCluster, orders: TopicPartition, group: str
) -> None:
    door = login("SCRAM-SHA-256", "alice", WRONG)

    with (
        traced() as events,
        through(secure_kafka, "SASL_PLAINTEXT", orders.topic, group_id=group, **door) as consumer,
    ):
        told = 0
        deadline = time.monotonic() + 4.5
        while time.monotonic() < deadline:
            try:
                consumer.poll(100)
            except AuthenticationError:
                told += 1

        assert len(named(events, "connection.failed")) <= 6
        while told < 2:  # on a machine that stood still
            error = raised_within(SOON_S, lambda: consumer.poll(100))
            assert isinstance(error, AuthenticationError)
            told += 1
        assert len(named(events, "connection.failed")) >= 2


def test_closing_after_a_refused_login_is_quick(secure_kafka: KafkaCluster, group: str) -> None:
    door = login("PLAIN", "alice", WRONG)
    consumer = through(secure_kafka, "SASL_PLAINTEXT", "orders", group_id=group, **door)
    raised_within(SOON_S, lambda: consumer.poll(500))

    began = time.monotonic()
    consumer.close()

    assert time.monotonic() - began < PROMPT_S


def test_an_unknown_authority_is_an_authentication_error_that_says_certificate(
    secure_kafka: KafkaCluster, orders: TopicPartition, tmp_path: Path
) -> None:
    strangers = make_certificates(tmp_path / "tls")

    began = time.monotonic()
    with through(secure_kafka, "SSL", orders.topic, ssl_cafile=str(strangers.ca_file)) as consumer:
        with pytest.raises(AuthenticationError, match="certificate") as caught:
            consumer.poll(20_000)

        assert time.monotonic() - began < PROMPT_S
        assert caught.value.mechanism == "SSL"
        assert caught.value.broker == secure_kafka.address("SSL")


def test_a_certificate_for_another_host_name_is_refused_unless_told_not_to_look(
    secure_kafka: KafkaCluster, orders: TopicPartition
) -> None:
    # The certificate is for localhost and 127.0.0.1; 127.0.0.2 is the same machine.
    elsewhere = secure_kafka.address("SSL").replace("127.0.0.1", "127.0.0.2")
    port = int(elsewhere.split(":")[1])
    with _forwarded("127.0.0.2", port, "127.0.0.1", port):
        with (
            through(secure_kafka, "SSL", orders.topic, bootstrap_servers=[elsewhere]) as consumer,
            pytest.raises(AuthenticationError, match=r"127\.0\.0\.2"),
        ):
            consumer.poll(20_000)
        with through(
            secure_kafka,
            "SSL",
            orders.topic,
            bootstrap_servers=[elsewhere],
            ssl_check_hostname=False,
        ) as consumer:
            assert len(read(consumer, 3)) == 3


@contextmanager
def _forwarded(host: str, port: int, to_host: str, to_port: int) -> Iterator[None]:
    """Pass bytes on from one address to another."""
    import socket
    import threading

    server = socket.create_server((host, port))

    def pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            sink.close()

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            broker = socket.create_connection((to_host, to_port))
            for pair in ((client, broker), (broker, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        server.close()


def test_tls_against_a_plaintext_port_is_told_soon_with_the_remedy(
    secure_kafka: KafkaCluster,
) -> None:
    began = time.monotonic()
    with through(
        secure_kafka, "SSL", "orders", bootstrap_servers=secure_kafka.bootstrap_servers
    ) as consumer:
        with pytest.raises((AuthenticationError, BootstrapError)) as caught:
            consumer.poll(20_000)

        assert time.monotonic() - began < TOLD_S
        assert secure_kafka.bootstrap_servers[0] in str(caught.value)


def test_plaintext_against_a_tls_port_is_told_soon_with_the_remedy(
    secure_kafka: KafkaCluster,
) -> None:
    address = secure_kafka.address("SSL")

    began = time.monotonic()
    settings = {**QUICK, "bootstrap_servers": address, "bootstrap_timeout_ms": 0}
    with KafkaConsumer("orders", **settings) as consumer:
        with pytest.raises(BootstrapError, match="security_protocol") as caught:
            consumer.poll(20_000)

        assert time.monotonic() - began < TOLD_S
        assert address in str(caught.value)


def test_plaintext_against_a_port_that_wants_a_login_is_told_soon_with_the_remedy(
    secure_kafka: KafkaCluster,
) -> None:
    address = secure_kafka.address("SASL_PLAINTEXT")

    began = time.monotonic()
    settings = {**QUICK, "bootstrap_servers": address, "bootstrap_timeout_ms": 0}
    with KafkaConsumer("orders", **settings) as consumer:
        with pytest.raises(BootstrapError, match="security_protocol"):
            consumer.poll(20_000)

        assert time.monotonic() - began < TOLD_S


@pytest.mark.parametrize(
    ("listener", "speaks", "error", "remedy"),
    [
        ("SSL", "PLAINTEXT", BootstrapError, "seems to expect TLS.* Check .*security_protocol"),
        ("PLAINTEXT", "SSL", BootstrapError, "seems not to use TLS.* Check .*security_protocol"),
        ("SSL", "SSL", AuthenticationError, "certificate was refused.* Check .*certificate"),
    ],
    ids=["plaintext to TLS", "TLS to plaintext", "an unknown authority"],
)
def test_a_constructor_says_what_is_wrong_with_tls_and_what_to_look_at(
    secure_kafka: KafkaCluster,
    tmp_path: Path,
    listener: str,
    speaks: str,
    error: type[Exception],
    remedy: str,
) -> None:
    address = secure_kafka.bootstrap_servers[0]
    if listener == "SSL":
        address = secure_kafka.address("SSL")
    strangers = make_certificates(tmp_path / "tls")

    with pytest.raises(error, match=remedy) as caught:
        KafkaConsumer(
            "orders",
            bootstrap_servers=address,
            bootstrap_timeout_ms=3000,
            security_protocol=speaks,
            ssl_cafile=str(strangers.ca_file),
        )

    assert address in str(caught.value)


def test_a_mechanism_that_the_broker_does_not_offer_is_told_by_name() -> None:
    with (
        KafkaCluster(
            security=True,
            settings={"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-256"},
        ) as kafka,
        through(kafka, "SASL_PLAINTEXT", "orders", **login("PLAIN")) as consumer,
        # A broker that has just started takes its time for its first login; a poll that gives up
        # ends without an error.
        pytest.raises(AuthenticationError, match="PLAIN"),
    ):
        consumer.poll(20_000)


# -- who may do what


def wait_until_buffered(consumer: KafkaConsumer, partition: TopicPartition) -> None:
    """Wait until no more of it comes: it is buffered to its end."""
    sizes = [0]

    def is_buffered() -> bool:
        sizes.append(consumer.status().partitions[partition].buffered_bytes)
        return sizes[-1] == sizes[-2] > 0

    wait_until(is_buffered, f"{partition} is buffered")


def test_an_unauthorised_topic_is_an_error_that_names_it_until_it_is_granted(
    secure_kafka: KafkaCluster, orders: TopicPartition, group: str
) -> None:
    with allowed(secure_kafka, ResourceType.GROUP, group, ACLOperation.READ):
        consumer = through(
            secure_kafka, "SASL_PLAINTEXT", orders.topic, group_id=group, **login("PLAIN", "bob")
        )
    with consumer:
        began = time.monotonic()
        with pytest.raises(TopicAuthorizationFailedError, match=orders.topic):
            consumer.poll(20_000)
        with pytest.raises(TopicAuthorizationFailedError, match=orders.topic):
            consumer.end_offsets([orders])
        assert time.monotonic() - began < PROMPT_S

        with allowed(secure_kafka, ResourceType.TOPIC, orders.topic, ACLOperation.READ):
            found, told = read_through(consumer, 3, TopicAuthorizationFailedError)
            assert all(orders.topic in str(error) for error in told)
            assert values(found) == numbered(3)


def test_a_topic_that_may_be_described_but_not_read_is_refused_by_the_fetch(
    secure_kafka: KafkaCluster, orders: TopicPartition
) -> None:
    with (
        allowed(secure_kafka, ResourceType.TOPIC, orders.topic, ACLOperation.DESCRIBE),
        through(secure_kafka, "SASL_PLAINTEXT", **login("PLAIN", "bob")) as consumer,
    ):
        consumer.assign([orders])
        error = raised_within(SOON_S, lambda: consumer.poll(500))
        assert isinstance(error, TopicAuthorizationFailedError)
        assert orders.topic in str(error)

        with allowed(secure_kafka, ResourceType.TOPIC, orders.topic, ACLOperation.READ):
            found, told = read_through(consumer, 3, TopicAuthorizationFailedError)
            assert all(orders.topic in str(error) for error in told)
            assert values(found) == numbered(3)


def test_a_right_that_is_missing_is_told_beside_a_busy_topic_and_read_on_when_it_is_given(
    secure_kafka: KafkaCluster, orders: TopicPartition, topic: str
) -> None:
    """The busy topic is buffered to its end: the error must not wait until that is given out."""
    count = 20_000
    busy = TopicPartition(f"{topic}-busy", 0)
    topics.create_topic(secure_kafka.bootstrap_servers, busy.topic)
    topics.produce(secure_kafka.bootstrap_servers, busy.topic, numbered(count))
    with (
        traced() as events,
        allowed(secure_kafka, ResourceType.TOPIC, busy.topic, ACLOperation.READ),
        allowed(secure_kafka, ResourceType.TOPIC, orders.topic, ACLOperation.DESCRIBE),
        through(
            secure_kafka, "SASL_PLAINTEXT", max_poll_records=1, **login("PLAIN", "bob")
        ) as consumer,
    ):
        consumer.assign([busy])
        found = read(consumer, 1)
        wait_until_buffered(consumer, busy)
        consumer.assign([busy, orders])
        found += poll(consumer)  # what is assigned is fetched from the next poll on
        wait_until(lambda: named(events, "fetch.refused"), "the fetch is refused")
        told: list[Exception] = []
        while not told:
            more, told = read_through(consumer, 100, TopicAuthorizationFailedError)
            found += more
        assert orders.topic in str(told[0])
        assert len(found) < count, "the busy topic was read to its end first"

        with allowed(secure_kafka, ResourceType.TOPIC, orders.topic, ACLOperation.READ):
            read_on: list[Any] = []
            while len(read_on) < 3:
                more, _ = read_through(consumer, 1, TopicAuthorizationFailedError)
                read_on += [one for one in more if one.topic == orders.topic]
            assert values(read_on) == numbered(3)


def test_a_right_that_is_withdrawn_under_a_backlog_is_told_and_read_on_when_it_is_back(
    secure_kafka: KafkaCluster, orders: TopicPartition, topic: str
) -> None:
    """Beside a busy topic, buffered to its end: there are records of it in every poll."""
    servers, count, late = secure_kafka.bootstrap_servers, 20_000, 100
    busy = TopicPartition(f"{topic}-busy", 0)
    topics.create_topic(servers, busy.topic)
    topics.produce(servers, busy.topic, numbered(count))
    right = bobs(ResourceType.TOPIC, orders.topic, ACLOperation.READ)
    topics.grant(servers, [right])
    with (
        traced() as events,
        allowed(secure_kafka, ResourceType.TOPIC, busy.topic, ACLOperation.READ),
        allowed(secure_kafka, ResourceType.TOPIC, orders.topic, ACLOperation.DESCRIBE),
        through(
            secure_kafka, "SASL_PLAINTEXT", max_poll_records=1, **login("PLAIN", "bob")
        ) as consumer,
    ):
        consumer.assign([orders])
        read(consumer, 3)
        consumer.assign([orders, busy])
        # More than the first batch, which may be a Fetch answer by itself: only a poll takes over
        # what comes after it, and only then it counts as buffered.
        found = read(consumer, 100)
        wait_until_buffered(consumer, busy)

        topics.withdraw(servers, [right])
        topics.produce(servers, orders.topic, numbered(late, start=3))
        wait_until(lambda: named(events, "fetch.refused"), "the fetch is refused")
        told: list[Exception] = []
        while not told:
            more, told = read_through(consumer, 100, TopicAuthorizationFailedError)
            found += more
        assert orders.topic in str(told[0])

        topics.grant(servers, [right])
        while len(back := [one for one in found if one.topic == orders.topic]) < late:
            more, _ = read_through(consumer, 100, TopicAuthorizationFailedError)
            found += more
            # Until the refused fetch is sent again, a quick application could read all of `busy`.
            time.sleep(0.1)
        assert values(back) == numbered(late, start=3)
        assert len(found) < count, "the busy topic was read to its end first"


def test_an_unauthorised_group_is_an_error_that_names_it_until_it_is_granted(
    secure_kafka: KafkaCluster, orders: TopicPartition, group: str
) -> None:
    with (
        allowed(secure_kafka, ResourceType.TOPIC, orders.topic, ACLOperation.READ),
        through(
            secure_kafka, "SASL_PLAINTEXT", orders.topic, group_id=group, **login("PLAIN", "bob")
        ) as consumer,
    ):
        began = time.monotonic()
        error = raised_within(SOON_S, lambda: consumer.poll(20_000))
        assert isinstance(error, GroupAuthorizationFailedError)
        assert group in str(error)
        assert time.monotonic() - began < PROMPT_S
        with pytest.raises(GroupAuthorizationFailedError, match=group):
            consumer.committed(orders)

        with allowed(secure_kafka, ResourceType.GROUP, group, ACLOperation.READ):
            found, told = read_through(consumer, 3, GroupAuthorizationFailedError)
            assert all(group in str(error) for error in told)
            assert values(found) == numbered(3)


# -- secrets


SECRET = "s3cr3t-that-nobody-may-see"


@pytest.fixture
def watched(
    secure_kafka: KafkaCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> Callable[..., tuple[KafkaConsumer, Callable[[], str]]]:
    """Make a consumer with the trace in a file and all logs at DEBUG; and all that they said."""
    path = tmp_path / "trace.jsonl"
    monkeypatch.setenv("AKTOR_TRACE", str(path))
    caplog.set_level(logging.DEBUG)

    def make(**settings: Any) -> tuple[KafkaConsumer, Callable[[], str]]:
        consumer = through(secure_kafka, "SASL_PLAINTEXT", "orders", group_id="g", **settings)

        def said() -> str:
            trace_file(str(path)).flush()
            assert json.loads(path.read_text().splitlines()[0])["event"]
            logs = "\n".join(f"{one.getMessage()} {one.__dict__}" for one in caplog.records)
            return path.read_text() + logs

        return consumer, said

    return make


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_a_password_is_nowhere_to_be_seen(
    watched: Callable[..., tuple[KafkaConsumer, Callable[[], str]]], mechanism: str, right: bool
) -> None:
    password = USERS["alice"] if right else SECRET
    consumer, said = watched(**login(mechanism, "alice", password))
    shown = []
    with consumer:
        try:
            consumer.poll(700)
        except AuthenticationError as error:
            shown += [str(error), repr(error), "".join(traceback.format_exception(error))]
            shown += [repr(pickle.loads(pickle.dumps(error))), repr(vars(error))]
        shown += [repr(consumer), str(consumer.status()), repr(consumer.status())]
        shown += [
            repr(consumer.config),
            str(consumer.config),
            json.dumps(consumer.config, default=str),
        ]
        shown += [f"{consumer.config['sasl_plain_password']}", repr(consumer.metrics())]
    shown += [said(), repr(consumer.config)]

    assert not [text for text in shown if password in text]
    try:
        pickled = pickle.dumps(consumer.config)
    except Exception:
        pickled = b""
    assert password.encode() not in pickled


def test_an_oauth_token_is_nowhere_to_be_seen(
    watched: Callable[..., tuple[KafkaConsumer, Callable[[], str]]],
) -> None:
    tokens = []

    class Provider(UnsecuredToken):
        def token(self) -> str:
            tokens.append(super().token())
            return tokens[-1]

    consumer, said = watched(
        sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Provider("alice")
    )
    with consumer:
        poll_until(consumer, lambda: tokens, "it has logged in")
        consumer.poll(300)
        shown = [repr(consumer), repr(consumer.status()), repr(consumer.config)]
    shown.append(said())

    assert not [text for text in shown for token in tokens if token in text]


def test_a_client_key_and_its_password_are_nowhere_to_be_seen(
    secure_kafka: KafkaCluster, caplog: pytest.LogCaptureFixture, orders: TopicPartition
) -> None:
    caplog.set_level(logging.DEBUG)
    files = secure_kafka.certificates

    with through(
        secure_kafka,
        "SSL",
        orders.topic,
        ssl_certfile=str(files.alice_cert_file),
        ssl_keyfile=str(files.alice_key_file),
        ssl_password=SECRET,
    ) as consumer:
        assert len(read(consumer, 3)) == 3
        shown = repr(consumer.config) + repr(consumer.status()) + caplog.text

    assert SECRET not in shown
