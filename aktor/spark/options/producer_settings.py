"""The options `kafka.*` of the sink as settings of a producer of either library.

One table has every setting that the sink takes, under kafka-python's name, with its name in
librdkafka. Values are checked before a job starts; references (`${env:NAME}`) are resolved in the
process that connects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aktor.consumer.configuration import configuration
from aktor.errors import ConfigurationError
from aktor.spark.options import client_settings

__all__ = ["ProducerSettings", "check", "names", "read", "warn_of_ignored"]

#: Settings of the connections: kafka-python's name, and librdkafka's; "" if there is none.
_CONNECTION: Final = {
    "bootstrap_servers": "bootstrap.servers",
    "bootstrap_timeout_ms": "",
    "client_id": "client.id",
    "client_dns_lookup": "client.dns.lookup",
    "connections_max_idle_ms": "connections.max.idle.ms",
    "metadata_max_age_ms": "metadata.max.age.ms",
    "reconnect_backoff_ms": "reconnect.backoff.ms",
    "reconnect_backoff_max_ms": "reconnect.backoff.max.ms",
    "request_timeout_ms": "request.timeout.ms",
    "retry_backoff_ms": "retry.backoff.ms",
    "receive_buffer_bytes": "socket.receive.buffer.bytes",
    "send_buffer_bytes": "socket.send.buffer.bytes",
    "sasl_kerberos_service_name": "sasl.kerberos.service.name",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_oauth_token_provider": "",
    "sasl_plain_password": "sasl.password",
    "sasl_plain_username": "sasl.username",
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_check_hostname": "ssl.endpoint.identification.algorithm",
    "ssl_ciphers": "ssl.cipher.suites",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}

#: Settings of producers: kafka-python's name (or Java's with underscores), librdkafka's, and the
#: sink's default, which is Java's but for `linger.ms`, `batch.size` and the number of retries.
_PRODUCER: Final[dict[str, tuple[str, Any]]] = {
    "acks": ("acks", "all"),
    "allow_auto_create_topics": ("allow.auto.create.topics", True),
    "batch_size": ("batch.size", 262_144),
    "buffer_memory": ("queue.buffering.max.kbytes", 33_554_432),
    "compression_type": ("compression.type", "none"),
    "delivery_timeout_ms": ("delivery.timeout.ms", 120_000),
    "enable_idempotence": ("enable.idempotence", True),
    "linger_ms": ("linger.ms", 5),
    "max_block_ms": ("", 60_000),
    "max_in_flight_requests_per_connection": ("max.in.flight.requests.per.connection", 5),
    "max_request_size": ("message.max.bytes", 1_048_576),
    "retries": ("retries", 2_147_483_647),
    "transaction_timeout_ms": ("transaction.timeout.ms", 60_000),
}
#: How long a request may take, as in Java and in both libraries.
_REQUEST_MS: Final = 30_000
_CHOICES: Final = {
    "acks": ("all", "-1", "0", "1"),
    "compression_type": ("none", "gzip", "snappy", "lz4", "zstd"),
}
#: The numbers that librdkafka takes. It refuses others, but only in the tasks, and takes those of
#: more than 32 bits for quite different ones.
_RANGES: Final = {
    "batch_size": (0, 2**31 - 1),
    "buffer_memory": (0, 2**41 - 1024),
    "delivery_timeout_ms": (0, 2**31 - 1),
    "linger_ms": (0, 900_000),
    "max_in_flight_requests_per_connection": (1, 1_000_000),
    "max_request_size": (1_000, 1_000_000_000),
    "metadata_max_age_ms": (1, 86_400_000),
    "receive_buffer_bytes": (0, 100_000_000),
    "reconnect_backoff_max_ms": (0, 3_600_000),
    "reconnect_backoff_ms": (0, 3_600_000),
    "request_timeout_ms": (1, 900_000),
    "retries": (0, 2**31 - 1),
    "retry_backoff_ms": (1, 300_000),
    "send_buffer_bytes": (0, 100_000_000),
    "transaction_timeout_ms": (1_000, 2**31 - 1),
}
_KNOWN: Final[dict[str, Any]] = {
    **{name: configuration.DEFAULT_CONFIG[name] for name in _CONNECTION},
    **{name: default for name, (_, default) in _PRODUCER.items()},
}


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The settings of one producer, with all references resolved: never printed, never sent."""

    given: Mapping[str, Any]

    def __repr__(self) -> str:
        return "ProducerSettings(...)"

    def get(self, name: str) -> Any:
        """The value of this setting of producers."""
        return self.given.get(name, _PRODUCER[name][1])

    def for_confluent(self, transactional_id: str | None = None) -> dict[str, Any]:
        """librdkafka's settings. Keys go to the partitions where Java's producer sends them."""
        found: dict[str, Any] = {"partitioner": "murmur2_random"}
        for name, theirs in _CONNECTION.items():
            if theirs and name in self.given:
                found[theirs] = _FOR_CONFLUENT.get(name, _as_it_is)(self.given[name])
        if tokens := self.given.get("sasl_oauth_token_provider"):
            found |= tokens.for_librdkafka()
        for name, (theirs, _) in _PRODUCER.items():
            if theirs:
                found[theirs] = _FOR_CONFLUENT.get(name, _as_it_is)(self.get(name))
        # librdkafka refuses a queue that one message of the greatest size does not fit into, and
        # a delivery that may take longer than its transaction.
        kilobytes = found["message.max.bytes"] // 1024 + 1
        found["queue.buffering.max.kbytes"] = max(found["queue.buffering.max.kbytes"], kilobytes)
        if transactional_id is not None:
            found["transactional.id"] = transactional_id
            found["delivery.timeout.ms"] = min(
                found["delivery.timeout.ms"], found["transaction.timeout.ms"]
            )
        return found

    def for_kafka_python(self) -> dict[str, Any]:
        """kafka-python's keyword arguments. It has no bound of memory: the sink keeps it."""
        found = {name: self.given[name] for name in _CONNECTION if name in self.given}
        found |= {name: self.get(name) for name in _PRODUCER if name != "buffer_memory"}
        if found["compression_type"] == "none":
            found["compression_type"] = None
        if found["acks"] != "all":
            found["acks"] = int(found["acks"])
        return found

    def without_secrets(self, text: str) -> str:
        """The text, in which no secret value is left."""
        for name, value in self.given.items():
            if client_settings.SECRETS.search(name.replace("_", ".")) and value:
                text = text.replace(str(value), "***")
        tokens = self.given.get("sasl_oauth_token_provider")
        return text if tokens is None else str(tokens.without_secrets(text))


def _as_it_is(value: Any) -> Any:
    return value


_FOR_CONFLUENT: Final[dict[str, Callable[[Any], Any]]] = {
    "batch_size": lambda size: max(1, size),  # 0 in Java: each record is sent alone
    "buffer_memory": lambda size: max(1, size // 1024),
    "ssl_check_hostname": lambda check: "https" if check else "none",
}


def check(options: Mapping[str, str], *, transactional: bool) -> None:
    """Refuse what cannot be a setting, without resolving references.

    Raises ConfigurationError: no bootstrap servers, a name that is refused or unknown (with the
    nearest one), a value that cannot be, settings that contradict each other.
    """
    client_settings.check_names(options, _KNOWN)
    plain = client_settings.without_references(options)
    given = _settled(client_settings.settings(plain, _KNOWN), transactional)
    with client_settings.naming_options():
        configuration.parse({name: value for name, value in given.items() if name in _CONNECTION})


def names() -> list[str]:
    """The names of settings of producers, with dots."""
    return client_settings.names(_KNOWN)


def warn_of_ignored(options: Mapping[str, str]) -> None:
    """Name in one warning what Java's producer would heed and the sink does not."""
    client_settings.warn_of_ignored(options, _KNOWN)


def read(options: Mapping[str, str], *, transactional: bool) -> ProducerSettings:
    """The settings of a producer in this process. Raises ConfigurationError."""
    resolved = {name: client_settings.resolved(name, text) for name, text in options.items()}
    given = {"client_id": f"aktor-spark-{os.getpid()}"}
    return ProducerSettings(
        given | _settled(client_settings.settings(resolved, _KNOWN), transactional)
    )


def _settled(given: dict[str, Any], transactional: bool) -> dict[str, Any]:
    """The settings, after choices were checked and idempotence was decided.

    As in Java's producer (KAFKA-13598): acks other than all, no retries, or more than 5 requests
    in flight switch idempotence off, unless it was asked for.
    """
    for name, choices in _CHOICES.items():
        value = str(given.get(name, choices[0])).lower()
        if value not in choices:
            raise ConfigurationError(
                f"kafka.{name.replace('_', '.')} must be one of {', '.join(choices)}, not {value!r}"
            )
        if name in given:
            given[name] = "all" if value == "-1" else value
    given = _timed(given, transactional)
    against = [
        text
        for text, is_so in (
            (f"kafka.acks={given.get('acks')}", given.get("acks", "all") != "all"),
            ("kafka.retries=0", given.get("retries") == 0),
            (
                "more than 5 requests in flight",
                given.get("max_in_flight_requests_per_connection", 5) > 5,
            ),
        )
        if is_so
    ]
    if not against:
        asked = given.get("enable_idempotence", True)
        if transactional and not asked:
            raise ConfigurationError("transactional=true needs kafka.enable.idempotence=true")
        return given
    if transactional or given.get("enable_idempotence", False):
        wish = "transactional=true" if transactional else "kafka.enable.idempotence=true"
        raise ConfigurationError(f"{wish} excludes {' and '.join(against)}")
    return given | {"enable_idempotence": False}


def _timed(given: dict[str, Any], transactional: bool) -> dict[str, Any]:
    """The settings, whose numbers are possible, and in which a batch is sent before its time is
    over. librdkafka and Java's producer refuse others, but only in the tasks.

    As in Java's producer, a delivery has time for one request after `linger.ms`, if the user does
    not say how long it may take.
    """
    for name, value in given.items():
        if name in _PRODUCER and type(value) is int and value < 0:
            raise ConfigurationError(
                f"kafka.{name.replace('_', '.')} must not be negative: {value}"
            )
        least, most = _RANGES.get(name, (None, None))
        if least is not None and most is not None and not least <= value <= most:
            raise ConfigurationError(
                f"kafka.{name.replace('_', '.')} must be from {least} to {most}, not {value}"
            )
    linger = given.get("linger_ms", _PRODUCER["linger_ms"][1])
    request = given.get("request_timeout_ms", _REQUEST_MS)
    default = max(_PRODUCER["delivery_timeout_ms"][1], linger + request)
    found = {"delivery_timeout_ms": default} | given
    ends = ["delivery_timeout_ms", *(["transaction_timeout_ms"] if transactional else [])]
    for name in ends:
        end = found.get(name, _PRODUCER[name][1])
        if linger >= end:
            raise ConfigurationError(
                f"kafka.linger.ms ({linger}) must be less than kafka.{name.replace('_', '.')}"
                f" ({end})"
            )
    return found
