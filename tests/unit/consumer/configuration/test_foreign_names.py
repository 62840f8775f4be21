"""A setting's name from another client is refused with the name that it has here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aktor.consumer.configuration import foreign_names
from aktor.consumer.configuration.configuration import parse
from aktor.consumer.configuration.table import SETTINGS
from aktor.errors import ConfigurationError

DOCS = Path(__file__).parents[4] / "docs"


def side_by_side(page: str, head: str, column: int) -> list[tuple[str, str]]:
    """The other client's names that we do not have, and ours (in this column of the table), as the
    page has them."""
    table = (DOCS / page).read_text().partition(head)[2]
    pairs = []
    for row in table.splitlines():
        if row.startswith("| `"):
            theirs, ours = (re.findall("`([a-z._]+)", row.split("|")[at]) for at in (1, column))
            pairs += [*zip((one.replace(".", "_") for one in theirs), ours, strict=False)]
    return [(one, other) for one, other in pairs if one not in SETTINGS and other in SETTINGS]


LIBRDKAFKA = side_by_side("coming-from-confluent.md", "| librdkafka |", 3)
AIOKAFKA = side_by_side("coming-from-aiokafka.md", "| aiokafka | aktor |\n|---|---|\n| `loop`", 2)


def test_the_pages_have_names_of_other_clients() -> None:
    assert len(LIBRDKAFKA) > 10
    assert AIOKAFKA == [("rebalance_timeout_ms", "max_poll_interval_ms")]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(one, ours) for one, ours in [*LIBRDKAFKA, *AIOKAFKA] if foreign_names.advice(one) is None],
)
def test_a_name_of_another_client_leads_to_ours(theirs: str, ours: str) -> None:
    with pytest.raises(ConfigurationError, match=f"did you mean '{ours}'"):
        parse({theirs: "1"})


#: The names of Java's client (4.0) and of librdkafka (2.13) that a consumer takes, and that are not
#: spelt as here.
OF_JAVA = """
default.list.key.serde.inner default.list.key.serde.type default.list.value.serde.inner
default.list.value.serde.type enable.metrics.push interceptor.classes
internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported
metadata.recovery.strategy metrics.recording.level rebalance.timeout.ms
sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url security.providers socket.connection.setup.timeout.max.ms
ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password ssl.truststore.type
"""
OF_LIBRDKAFKA = """
api.version.fallback.ms api.version.request api.version.request.timeout.ms auto.commit.enable
background_event_cb broker.address.family broker.address.ttl broker.version.fallback
builtin.features closesocket_cb connect_cb consume.callback.max.messages consume_cb
coordinator.query.interval.ms debug default_topic_conf enable.auto.offset.store
enable.partition.eof enable.random.seed enable.sasl.oauthbearer.unsecure.jwt
enable.ssl.certificate.verification enabled_events error_cb fetch.error.backoff.ms
fetch.message.max.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.protocol.type
https.ca.location https.ca.pem interceptors internal.termination.signal log_cb
log.connection.close log_level log.queue log.thread.name max.in.flight message.copy.max.bytes
message.max.bytes metadata.broker.list metadata.recovery.rebootstrap.trigger.ms
oauthbearer_token_refresh_cb offset_commit_cb offset.store.method offset.store.path
offset.store.sync.interval.ms opaque open_cb plugin.library.paths queued.max.messages.kbytes
queued.min.messages rebalance_cb reconnect.backoff.jitter.ms resolve_cb sasl.kerberos.keytab
sasl.kerberos.principal sasl.mechanisms sasl.oauthbearer.assertion.algorithm
sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.id
sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
sasl.oauthbearer.grant.type sasl.oauthbearer.metadata.authentication.type
sasl.oauthbearer.method sasl.oauthbearer.scope sasl.password sasl.username
share.acknowledgement.mode socket.blocking.max.ms socket_cb socket.keepalive.enable
socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes
socket.timeout.ms ssl_ca ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem ssl_certificate
ssl.certificate.location ssl.certificate.pem ssl.certificate.verify_cb ssl.crl.location
ssl.curves.list ssl_engine_callback_data ssl.engine.id ssl.engine.location ssl_key
ssl.key.location ssl.key.pem ssl.providers ssl.sigalgs.list statistics.interval.ms stats_cb
throttle_cb topic.blacklist topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
topic.metadata.refresh.sparse
"""
#: Of kafka-python's older consumers, of its producer, and what confluent-kafka takes in Python.
OF_OTHERS = """
api_version_auto_timeout_ms sock_chunk_bytes sock_chunk_buffer_count legacy_iterator acks linger_ms
batch_size compression_type retries transactional_id enable_idempotence oauth_cb on_commit logger
loop default.topic.config
"""
ALL = [*OF_JAVA.split(), *OF_LIBRDKAFKA.split(), *OF_OTHERS.split()]


@pytest.mark.few_cases
@pytest.mark.parametrize("name", ALL)
def test_each_name_of_another_client_is_told_by_the_table_and_not_by_a_guess(name: str) -> None:
    plain = name.replace(".", "_")
    ours, advice = foreign_names.SAME.get(plain), foreign_names.advice(plain)

    expected = f"did you mean {ours!r}?" if ours else advice
    assert expected is not None
    with pytest.raises(ConfigurationError) as refusal:
        parse({name: "hunter2"})
    assert f"unknown setting {name!r} ({expected})" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fetch.error.backoff.ms", "did you mean 'retry_backoff_ms'"),  # a delay after an error
        ("queued.max.messages.kbytes", "max_buffered_bytes, in bytes"),  # there in kilobytes
        ("on_commit", "default_offset_commit_callback is called with (offsets, error)"),
        ("oauth_cb", "give a sasl_oauth_token_provider"),  # an object, there a function
        ("throttle_cb", "metrics() and status() say it"),
        ("metadata.recovery.strategy", "asks the bootstrap servers again"),
    ],
)
def test_what_is_said_of_a_name_is_what_the_setting_does(name: str, said: str) -> None:
    """Not only a name that sounds alike: with another unit or shape the value would be wrong."""
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        parse({name: "1"})


def test_what_is_said_of_other_clients_names_only_settings_and_methods_that_are_here() -> None:
    texts = [text for one in ALL if (text := foreign_names.advice(one.replace(".", "_")))]
    words = {word for text in texts for word in re.findall(r"\b[a-z]+_[a-z_]+", text)}

    assert {ours for ours in foreign_names.SAME.values() if ours not in SETTINGS} == set()
    assert {
        one for one in SETTINGS if one in foreign_names.SAME or foreign_names.advice(one)
    } == set()
    assert words - SETTINGS.keys() == {"end_offsets"}
