"""The types of a consumer's settings, for type checkers.

Made from `table` (`python -m tests.settings_table`); a test compares the two.
"""

from __future__ import annotations

import os
import selectors
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

from aktor.consumer.configuration.shapes import Deserializes, OnCommit, TokenProvider

__all__ = ["Config", "ConsumerSettings", "Keywords"]


class ConsumerSettings(TypedDict, total=False):
    """Settings of `KafkaConsumer(*topics, **settings)` that several consumers may share: all but
    the deserializers, which say what type a record's key and value have. docs/configuration.md."""

    bootstrap_servers: str | Iterable[str]
    client_id: str | None
    client_rack: str | None
    client_dns_lookup: str
    bootstrap_timeout_ms: float | None
    api_version: tuple[int, ...] | str | None
    group_id: str | None
    group_instance_id: str | None
    session_timeout_ms: float | None
    heartbeat_interval_ms: float | None
    max_poll_interval_ms: float | None
    partition_assignment_strategy: str | Iterable[object] | None
    exclude_internal_topics: bool
    auto_offset_reset: str | None
    enable_auto_commit: bool
    auto_commit_interval_ms: float
    default_offset_commit_callback: OnCommit | None
    isolation_level: str | int
    fetch_min_bytes: int
    fetch_max_wait_ms: float
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    consumer_timeout_ms: float | None
    check_crcs: bool
    enable_incremental_fetch_sessions: bool
    allow_auto_create_topics: bool
    metadata_max_age_ms: float
    request_timeout_ms: float
    retry_backoff_ms: float
    reconnect_backoff_ms: float
    reconnect_backoff_max_ms: float | None
    connections_max_idle_ms: float
    max_in_flight_requests_per_connection: int
    receive_message_max_bytes: int
    receive_buffer_bytes: int | None
    send_buffer_bytes: int | None
    socket_options: Sequence[tuple[int, int, int | bytes]]
    proxy_url: str | None
    socks5_proxy: str | None
    selector: type[selectors.BaseSelector]
    kafka_client: object
    security_protocol: str
    ssl_context: ssl.SSLContext | None
    ssl_check_hostname: bool
    ssl_cafile: str | os.PathLike[str] | None
    ssl_certfile: str | os.PathLike[str] | None
    ssl_keyfile: str | os.PathLike[str] | None
    ssl_password: str | bytes | Callable[[], str | bytes] | None
    ssl_crlfile: str | os.PathLike[str] | None
    ssl_ciphers: str | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_oauth_token_provider: TokenProvider | None
    sasl_kerberos_name: object | None
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    metrics_enabled: bool
    metric_reporters: Sequence[object] | None
    metrics_num_samples: int | None
    metrics_sample_window_ms: int
    metric_group_prefix: str
    default_api_timeout_ms: float
    auto_offset_reset_new_partitions: str
    auto_offset_reset_out_of_range: str | None
    group_protocol: str
    group_remote_assignor: str | None
    max_buffered_bytes: int | None
    max_decompressed_batch_bytes: int
    retry_backoff_max_ms: float
    socket_connection_setup_timeout_ms: float


class Keywords(ConsumerSettings, total=False):
    """All settings."""

    key_deserializer: Deserializes[object] | None
    value_deserializer: Deserializes[object] | None


class Config(TypedDict):
    """`consumer.config`: every setting, as it was given or by its default."""

    bootstrap_servers: str | Iterable[str]
    client_id: str | None
    client_rack: str
    client_dns_lookup: str
    bootstrap_timeout_ms: float | None
    api_version: tuple[int, ...] | str | None
    group_id: str | None
    group_instance_id: str | None
    session_timeout_ms: float | None
    heartbeat_interval_ms: float | None
    max_poll_interval_ms: float
    partition_assignment_strategy: str | Iterable[object]
    exclude_internal_topics: bool
    auto_offset_reset: str | None
    enable_auto_commit: bool
    auto_commit_interval_ms: float
    default_offset_commit_callback: OnCommit | None
    isolation_level: str | int
    key_deserializer: Deserializes[object] | None
    value_deserializer: Deserializes[object] | None
    fetch_min_bytes: int
    fetch_max_wait_ms: float
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    consumer_timeout_ms: float
    check_crcs: bool
    enable_incremental_fetch_sessions: bool
    allow_auto_create_topics: bool
    metadata_max_age_ms: float
    request_timeout_ms: float
    retry_backoff_ms: float
    reconnect_backoff_ms: float
    reconnect_backoff_max_ms: float
    connections_max_idle_ms: float
    max_in_flight_requests_per_connection: int
    receive_message_max_bytes: int
    receive_buffer_bytes: int | None
    send_buffer_bytes: int | None
    socket_options: Sequence[tuple[int, int, int | bytes]]
    proxy_url: str | None
    socks5_proxy: str | None
    selector: type[selectors.BaseSelector]
    kafka_client: object
    security_protocol: str
    ssl_context: ssl.SSLContext | None
    ssl_check_hostname: bool
    ssl_cafile: str | os.PathLike[str] | None
    ssl_certfile: str | os.PathLike[str] | None
    ssl_keyfile: str | os.PathLike[str] | None
    ssl_password: str | bytes | Callable[[], str | bytes] | None
    ssl_crlfile: str | os.PathLike[str] | None
    ssl_ciphers: str | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_oauth_token_provider: TokenProvider | None
    sasl_kerberos_name: object | None
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    metrics_enabled: bool
    metric_reporters: Sequence[object] | None
    metrics_num_samples: int
    metrics_sample_window_ms: int
    metric_group_prefix: str
    default_api_timeout_ms: float
    auto_offset_reset_new_partitions: str
    auto_offset_reset_out_of_range: str | None
    group_protocol: str
    group_remote_assignor: str | None
    max_buffered_bytes: int | None
    max_decompressed_batch_bytes: int
    retry_backoff_max_ms: float
    socket_connection_setup_timeout_ms: float
