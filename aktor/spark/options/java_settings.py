"""Settings of Java's consumer and producer that ours do not have under the same name: one table.

A query of Spark's own source should go on with another `format`, and nothing else changed. So a
setting that has no meaning here is ignored, and the driver names it in one warning. A setting that
would change which records are read or written, or who may read them, is refused.

The names are those of ConsumerConfig and ProducerConfig of Kafka 3.9 and 4.3. Those that are not
here are ours, with dots for underscores.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from aktor.errors import ConfigurationError
from aktor.spark.options import oauth

__all__ = ["ignored", "Refused", "Rule", "Translate", "rule_for", "translated_names"]

#: Makes kafka-python's settings of the text of a setting. Raises ConfigurationError.
Translate: TypeAlias = Callable[[str], dict[str, Any]]


class Refused(str):
    """Why a setting is refused, and what to do instead."""

    __slots__ = ()


def ignored(_text: str) -> dict[str, Any]:
    """The rule for what has no meaning here."""
    return {}


Rule: TypeAlias = Refused | Translate

_JAAS: Final = re.compile(r"([\w.]+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s;]+)")


def rule_for(name: str) -> Rule | None:
    """The rule for this setting; None if the table has none."""
    if name in _RULES:
        return _RULES[name]
    return next((rule for start, rule in _BEGINNINGS.items() if name.startswith(start)), None)


def translated_names() -> list[str]:
    """The names that can be of use."""
    return [
        name
        for name, rule in _RULES.items()
        if not isinstance(rule, Refused) and rule is not ignored
    ]


def _servers(text: str) -> dict[str, Any]:
    """Java's client skips empty items (ClientUtils.parseAndValidateAddresses): "a:9092,b:9092,"."""
    items = [server.strip() for server in text.split(",") if server.strip()]
    return {"bootstrap_servers": ",".join(items) or text}


def _jaas(text: str) -> dict[str, Any]:
    """What a JAAS line has: user name and password (PlainLoginModule, ScramLoginModule), or id and
    secret of a client (OAuthBearerLoginModule)."""
    for module, way in _OTHER_LOGINS.items():
        if module in text:
            raise ConfigurationError(f"kafka.sasl.jaas.config names {module}: {way}")
    found = {key: _unquoted(value) for key, value in _JAAS.findall(text)}
    if any(name.startswith("aws") for name in found):  # AWS's second way, by OAUTHBEARER
        raise ConfigurationError(f"kafka.sasl.jaas.config is one for AWS MSK: {_MSK}")
    if found.get("tokenauth", "").lower() == "true":
        raise ConfigurationError(f"kafka.sasl.jaas.config has tokenauth=true: {_TOKEN}")
    if "OAuthBearerLoginModule" in text:
        return oauth.of_jaas(found)
    if {"username", "password"} - found.keys():
        raise ConfigurationError(
            "kafka.sasl.jaas.config must have username and password, as 'org.apache.kafka.common."
            'security.plain.PlainLoginModule required username="..." password="...";\''
        )
    return {
        "sasl_plain_username": found["username"],
        "sasl_plain_password": found["password"],
    }


def _oauth_class(name: str, *accepted: str) -> Translate:
    """A class of Java's that does what is done here anyway; another one does something else."""

    def check_class(text: str) -> dict[str, Any]:
        called = text.strip().rpartition(".")[2]
        if called.startswith("IAM"):
            raise ConfigurationError(f"kafka.{name} names a class of AWS MSK: {_MSK}")
        if called not in accepted:
            raise ConfigurationError(f"kafka.{name}: {_LOGIN}. {_OAUTH_ONLY}")
        return {}

    return check_class


def _oidc(text: str) -> dict[str, Any]:
    """librdkafka's word for a login with a token endpoint."""
    if text.strip() != "oidc":
        raise ConfigurationError(f"kafka.sasl.oauthbearer.method: {oauth.HOW}")
    return {}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[0] in "\"'" else text


def _pem(name: str) -> Translate:
    def check_type(text: str) -> dict[str, Any]:
        if text.strip().upper() != "PEM":
            raise ConfigurationError(
                f"kafka.{name} must be PEM here, not {text!r}: convert the store"
            )
        return {}

    return check_type


def _protocols(text: str) -> dict[str, Any]:
    """TLS 1.2 and 1.3 are used here, as by Java's client unless it is told otherwise."""
    if "TLSV1.2" not in {protocol.strip().upper() for protocol in text.split(",")}:
        raise ConfigurationError(
            f"kafka.ssl.enabled.protocols is {text!r}, and here TLSv1.2 is possible beside TLSv1.3:"
            " leave the option out, and set MinProtocol in the openssl.cnf of driver and executors"
        )
    return {}


def _false(name: str, why: str) -> Translate:
    def check_false(text: str) -> dict[str, Any]:
        if text.strip().lower() != "false":
            raise ConfigurationError(f"kafka.{name} is not supported: {why}")
        return {}

    return check_false


_A_CLASS: Final = "it names a class of Java's, and here is no Java: "
_OAUTH_ONLY: Final = Refused(oauth.HOW[0].upper() + oauth.HOW[1:])
_KERBEROS: Final = (
    "here is no Java. Leave the line out, and set kafka.sasl.mechanism=GSSAPI (it needs the package"
    " gssapi; kafka.sasl.kerberos.service.name is kafka unless you set it). The ticket is the"
    " system's: run kinit, or name a keytab by the variable KRB5_CLIENT_KTNAME, on the driver and"
    " on each executor"
)
_MSK: Final = (
    "here is no Java. Leave out the line and the callback handler, and set"
    " kafka.sasl.mechanism=AWS_MSK_IAM (it needs the package botocore, and SASL_SSL). botocore"
    " looks for credentials as the AWS command does (AWS_PROFILE names a profile, which may have a"
    " role), on the driver and on each executor"
)
_TOKEN: Final = (
    "there is no login by a delegation token here. Log in with a user name and a password, or use"
    " Spark's own source"
)
_INLINE: Final = "a PEM text cannot be a value: write it into a file, and name the file by "
_LOGIN: Final = Refused(
    f"{_A_CLASS}use kafka.sasl.jaas.config with a user name and a password, or without it"
    " kafka.sasl.mechanism=AWS_MSK_IAM (package botocore) or GSSAPI (Kerberos, package gssapi)"
)

#: Modules of a JAAS line without user name and password, and what to do instead.
_OTHER_LOGINS: Final = {
    "Krb5LoginModule": _KERBEROS,
    "IAMLoginModule": _MSK,
}

_RULES: Final[dict[str, Rule]] = {
    "bootstrap.servers": _servers,
    "security.protocol": lambda text: {"security_protocol": text.strip().upper()},
    # Logins, certificates: translated.
    "sasl.jaas.config": _jaas,
    "sasl.mechanism": lambda text: {"sasl_mechanism": text.strip()},
    "sasl.username": lambda text: {"sasl_plain_username": text},
    "sasl.password": lambda text: {"sasl_plain_password": text},
    "sasl.oauthbearer.client.credentials.client.id": oauth.part("client_id"),
    "sasl.oauthbearer.client.credentials.client.secret": oauth.part("client_secret"),
    "sasl.oauthbearer.client.id": oauth.part("client_id"),
    "sasl.oauthbearer.client.secret": oauth.part("client_secret"),
    "sasl.oauthbearer.header.urlencode": oauth.part("header_urlencode"),
    "sasl.oauthbearer.jwt.retriever.class": _oauth_class(
        "sasl.oauthbearer.jwt.retriever.class",
        *("ClientCredentialsJwtRetriever", "DefaultJwtRetriever"),
    ),
    "sasl.oauthbearer.method": _oidc,
    "sasl.oauthbearer.scope": oauth.part("scope"),
    "sasl.oauthbearer.token.endpoint.url": oauth.part("url"),
    "ssl.truststore.location": lambda text: {"ssl_cafile": text},
    "ssl.truststore.type": _pem("ssl.truststore.type"),
    "ssl.keystore.location": lambda text: {"ssl_certfile": text, "ssl_keyfile": text},
    "ssl.keystore.type": _pem("ssl.keystore.type"),
    "ssl.key.password": lambda text: {"ssl_password": text},
    "ssl.enabled.protocols": _protocols,
    "ssl.endpoint.identification.algorithm": lambda text: {
        "ssl_check_hostname": bool(text.strip())
    },
    # What the source and the sink decide themselves.
    "auto.offset.reset": Refused("use startingOffsets"),
    "key.deserializer": Refused("keys are binary; cast them in Spark"),
    "value.deserializer": Refused("values are binary; cast them in Spark, or use decode=json"),
    "key.serializer": Refused("keys are binary or strings"),
    "value.serializer": Refused("values are binary or strings"),
    "enable.auto.commit": Refused(
        "Spark's checkpoint has the progress; commitOffsets=true mirrors it"
    ),
    "consumer.timeout.ms": Refused("use kafkaConsumer.pollTimeoutMs"),
    "transactional.id": Refused("use transactional=true and transactionalIdPrefix of the sink"),
    "transaction.two.phase.commit.enable": _false(
        "transaction.two.phase.commit.enable", "the sink commits each transaction in its task"
    ),
    # What would change the records, or their partitions.
    "interceptor.classes": Refused(
        f"{_A_CLASS}an interceptor may change records, so do in the query what it does"
    ),
    "partitioner.class": Refused("name partitions in the column partition"),
    "partitioner.ignore.keys": _false(
        "partitioner.ignore.keys", "write null keys, or name partitions in the column partition"
    ),
    # What would change who may log in, or who is trusted.
    "security.providers": Refused(
        f"{_A_CLASS}TLS is that of OpenSSL, which has its own configuration (openssl.cnf)"
    ),
    "ssl.provider": Refused("TLS is that of OpenSSL, which has its own providers (openssl.cnf)"),
    "ssl.engine.factory.class": Refused(
        f"{_A_CLASS}name PEM files by kafka.ssl.truststore.location and kafka.ssl.keystore.location"
    ),
    "ssl.cipher.suites": Refused(
        "ciphers have other names in OpenSSL: set kafka.ssl.ciphers=NAME:NAME (openssl ciphers)"
    ),
    "ssl.keystore.key": Refused(f"{_INLINE}kafka.ssl.keystore.location"),
    "ssl.keystore.certificate.chain": Refused(f"{_INLINE}kafka.ssl.keystore.location"),
    "ssl.truststore.certificates": Refused(f"{_INLINE}kafka.ssl.truststore.location"),
    "sasl.client.callback.handler.class": _LOGIN,
    "sasl.login.callback.handler.class": _oauth_class(
        "sasl.login.callback.handler.class", "OAuthBearerLoginCallbackHandler"
    ),
    "sasl.login.class": _LOGIN,
    # What only Java's client needs to be told: names of algorithms, passwords of stores that are
    # no PEM files, the renewal of tickets (here the system's ticket cache is used), of tokens.
    "ssl.truststore.password": ignored,
    "ssl.keystore.password": ignored,
    "ssl.protocol": ignored,
    "ssl.keymanager.algorithm": ignored,
    "ssl.trustmanager.algorithm": ignored,
    "ssl.secure.random.implementation": ignored,
    "sasl.kerberos.kinit.cmd": ignored,
    "sasl.kerberos.min.time.before.relogin": ignored,
    "sasl.kerberos.ticket.renew.jitter": ignored,
    "sasl.kerberos.ticket.renew.window.factor": ignored,
    "sasl.login.connect.timeout.ms": ignored,
    "sasl.login.read.timeout.ms": ignored,
    "sasl.login.refresh.buffer.seconds": ignored,
    "sasl.login.refresh.min.period.seconds": ignored,
    "sasl.login.refresh.window.factor": ignored,
    "sasl.login.refresh.window.jitter": ignored,
    "sasl.login.retry.backoff.max.ms": ignored,
    "sasl.login.retry.backoff.ms": ignored,
    # Java's metrics.
    "auto.include.jmx.reporter": ignored,
    "enable.metrics.push": ignored,
    "metric.reporters": ignored,
    "metrics.num.samples": ignored,
    "metrics.recording.level": ignored,
    "metrics.sample.window.ms": ignored,
    # The source is no member of a group.
    "group.instance.id": ignored,
    "internal.leave.group.on.close": ignored,
    "internal.throw.on.fetch.stable.offset.unsupported": ignored,
    "partition.assignment.strategy": ignored,
    "share.acknowledgement.mode": ignored,
    "share.acquire.mode": ignored,
    # Tuning of retries and compression. Those that our consumer has too (retry.backoff.max.ms) are
    # used by the source, not ignored.
    "compression.gzip.level": ignored,
    "compression.lz4.level": ignored,
    "compression.zstd.level": ignored,
    "metadata.max.idle.ms": ignored,
    "metadata.recovery.rebootstrap.trigger.ms": ignored,
    "metadata.recovery.strategy": ignored,
    "partitioner.adaptive.partitioning.enable": ignored,
    "partitioner.availability.timeout.ms": ignored,
    "retry.backoff.max.ms": ignored,
    "socket.connection.setup.timeout.max.ms": ignored,
    "socket.connection.setup.timeout.ms": ignored,
}

#: The rules for all settings that begin so.
_BEGINNINGS: Final[dict[str, Rule]] = {
    "config.providers": Refused(
        "${env:NAME}, ${file:PATH:KEY} and ${directory:PATH:FILE} are replaced without it: leave it"
        " out (other providers are classes of Java's)"
    ),
    "metrics.context.": ignored,
    "sasl.oauthbearer.": Refused(oauth.HOW),
}
