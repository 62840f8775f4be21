"""The options `kafka.*`, by the Java client's names, as settings of our consumer."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aktor.consumer.configuration import configuration
from aktor.errors import ConfigurationError
from aktor.spark.options import client_settings, producer_settings
from aktor.spark.options.client_settings import (
    check,
    check_names,
    consumer_settings,
    resolved,
    warn_of_ignored,
)

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="alice" password="a\\"b;c";'
)


def test_names_of_java_and_values_of_text_become_our_settings() -> None:
    found = consumer_settings(
        {
            "bootstrap.servers": "a:1,b:2",
            "fetch.min.bytes": "1024",
            "check.crcs": "false",
            "isolation.level": "read_committed",
            "client.rack": "eu-1a",
        }
    )

    assert found == {
        "bootstrap_servers": "a:1,b:2",
        "fetch_min_bytes": 1024,
        "check_crcs": False,
        "isolation_level": "read_committed",
        "client_rack": "eu-1a",
    }


@pytest.mark.parametrize("text", ["a:1,b:2,", "a:1, ,b:2", ",a:1,,b:2 "])
def test_empty_items_of_the_bootstrap_servers_are_left_out_as_by_java(text: str) -> None:
    """ClientUtils.parseAndValidateAddresses of the client that Spark's own source has (3.9)."""
    given = {"bootstrap.servers": text}

    check(given)
    producer_settings.check(given, transactional=False)
    assert consumer_settings(given) == {"bootstrap_servers": "a:1,b:2"}
    settings = producer_settings.read(given, transactional=False)
    assert settings.given["bootstrap_servers"] == "a:1,b:2"


@pytest.mark.parametrize("text", ["", " , ", ","])
def test_bootstrap_servers_of_empty_items_only_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers"):
        check({"bootstrap.servers": text})
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers"):
        producer_settings.check({"bootstrap.servers": text}, transactional=False)


def test_the_security_protocol_may_be_in_small_letters_as_for_java() -> None:
    """CommonClientConfigs checks it by CaseInsensitiveValidString."""
    given = {"bootstrap.servers": "a:1", "security.protocol": "ssl"}

    check(given)
    producer_settings.check(given, transactional=False)
    assert consumer_settings(given)["security_protocol"] == "SSL"
    with pytest.raises(ConfigurationError, match=r"kafka\.security\.protocol is 'TSL'"):
        check(given | {"security.protocol": "tsl"})


def test_a_jaas_line_has_the_user_and_the_password() -> None:
    assert consumer_settings({"sasl.jaas.config": JAAS}) == {
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'a"b;c',
    }


OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
}


@pytest.mark.parametrize(
    ("given", "way"),
    [
        ({"sasl.jaas.config": "a.b.Krb5LoginModule required keyTab='/k';"}, "KRB5_CLIENT_KTNAME"),
        ({"sasl.jaas.config": "a.b.IAMLoginModule required;"}, "sasl.mechanism=AWS_MSK_IAM"),
        (OAUTH | {"sasl.jaas.config": "a.OAuthBearerLoginModule required;"}, "client credentials"),
        (OAUTH | {"sasl.jaas.config": "OAuthBearerLoginModule required sub='canary';"}, "has sub"),
        ({"sasl.client.callback.handler.class": "a.b.IAMClientCallback"}, "AWS_MSK_IAM"),
        (
            {"sasl.login.callback.handler.class": "a.IAMOAuthBearerLoginCallback"},
            "class of AWS MSK",
        ),
        (
            OAUTH | {"sasl.jaas.config": "OAuthBearerLoginModule required awsRoleArn='canary';"},
            "AWS_P",
        ),
        ({"sasl.jaas.config": f"{JAAS.rstrip(';')} tokenauth=true;"}, "own source"),
        ({"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_SSL"}, "token.endpoint.url"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://a"}, "sasl.mechanism=OAUTHBEARER"),
        ({"sasl.oauthbearer.assertion.file": "/canary"}, "clientSecret="),
        ({"sasl.login.callback.handler.class": "a.b.Mine"}, "client credentials"),
        ({"sasl.oauthbearer.jwt.retriever.class": "a.JwtBearerJwtRetriever"}, "token.endpoint.url"),
        ({"sasl.oauthbearer.method": "default"}, "token.endpoint.url"),
    ],
)
def test_a_login_of_javas_that_is_refused_names_the_way_that_there_is(
    given: dict[str, str], way: str
) -> None:
    with pytest.raises(ConfigurationError, match=way) as refused:
        check({"bootstrap.servers": "a:1"} | given)

    assert "canary" not in str(refused.value)


def test_a_jaas_line_without_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="must have username and password") as error:
        consumer_settings({"sasl.jaas.config": "X required username='canary';"})

    assert "canary" not in str(error.value)


def test_stores_are_pem_files() -> None:
    found = consumer_settings(
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca.pem",
            "ssl.keystore.location": "/me.pem",
            "ssl.key.password": "p",
            "ssl.endpoint.identification.algorithm": "",
        }
    )

    assert found == {
        "ssl_cafile": "/ca.pem",
        "ssl_certfile": "/me.pem",
        "ssl_keyfile": "/me.pem",
        "ssl_password": "p",
        "ssl_check_hostname": False,
    }
    with pytest.raises(ConfigurationError, match="must be PEM"):
        consumer_settings({"ssl.truststore.type": "JKS"})


@pytest.mark.parametrize(
    "name",
    [
        *("ssl.protocol", "metric.reporters", "auto.include.jmx.reporter", "enable.metrics.push"),
        *("metrics.recording.level", "metrics.context.cluster", "partition.assignment.strategy"),
        *("group.instance.id", "sasl.login.refresh.window.factor", "sasl.kerberos.kinit.cmd"),
    ],
)
def test_what_only_the_java_client_has_is_passed_over(name: str) -> None:
    assert consumer_settings({name: "x"}) == {}


def test_tls_is_as_in_java_by_default() -> None:
    assert consumer_settings({"ssl.enabled.protocols": "TLSv1.2,TLSv1.3"}) == {}


#: Names of Kafka 3.9.2 and 4.3.1 (`ConsumerConfig.configNames()`, and ProducerConfig's).
OF_BOTH = """
auto.include.jmx.reporter bootstrap.servers client.dns.lookup client.id config.providers
connections.max.idle.ms enable.metrics.push interceptor.classes metadata.max.age.ms
metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes
reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms
retry.backoff.ms sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
sasl.mechanism sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.token.endpoint.url
security.protocol security.providers send.buffer.bytes socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms ssl.cipher.suites ssl.enabled.protocols
ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password ssl.truststore.type
"""
OF_CONSUMERS = """
allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack
default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor
heartbeat.interval.ms internal.leave.group.on.close
internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer
max.partition.fetch.bytes max.poll.interval.ms max.poll.records partition.assignment.strategy
session.timeout.ms share.acknowledgement.mode share.acquire.mode value.deserializer
"""
OF_PRODUCERS = """
acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
compression.zstd.level delivery.timeout.ms enable.idempotence key.serializer linger.ms max.block.ms
max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
partitioner.ignore.keys retries transaction.timeout.ms transaction.two.phase.commit.enable
transactional.id value.serializer
"""


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (OF_BOTH + OF_CONSUMERS, configuration.DEFAULT_CONFIG),
        (OF_BOTH + OF_PRODUCERS, producer_settings._KNOWN),
    ],
)
def test_no_setting_of_javas_client_is_unknown(names: str, known: Mapping[str, Any]) -> None:
    for name in names.split():
        with contextlib.suppress(_NotSupported):
            check_name(name, known)


class _NotSupported(Exception):
    """The setting is known, and refused."""


def check_name(name: str, known: Mapping[str, Any]) -> None:
    """Raises ConfigurationError for an unknown name."""
    try:
        check_names({name: "x", "bootstrap.servers": "a:1"}, known)
    except ConfigurationError as error:
        if f"kafka.{name} is not supported: " in str(error):
            raise _NotSupported from None
        raise


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("group_id", "group.id"),
        ("bootstrap_servers", "bootstrap.servers"),
        ("auto_offset_reset", "auto.offset.reset"),
        ("sasl_plain_password", "sasl.plain.password"),
    ],
)
def test_a_name_with_underscores_is_unknown_and_the_one_with_dots_is_named(
    name: str, meant: str
) -> None:
    """Taken for a setting, it would pass by all that is looked up by the name with dots: what is
    refused, and which group is meant."""
    with pytest.raises(ConfigurationError, match=rf"did you mean kafka\.{re.escape(meant)}\?"):
        check({"bootstrap.servers": "a:1", name: "b:1"})
    with pytest.raises(ConfigurationError, match=r"unknown option kafka\.linger_ms"):
        producer_settings.check({"bootstrap.servers": "a:1", "linger_ms": "1"}, transactional=False)


def test_what_is_ignored_is_named_in_one_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_settings, "_WARNED", set())
    given = {"bootstrap.servers": "a:1", "ssl.protocol": "secret?", "metric.reporters": "x"}
    ours = {"metrics.num.samples": "3", "ssl.enabled.protocols": "TLSv1.2"}

    warn_of_ignored({"bootstrap.servers": "a:1"} | ours, configuration.DEFAULT_CONFIG)
    assert not caplog.records
    for _ in range(2):
        warn_of_ignored(given | ours, configuration.DEFAULT_CONFIG)

    assert [one.message for one in caplog.records] == [
        "kafka.metric.reporters, kafka.ssl.protocol: of Java's client, without effect here"
    ]


def test_a_reference_is_resolved_where_the_client_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets").write_text("# our secrets\npassword = s3cret\n")
    (tmp_path / "user").write_text("alice\n")
    monkeypatch.setenv("RACK", "eu-1b")

    assert resolved("client.rack", "${env:RACK}") == "eu-1b"
    assert resolved("sasl.password", f"${{file:{tmp_path}/secrets:password}}") == "s3cret"
    assert resolved("sasl.username", f"x-${{directory:{tmp_path}:user}}") == "x-alice"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("password=a=b:c", "a=b:c"),
        ("  password : s3cret", "s3cret"),
        ("password s3cret", "s3cret"),
        (r"password=a\\b\u00e9\=\tc\q", "a\\bé=\tcq"),
        ("password=s3\\\n   cret", "s3cret"),
        ("!password=no\n#password=no\npassword=s3cret", "s3cret"),
        ("password=old\npassword=new", "new"),
        (r"pass\:word=no" + "\n" + r"p\u0061ssword=s3cret", "s3cret"),
        ("password", ""),
        ("password=\\ s3cret\\ \r", " s3cret "),
    ],
)
def test_a_file_with_secrets_is_read_as_java_reads_properties(
    tmp_path: Path, text: str, value: str
) -> None:
    """java.util.Properties, which Kafka's FileConfigProvider uses: the same file serves both."""
    (tmp_path / "secrets").write_text(f"user=me\n{text}\n\nother = x", encoding="utf-8")

    assert resolved("sasl.password", f"${{file:{tmp_path}/secrets:password}}") == value


@pytest.mark.parametrize("text", ["${env:NOWHERE}", "${file:/nowhere:a}", "${directory:/no:a}"])
def test_a_reference_to_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="stands for nothing in this process"):
        resolved("sasl.password", text)


def test_the_driver_checks_settings_without_resolving_references() -> None:
    check({"bootstrap.servers": "a:1", "client.rack": "${env:NOWHERE}"})

    with pytest.raises(ConfigurationError, match=r"kafka\.fetch\.min\.bytes is"):
        check({"bootstrap.servers": "a:1", "fetch.min.bytes": "-1"})


@pytest.mark.parametrize(
    "secret", [{"sasl.jaas.config": "${env:JAAS}"}, {"sasl.password": "${file:/a:b}"}]
)
def test_a_login_may_refer_to_its_password(secret: dict[str, str]) -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    check({"bootstrap.servers": "a:1"} | login | secret)
    with pytest.raises(ConfigurationError, match="did you mean"):
        check({"bootstrap.servers": "a:1", "sasl.mechanisms": "PLAIN"} | secret)
