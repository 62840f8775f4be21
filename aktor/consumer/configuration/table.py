"""The table of settings: one row for each, from which all else follows.

`DEFAULT_CONFIG`, the fields of `Settings` and what the connections are given, the tables of
docs/configuration.md and the types in `keywords` are made of it. A setting that our parts read has
a field in `aktor.settings.Settings` too, with its type and, in seconds, its default.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final

import kafka.consumer.group as kafka_python

from aktor.consumer.configuration import bootstrap, checks, security
from aktor.consumer.configuration.checks import INT32_MAX, INT64_MAX
from aktor.settings import DEFAULT_HOST, Settings
from aktor.values import Value

__all__ = [
    "ASSIGNORS_MUST",
    "DEFAULT_CONFIG",
    "FIELDS",
    "FOR_CONNECTIONS",
    "SECTIONS",
    "SETTINGS",
    "Setting",
]

ASSIGNORS_MUST: Final = (
    "a list of assignors (names, classes or instances), as ['range'] or [RangePartitionAssignor]"
)
DNS_LOOKUPS: Final = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")

_OF_SETTINGS: Final = object()


class Setting(Value):
    """One keyword argument of a consumer.

    Java's name has dots in place of the underscores, where the notes name no other one. Which actor
    reads it stands in the `READS` of the actor's class.
    """

    name: str
    #: Checks what was given, and returns what is kept.
    check: checks.Check
    #: What may be given, as an annotation: see `keywords`.
    kind: str
    #: What a number counts, if the name does not end in its unit.
    counts: str = ""
    #: As it is given by the user. If nothing is said, that of the field in `Settings`.
    default: Any = _OF_SETTINGS
    #: The field's name in `Settings`, unless it is `name` without the unit.
    field: str = ""
    #: What means that it is not set, beside its absence. "" is what is left of an environment
    #: variable that is missing: not for a setting without which a consumer is less safe.
    unset: tuple[Any, ...] = ()
    #: Whether the connections are given it, under this name.
    for_connections: bool = False
    #: For the documentation, in Markdown.
    meaning: str
    notes: str = ""

    @property
    def unit(self) -> str:
        """Of numbers: "ms", "bytes", "records" or "requests"."""
        last = self.name.rpartition("_")[2]
        return last if last in ("ms", "bytes") else self.counts

    @property
    def read_as(self) -> str | None:
        """The name of its field in `Settings`; None if our parts do not read it there."""
        name = self.field or (self.name.removesuffix("_ms") if self.unit == "ms" else self.name)
        return name if name in Settings.FIELDS else None

    def is_unset(self, value: Any) -> bool:
        """Whether this value means that the user has not set it."""
        return (value is None or isinstance(value, str)) and value in self.unset

    def in_settings(self, value: Any) -> Any:
        """A checked value as it is in `Settings`: times in seconds."""
        return float(value) / 1000 if self.unit == "ms" else value

    def given_by_default(self) -> Any:
        """The default, as a user would give it."""
        if self.default is not _OF_SETTINGS:
            return self.default
        assert self.read_as is not None, f"{self.name} has neither a default nor a field"
        default: Any = Settings.FIELDS[self.read_as].default
        return round(default * 1000) if self.unit == "ms" else default


def ignore_commit(offsets: Any, response: Any) -> bool:
    """The default callback of automatic commits: does nothing."""
    return True


def _assignors(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = value.split(",")  # as in a file of Java's
    if isinstance(value, type) or not isinstance(value, Iterable):
        raise checks.refusal(name, value, ASSIGNORS_MUST)
    return tuple(_named(name, item) if isinstance(item, str) else item for item in value)


def _named(name: str, item: str) -> Any:
    """The assignor of this name: the group's ("cooperative-sticky"), or that of Java's class."""
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    known = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    javas = {
        "RangeAssignor": "range",
        "RoundRobinAssignor": "roundrobin",
        "StickyAssignor": "sticky",
        "CooperativeStickyAssignor": "cooperative-sticky",
    }
    given = item.strip().removeprefix("org.apache.kafka.clients.consumer.")
    found = known.get(javas.get(given, given))
    if found is None:
        hint = checks.did_you_mean(checks.nearest(given, [*known, *javas]))
        names = ", ".join(map(repr, known))
        raise checks.refusal(f"an item of {name}", item, f"an assignor, or one of {names}{hint}")
    return found


_KAFKA_CLIENT: Final = kafka_python.KafkaConsumer.DEFAULT_CONFIG["kafka_client"]

#: The settings, by the headings of docs/configuration.md.
SECTIONS: Final[Mapping[str, tuple[Setting, ...]]] = {
    "Where, and who we are": (
        Setting(
            name="bootstrap_servers",
            check=bootstrap.servers,
            kind="str | Iterable[str]",
            default=DEFAULT_HOST,
            meaning=(
                "the brokers to ask first: `host`, `host:port`, `[::1]:port`, each also as"
                " `PROTOCOL://host:port`; several in a list, or with commas between"
            ),
            notes=(
                "the port is 9092 unless given. An empty item is left out (kafka-python takes it"
                " for this machine), one that cannot be read is refused by name"
            ),
        ),
        Setting(
            name="client_id",
            check=checks.optional(checks.identifier, Settings.FIELDS["client_id"].default),
            kind="str | None",
            for_connections=True,
            meaning="our name in the brokers' logs and quotas",
            notes="None is the default; a number or a UUID is written as a str",
        ),
        Setting(
            name="client_rack",
            check=checks.text,
            kind="str | None",
            unset=(None,),
            meaning=(
                "the rack we are in; brokers may have us fetch from a replica near by (KIP-392),"
                " and Java's leaders assign what is near (KIP-881)"
            ),
        ),
        Setting(
            name="client_dns_lookup",
            check=checks.one_of(*DNS_LOOKUPS),
            kind="str",
            default="use_all_dns_ips",
            for_connections=True,
            meaning=(
                "a name is looked up for each attempt, and its addresses take turns (more below);"
                " or `'resolve_canonical_bootstrap_servers_only'`, for Kerberos behind a DNS alias"
            ),
        ),
        Setting(
            name="bootstrap_timeout_ms",
            check=checks.optional(checks.milliseconds(), INT32_MAX),
            kind="float | None",
            meaning=(
                "how long the constructor waits for the first answer of a broker; with 0, or if"
                " `api_version` is given, it does not wait; with None it waits for ever"
            ),
            notes=(
                "then BootstrapError, which is kafka-python's KafkaTimeoutError (and 2.x's"
                " NoBrokersAvailable), names each server. With 0, later calls raise it (more below)"
            ),
        ),
        Setting(
            name="api_version",
            check=checks.optional(checks.api_version),
            kind="tuple[int, ...] | str | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="the broker's version as a tuple, `(3, 9)`; None asks the broker",
            notes=(
                "a str (`'2.8'`, `'auto'`) is deprecated. Other defaults depend on it, and a"
                " broker before 0.10 needs it (more below)"
            ),
        ),
    ),
    "Groups": (
        Setting(
            name="group_id",
            check=checks.optional(checks.group_id),
            kind="str | None",
            meaning="the group to join and to commit for; None reads without one",
            notes="an empty name is refused, as brokers do; a number or a UUID is written as a str",
        ),
        Setting(
            name="group_instance_id",
            check=checks.optional(checks.instance_id),
            kind="str | None",
            unset=("",),
            meaning=(
                "the name of a static member: if a consumer with this name is back before the"
                " session ends, it gets the same partitions without a rebalance (KIP-345)"
            ),
            notes=(
                "an empty one is None, another blank one is refused. `close` does not leave the"
                " group then; see `group_membership_operation`"
            ),
        ),
        Setting(
            name="session_timeout_ms",
            check=checks.milliseconds(1),
            kind="float | None",
            unset=(None,),
            meaning="the group goes on without us after so long without a heartbeat",
            notes=(
                "refused with `group_protocol='consumer'`, also as the default: the brokers"
                " decide it, and `config` shows None. None is the default"
            ),
        ),
        Setting(
            name="heartbeat_interval_ms",
            check=checks.milliseconds(1),
            kind="float | None",
            unset=(None,),
            meaning=(
                "time between heartbeats; must be below `session_timeout_ms`, a third of it or"
                " less is usual"
            ),
            notes=(
                "checked in a group only. Refused with `group_protocol='consumer'`, like"
                " `session_timeout_ms`"
            ),
        ),
        Setting(
            name="max_poll_interval_ms",
            check=checks.milliseconds(1),
            kind="float | None",
            unset=(None,),
            meaning="longest time between two calls of `poll`, after which we leave the group",
        ),
        Setting(
            name="partition_assignment_strategy",
            check=_assignors,
            kind="str | Iterable[object] | None",
            unset=(None, ""),
            meaning=(
                "the assignors, preferred first: names (`'range'`, `'roundrobin'`, `'sticky'`,"
                " `'cooperative-sticky'`, Java's classes), classes or instances"
            ),
            notes=(
                "must have a rebalance protocol in common; the same one twice is refused."
                " Refused with `group_protocol='consumer'`: see `group_remote_assignor`"
            ),
        ),
        Setting(
            name="exclude_internal_topics",
            check=checks.boolean,
            kind="bool",
            meaning="whether a pattern leaves Kafka's own topics out",
            notes="matters to patterns that we evaluate, not to a `SubscriptionPattern`",
        ),
    ),
    "Offsets": (
        Setting(
            name="auto_offset_reset",
            check=checks.offset_reset,
            kind="str | None",
            meaning=(
                "where to start without a committed offset: `'earliest'`, `'latest'`, `'none'`"
                " (raise), or `'by_duration:PT1H'`: at the first record of the last hour (KIP-1106)"
            ),
            notes=(
                "upper or lower case; None means `'none'`; `'smallest'` and `'largest'` are"
                " deprecated. Anything else is refused: kafka-python takes it for `'none'`."
                " A duration is written as in ISO 8601: `'P2DT12H'`"
            ),
        ),
        Setting(
            name="enable_auto_commit",
            check=checks.boolean,
            kind="bool",
            meaning=(
                "commit, from time to time, what the application has finished with: all records"
                " before those of the last `poll`"
            ),
            notes="False without a `group_id`",
        ),
        Setting(
            name="auto_commit_interval_ms",
            check=checks.milliseconds(),
            kind="float",
            meaning="how often; at most every 10 ms, also with 0",
        ),
        Setting(
            name="default_offset_commit_callback",
            check=checks.optional(checks.function, ignore_commit),
            kind="OnCommit | None",
            default=ignore_commit,
            meaning="called with (offsets, result or exception) after such a commit",
            notes="None is the default; not a coroutine function, also in asyncio",
        ),
        Setting(
            name="isolation_level",
            check=checks.isolation_level,
            kind="str | int",
            meaning="`'read_committed'` leaves out what was aborted and waits for what is open",
            notes="kafka-python's enum and its numbers work too",
        ),
    ),
    "Fetching": (
        Setting(
            name="key_deserializer",
            check=checks.anything,
            kind="Deserializes[object] | None",
            default=None,
            meaning="makes a key from its bytes: a `kafka.serializer.Deserializer`",
            notes=(
                "a plain function of the bytes and the older `deserialize(topic, data)` work with"
                " a DeprecationWarning; called with None too. Its shape is checked here, not at"
                " the first record"
            ),
        ),
        Setting(
            name="value_deserializer",
            check=checks.anything,
            kind="Deserializes[object] | None",
            default=None,
            meaning="the same for values; None is a tombstone",
            notes="as above",
        ),
        Setting(
            name="fetch_min_bytes",
            check=checks.size(low=0),
            kind="int",
            meaning="what a broker waits for before it answers",
        ),
        Setting(
            name="fetch_max_wait_ms",
            check=checks.milliseconds(),
            kind="float",
            meaning=(
                "the longest time that a broker waits for `fetch_min_bytes`; must be below"
                " `request_timeout_ms`"
            ),
            notes=(
                "if it is not set and `fetch_min_bytes` is 1 or 0, a leader that has nothing for"
                " the consumer waits up to 2 s (more below)"
            ),
        ),
        Setting(
            name="fetch_max_bytes",
            check=checks.size(),
            kind="int",
            meaning="most that a broker puts into one answer; its first batch is sent whole",
        ),
        Setting(
            name="max_partition_fetch_bytes",
            check=checks.size(),
            kind="int",
            meaning="most that one partition has in it; its first batch is sent whole",
        ),
        Setting(
            name="max_poll_records",
            check=checks.integer(1, INT32_MAX, "records"),
            kind="int",
            default=500,
            counts="records",
            meaning="most that one `poll` returns",
        ),
        Setting(
            name="consumer_timeout_ms",
            check=checks.consumer_timeout,
            kind="float | None",
            unset=(None,),
            default=float("inf"),
            meaning="iteration ends after so long without a record",
            notes="None and a negative number are for ever",
        ),
        Setting(
            name="check_crcs",
            check=checks.boolean,
            kind="bool",
            meaning="verify the checksum of each batch",
        ),
        Setting(
            name="enable_incremental_fetch_sessions",
            check=checks.boolean,
            kind="bool",
            meaning="tell brokers only what changed (KIP-227)",
        ),
        Setting(
            name="allow_auto_create_topics",
            check=checks.boolean,
            kind="bool",
            meaning="let brokers create a topic that we ask for",
            notes="honoured; kafka-python ignores it",
        ),
        Setting(
            name="metadata_max_age_ms",
            check=checks.milliseconds(high=INT64_MAX),
            kind="float",
            for_connections=True,
            meaning="how long to rely on what we know of the cluster; at least `retry_backoff_ms`",
        ),
    ),
    "Connections": (
        Setting(
            name="request_timeout_ms",
            check=checks.milliseconds(1),
            kind="float",
            for_connections=True,
            meaning="how long a broker may take to answer; must be below `connections_max_idle_ms`",
        ),
        Setting(
            name="retry_backoff_ms",
            check=checks.milliseconds(),
            kind="float",
            meaning="wait before the first retry; doubles up to `retry_backoff_max_ms`",
            notes=(
                "kafka-python does not double. If only one of the two is given and they cross,"
                " the other follows it"
            ),
        ),
        Setting(
            name="reconnect_backoff_ms",
            check=checks.milliseconds(),
            kind="float",
            for_connections=True,
            meaning="wait before connecting again; doubles up to `reconnect_backoff_max_ms`",
            notes="as above",
        ),
        Setting(
            name="reconnect_backoff_max_ms",
            check=checks.milliseconds(),
            kind="float | None",
            unset=(None,),
            for_connections=True,
            meaning=(
                "longest wait before connecting again; over at once if the broker answers on"
                " another connection"
            ),
            notes=(
                "to the group's coordinator and to bootstrap servers about a second at most: the"
                " member's session runs out meanwhile, or somebody waits for the cluster to start"
            ),
        ),
        Setting(
            name="connections_max_idle_ms",
            check=checks.milliseconds(high=INT64_MAX),
            kind="float",
            for_connections=True,
            meaning="close what has not been used for so long",
        ),
        Setting(
            name="max_in_flight_requests_per_connection",
            check=checks.integer(1, INT32_MAX, "requests"),
            kind="int",
            field="max_in_flight",
            counts="requests",
            for_connections=True,
            meaning="unanswered requests per connection",
        ),
        Setting(
            name="receive_message_max_bytes",
            check=checks.size(),
            kind="int",
            default=100_000_000,
            for_connections=True,
            meaning="a longer answer is taken for garbage",
            notes="raised to `fetch_max_bytes + max_partition_fetch_bytes`",
        ),
        Setting(
            name="receive_buffer_bytes",
            check=checks.optional(checks.buffer_size),
            kind="int | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="SO_RCVBUF; None and -1 leave it to the system",
            notes="honoured; kafka-python ignores it",
        ),
        Setting(
            name="send_buffer_bytes",
            check=checks.optional(checks.buffer_size),
            kind="int | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="SO_SNDBUF",
            notes="as above",
        ),
        Setting(
            name="socket_options",
            check=checks.socket_options,
            kind="Sequence[tuple[int, int, int | bytes]]",
            default=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
            for_connections=True,
            meaning="arguments to `setsockopt`",
        ),
        Setting(
            name="proxy_url",
            check=checks.optional(checks.proxy),
            kind="str | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning=(
                "`socks5://`, `socks5h://` or `http://` with host and port, also"
                " `user:password@host:port`"
            ),
            notes=(
                "user and password are percent-encoded where they have `@`, `:`, `/` and the like"
                " (`p%40ss`); kafka-python sends them undecoded"
            ),
        ),
        Setting(
            name="socks5_proxy",
            check=checks.optional(checks.proxy),
            kind="str | None",
            unset=("",),
            default=None,
            meaning="the same",
            notes="deprecated: `proxy_url`",
        ),
        Setting(
            name="selector",
            check=checks.selector,
            kind="type[selectors.BaseSelector]",
            default=selectors.DefaultSelector,
            for_connections=True,
            meaning="another class with the methods of `selectors.BaseSelector`",
        ),
        Setting(
            name="kafka_client",
            check=checks.not_yet(_KAFKA_CLIENT, "a client of your own"),
            kind="object",
            default=_KAFKA_CLIENT,
            meaning="a client of the user's own",
            notes="not supported yet",
        ),
    ),
    "Security": (
        Setting(
            name="security_protocol",
            check=checks.one_of(*security.SECURITY_PROTOCOLS),
            kind="str",
            for_connections=True,
            meaning="`'PLAINTEXT'`, `'SSL'`, `'SASL_PLAINTEXT'`, `'SASL_SSL'`",
            notes=(
                "anything else is refused: kafka-python takes it for PLAINTEXT. If it is left out"
                " although `sasl_mechanism` or certificates are given, that is refused (more"
                " below)"
            ),
        ),
        Setting(
            name="ssl_context",
            check=checks.optional(security.ssl_context),
            kind="ssl.SSLContext | None",
            default=None,
            for_connections=True,
            meaning="an `ssl.SSLContext`; the other `ssl_` settings are then not used",
        ),
        Setting(
            name="ssl_check_hostname",
            check=checks.boolean,
            kind="bool",
            default=True,
            for_connections=True,
            meaning="whether the certificate must name the broker's host",
        ),
        Setting(
            name="ssl_cafile",
            check=checks.optional(checks.path),
            kind="str | os.PathLike[str] | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="the authorities to trust, PEM; None is the system's",
            notes=(
                "files are read in the constructor, so that mistakes show there, and again for"
                " each connection, so that renewed ones are taken"
            ),
        ),
        Setting(
            name="ssl_certfile",
            check=checks.optional(checks.path),
            kind="str | os.PathLike[str] | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="our certificate, PEM, with its chain",
            notes="must hold the key too if there is no `ssl_keyfile`",
        ),
        Setting(
            name="ssl_keyfile",
            check=checks.optional(checks.path),
            kind="str | os.PathLike[str] | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="its private key, PEM",
        ),
        Setting(
            name="ssl_password",
            check=checks.optional(security.password),
            kind="str | bytes | Callable[[], str | bytes] | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="the password of the key: str, bytes, or a function that returns it",
            notes="an encrypted key without one is refused; nobody is asked at the terminal",
        ),
        Setting(
            name="ssl_crlfile",
            check=checks.optional(checks.path),
            kind="str | os.PathLike[str] | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="revoked certificates, PEM; the broker's own is looked up",
            notes="works; in kafka-python every connection fails",
        ),
        Setting(
            name="ssl_ciphers",
            check=checks.optional(checks.text),
            kind="str | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="OpenSSL's list of ciphers (up to TLS 1.2)",
            notes="honoured; kafka-python ignores it",
        ),
        Setting(
            name="sasl_mechanism",
            check=checks.optional(checks.one_of(*security.SASL_MECHANISMS)),
            kind="str | None",
            unset=("",),
            for_connections=True,
            meaning=(
                "`'PLAIN'`, `'SCRAM-SHA-256'`, `'SCRAM-SHA-512'`, `'OAUTHBEARER'`, `'GSSAPI'`,"
                " `'AWS_MSK_IAM'`"
            ),
            notes=(
                "required by `SASL_*`; GSSAPI needs the package gssapi, AWS_MSK_IAM botocore and"
                " SASL_SSL"
            ),
        ),
        Setting(
            name="sasl_plain_username",
            check=checks.optional(checks.text),
            kind="str | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="for PLAIN and SCRAM, which need both",
        ),
        Setting(
            name="sasl_plain_password",
            check=checks.optional(security.password),
            kind="str | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="the password of that user",
        ),
        Setting(
            name="sasl_oauth_token_provider",
            check=checks.optional(security.token_provider),
            kind="TokenProvider | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning=(
                "an `AbstractTokenProvider`, as [`ClientCredentials`](api.md#aktornetsasloauth);"
                " OAUTHBEARER needs it"
            ),
        ),
        Setting(
            name="sasl_kerberos_name",
            check=checks.anything,
            kind="object | None",
            default=None,
            for_connections=True,
            meaning="a `gssapi.Name`, instead of the next two",
        ),
        Setting(
            name="sasl_kerberos_service_name",
            check=checks.text,
            kind="str",
            unset=("",),
            default="kafka",
            for_connections=True,
            meaning="the name of the brokers' service",
        ),
        Setting(
            name="sasl_kerberos_domain_name",
            check=checks.optional(checks.text),
            kind="str | None",
            unset=("",),
            default=None,
            for_connections=True,
            meaning="None is the broker's host",
        ),
    ),
    "Metrics": (
        Setting(
            name="metrics_enabled",
            check=checks.boolean,
            kind="bool",
            default=True,
            meaning="whether `metrics()` has anything",
        ),
        Setting(
            name="metric_reporters",
            check=checks.metric_reporters,
            kind="Sequence[object] | None",
            unset=("",),
            default=[],
            meaning=(
                "classes of reporters (`kafka.metrics.metrics_reporter`); the constructor"
                " makes one of each, which is told of each metric"
            ),
            notes="a value that a reporter reads is at most 0.1 s old",
        ),
        Setting(
            name="metrics_num_samples",
            check=checks.integer(1, 1000, "windows"),
            kind="int | None",
            unset=(None,),
            meaning="windows over which averages, maxima and rates are taken",
        ),
        Setting(
            name="metrics_sample_window_ms",
            check=checks.milliseconds(1),
            kind="int",
            meaning="length of a window",
        ),
        Setting(
            name="metric_group_prefix",
            check=checks.text,
            kind="str",
            default="consumer",
            meaning="beginning of the groups' names",
        ),
    ),
    "Ours": (
        Setting(
            name="default_api_timeout_ms",
            check=checks.milliseconds(),
            kind="float",
            meaning="how long a call may take that names no timeout",
            notes="Java's `default.api.timeout.ms`",
        ),
        Setting(
            name="auto_offset_reset_new_partitions",
            check=checks.one_of("earliest", "latest"),
            kind="str",
            meaning=(
                "with `auto_offset_reset='latest'`: where to start in a partition that came into"
                " being after we subscribed; `'latest'` is kafka-python's way, and skips what is"
                " written before the partition is noticed"
            ),
            notes="[which partitions are new](groups.md#new-partitions)",
        ),
        Setting(
            name="auto_offset_reset_out_of_range",
            check=checks.optional(checks.offset_reset),
            kind="str | None",
            meaning=(
                "where to go from an offset that the log does not have (any more): a value of"
                " `auto_offset_reset`; None: the same as there"
            ),
            notes=(
                "also for positions in a topic that was deleted and created anew. The event"
                " `position.reset` is a warning then"
            ),
        ),
        Setting(
            name="group_protocol",
            check=checks.group_protocol,
            kind="str",
            meaning=(
                "how a group rebalances: `'classic'`, `'consumer'` (KIP-848, Kafka 4.0 and"
                " newer), or `'auto'`: `'consumer'` where the cluster speaks it, else `'classic'`"
            ),
            notes=(
                "Java's `group.protocol`. What `'auto'` has chosen is in `status()` and in the"
                " log, and stays. Without a `group_id` it is ignored"
            ),
        ),
        Setting(
            name="group_remote_assignor",
            check=checks.optional(checks.not_blank),
            kind="str | None",
            meaning=(
                "the brokers' assignor that a KIP-848 group is to use, `'uniform'` or `'range'`;"
                " None leaves it to the brokers"
            ),
            notes="Java's `group.remote.assignor`. Refused with `'classic'`",
        ),
        Setting(
            name="max_buffered_bytes",
            check=checks.optional(checks.size(high=INT64_MAX)),
            kind="int | None",
            default=None,
            meaning=(
                "bound on what is fetched and not yet given out; None is 32 MiB, or"
                " `fetch_max_bytes` if that is less"
            ),
            notes="what may come beyond the bound stands below",
        ),
        Setting(
            name="max_decompressed_batch_bytes",
            check=checks.size(high=INT64_MAX),
            kind="int",
            meaning=(
                "a batch that decompresses to more is refused (`BatchTooLargeError`), at the"
                " cost of this much memory at most"
            ),
            notes=(
                "a few kilobytes can ask for a gigabyte. With the default the consumer stays"
                " within `max_buffered_bytes` and 64 MB; producers of batches of tens of MB"
                " (`max.request.size`, `message.max.bytes`) need more"
            ),
        ),
        Setting(
            name="retry_backoff_max_ms",
            check=checks.milliseconds(),
            kind="float",
            meaning="longest wait between retries (KIP-580)",
        ),
        Setting(
            name="socket_connection_setup_timeout_ms",
            check=checks.milliseconds(1),
            kind="float",
            field="connection_setup_timeout",
            for_connections=True,
            meaning="how long a connection may take to be made, over all addresses of the name",
            notes=(
                "each address is tried in its turn, a quarter of a second after the one before or"
                " sooner"
            ),
        ),
    ),
}

#: The same, by name.
SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting for settings in SECTIONS.values() for setting in settings
}

#: Those that our parts read, by the names of their fields in `Settings`.
FIELDS: Final[Mapping[str, Setting]] = {
    setting.read_as: setting for setting in SETTINGS.values() if setting.read_as is not None
}

#: The names of those that the connections are given.
FOR_CONNECTIONS: Final = tuple(
    name for name, setting in SETTINGS.items() if setting.for_connections
)

#: Every setting and its default: kafka-python's `KafkaConsumer.DEFAULT_CONFIG` and ours.
DEFAULT_CONFIG: Final[dict[str, Any]] = {
    name: setting.given_by_default() for name, setting in SETTINGS.items()
}
