"""Logging in at an embedded Kafka is as at a real one, for which `test_security` has the rest."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from aktor import KafkaConsumer, TopicPartition, WaitingFor
from aktor.broker.embedded import EmbeddedKafka
from aktor.errors import AuthenticationError, BootstrapError
from tests.kafka.real import topics
from tests.kafka.real.security import USERS, UnsecuredToken
from tests.kafka.support import PROMPT_S, QUICK, numbered, read, values, wait_until
from tests.unit.leftovers import open_things

pytestmark = pytest.mark.embedded("test_security asks the same of a real one")

MECHANISMS = pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])


def login(mechanism: str, password: str = USERS["alice"]) -> dict[str, Any]:
    """Settings to log in as alice."""
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


@pytest.fixture(scope="module")
def locked() -> Iterator[EmbeddedKafka]:
    """A broker that wants to know who it is."""
    with EmbeddedKafka(users=USERS) as kafka:
        yield kafka


@pytest.fixture
def orders(locked: EmbeddedKafka, topic: str) -> TopicPartition:
    """The only partition of a topic with three records."""
    locked.create_topic(topic)
    with topics.producer([locked.bootstrap_servers], **login("SCRAM-SHA-256")) as producer:
        for value in numbered(3):
            producer.send(topic, value)
    return TopicPartition(topic, 0)


def consumer_of(kafka: EmbeddedKafka, *names: str, **settings: Any) -> KafkaConsumer:
    """Its constructor does not wait for a broker, unless told: the calls after it are looked at."""
    usual = {"bootstrap_servers": kafka.bootstrap_servers, "bootstrap_timeout_ms": 0, **QUICK}
    return KafkaConsumer(*names, **{**usual, **settings})


@MECHANISMS
def test_who_has_the_password_reads_in_a_group_and_commits(
    locked: EmbeddedKafka, orders: TopicPartition, group: str, mechanism: str
) -> None:
    with consumer_of(locked, orders.topic, group_id=group, **login(mechanism)) as consumer:
        assert values(read(consumer, 3)) == numbered(3)
        consumer.commit()

        assert consumer.committed(orders) == 3


@MECHANISMS
def test_a_wrong_password_is_told_at_once_with_broker_and_mechanism(
    locked: EmbeddedKafka, group: str, mechanism: str
) -> None:
    door = login(mechanism, "not-the-password-5c1")

    began = time.monotonic()
    with consumer_of(locked, "orders", group_id=group, **door) as consumer:
        with pytest.raises(AuthenticationError) as caught:
            consumer.poll(20_000)

        assert time.monotonic() - began < PROMPT_S
        assert caught.value.broker == locked.bootstrap_servers
        assert caught.value.mechanism == mechanism


#: What is said of a wrong password, by the mechanism.
WHY = {
    "PLAIN": "Authentication failed: Invalid username or password",
    "SCRAM-SHA-256": "Authentication failed during authentication due to invalid credentials with"
    " SASL mechanism SCRAM-SHA-256",
    "SCRAM-SHA-512": "Authentication failed during authentication due to invalid credentials with"
    " SASL mechanism SCRAM-SHA-512",
}


@MECHANISMS
def test_why_names_the_broker_that_refuses_the_password_and_nobody_else(
    locked: EmbeddedKafka, group: str, mechanism: str
) -> None:
    door = login(mechanism, "not-the-password-5c1")

    with consumer_of(locked, "orders", group_id=group, **door) as consumer:
        with pytest.raises(AuthenticationError):
            consumer.poll(20_000)
        status = consumer.status()

    assert re.fullmatch(refusal_of(locked, mechanism), status.why)
    assert status.waiting_for is WaitingFor.REFUSED


@MECHANISMS
def test_a_password_that_is_changed_while_one_reads_is_named_when_connections_end(
    group: str, topic: str, mechanism: str
) -> None:
    with EmbeddedKafka(users=USERS, topics={topic: 1}) as kafka:
        consumer = consumer_of(kafka, topic, group_id=group, **login(mechanism))
        with consumer:
            with topics.producer([kafka.bootstrap_servers], **login(mechanism)) as producer:
                producer.send(topic, b"0")
            assert values(read(consumer, 1)) == [b"0"]

            kafka.set_password("alice", "another-9f2")
            consumer.poll(300)
            assert consumer.status().state == "running", "who is logged in stays so"
            kafka.disconnect()
            with pytest.raises(AuthenticationError):
                consumer.poll(20_000)
            status = consumer.status()

            assert re.fullmatch(refusal_of(kafka, mechanism), status.why)
            assert {one.waiting_for for one in status.partitions.values()} == {WaitingFor.REFUSED}

            kafka.set_password("alice", USERS["alice"])
            wait_until(lambda: runs_again(consumer), "it logs in again")


def runs_again(consumer: KafkaConsumer) -> bool:
    with contextlib.suppress(AuthenticationError):  # of an attempt before
        consumer.poll(300)
    return consumer.status().state == "running"


def refusal_of(kafka: EmbeddedKafka, mechanism: str) -> str:
    """The sentence, as a pattern: its times are not told, and a broker may have its number yet."""
    return (
        rf"Nothing is delivered: (broker 1, )?{re.escape(kafka.bootstrap_servers)} has refused our"
        rf" login( for \d+\.\d s)? \(.*{re.escape(WHY[mechanism])}.*\)\."
        r"( The next attempt is (made in \d+\.\d s|under way|due)\.)?"
        r" (Not your code: the last poll was \d+\.\d s ago\.)"
    )


def test_a_mechanism_that_the_broker_does_not_offer_is_told_by_name(locked: EmbeddedKafka) -> None:
    door = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": UnsecuredToken("alice"),
    }

    with (
        consumer_of(locked, "orders", **door) as consumer,
        pytest.raises(AuthenticationError, match="OAUTHBEARER"),
    ):
        consumer.poll(20_000)


def test_who_does_not_log_in_is_told_soon_with_the_remedy(locked: EmbeddedKafka) -> None:
    began = time.monotonic()
    with consumer_of(locked, "orders") as consumer:
        with pytest.raises(BootstrapError, match="security_protocol"):
            consumer.poll(20_000)

        assert time.monotonic() - began < 10


# -- the constructor that waits for a broker


@MECHANISMS
def test_a_wrong_password_ends_the_constructor_at_once(
    locked: EmbeddedKafka, mechanism: str
) -> None:
    before, began = open_things(), time.monotonic()

    with pytest.raises(AuthenticationError, match="Check the credentials") as caught:
        consumer_of(locked, "orders", bootstrap_timeout_ms=60_000, **login(mechanism, "wrong-5c1"))

    assert time.monotonic() - began < PROMPT_S
    assert caught.value.mechanism == mechanism
    assert "wrong-5c1" not in str(caught.value) + repr(caught.value)
    # (The thread of a look-up, or of a password's hash, may need a moment to end.)
    wait_until(lambda: open_things() <= before, "it leaves nothing behind")


def test_a_listener_that_wants_a_login_ends_the_constructor_in_time_with_the_remedy(
    locked: EmbeddedKafka,
) -> None:
    began = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match=r"expect a login.*Check .*security_protocol"):
        consumer_of(locked, "orders", bootstrap_timeout_ms=1000)

    assert 1.0 <= time.monotonic() - began < PROMPT_S
