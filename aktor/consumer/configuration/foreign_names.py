"""Names of settings in other clients, and what stands for each of them here.

Java's client, librdkafka (confluent-kafka), aiokafka, and kafka-python's older versions and its
producer. A name that is spelt as here but for dots and dashes stands in no table.
"""

from __future__ import annotations

import fnmatch
from typing import Final

__all__ = ["SAME", "advice"]

#: Settings that are here under another name, and take the same values in the same unit.
SAME: Final = {
    "api_version_auto_timeout_ms": "bootstrap_timeout_ms",
    "auto_commit_enable": "enable_auto_commit",
    "default_topic_offset_reset": "auto_offset_reset",
    "fetch_error_backoff_ms": "retry_backoff_ms",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "metadata_broker_list": "bootstrap_servers",
    "rebalance_timeout_ms": "max_poll_interval_ms",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_password": "sasl_plain_password",
    "sasl_username": "sasl_plain_username",
    "socket_receive_buffer_bytes": "receive_buffer_bytes",
    "socket_send_buffer_bytes": "send_buffer_bytes",
    "socket_timeout_ms": "request_timeout_ms",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_cipher_suites": "ssl_ciphers",
    "ssl_crl_location": "ssl_crlfile",
    "ssl_endpoint_identification_algorithm": "ssl_check_hostname",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
}

#: What to do instead of a setting that is not here (`*`: any end of the name); the first counts.
_ADVICE: Final[dict[str, tuple[str, ...]]] = {
    "no offset is stored apart from a commit: with enable_auto_commit=False, commit what is done by"
    " commit({partition: OffsetAndMetadata(record.offset + 1)})": (
        *("enable_auto_offset_store", "offset_store_*"),
    ),
    "default_offset_commit_callback is called with (offsets, error)": (
        *("offset_commit_cb", "on_commit"),
    ),
    "compare position(partition) with end_offsets([partition])": ("enable_partition_eof",),
    "give a listener: subscribe(topics, listener=...)": (
        *("rebalance_cb", "on_assign", "on_revoke", "on_lost"),
    ),
    "errors are raised by the methods, log lines come from the logger 'aktor', more of them with"
    " the environment variable AKTOR_TRACE": (
        *("background_event_cb", "debug", "enabled_events", "error_cb", "log_*", "logger"),
    ),
    "metrics() and status() say it at any time; metric_reporters are told of each metric": (
        *("auto_include_jmx_reporter", "enable_metrics_push", "metrics_context_*"),
        *("metrics_recording_level", "statistics_interval_ms", "stats_cb", "throttle_cb"),
    ),
    "loop over the consumer, or give process() a handler": ("consume_*",),
    "a subclass of KafkaConsumer with a poll() of its own sees each record": (
        *("interceptor_classes", "interceptors"),
    ),
    "give key_deserializer and value_deserializer": ("default_list_*",),
    "a KafkaConsumer needs no event loop": ("loop",),
    "the setting belongs to the consumer, not to a topic (auto_offset_reset)": (
        *("default_topic_conf", "default_topic_config"),
    ),
    "share groups are not supported": ("share_*",),
    "give subscribe() a pattern that leaves these topics out": ("topic_blacklist",),
    "certificates and keys are files in PEM (ssl_cafile, ssl_certfile, ssl_keyfile, ssl_password),"
    " or in an ssl_context": (
        *("https_ca_*", "ssl_ca", "ssl_ca_*", "ssl_certificate", "ssl_certificate_pem", "ssl_key"),
        *("ssl_key_pem", "ssl_keystore_*", "ssl_truststore_*"),
    ),
    "give an ssl_context that is made as you need it": (
        *("enable_ssl_certificate_verification", "security_providers", "ssl_certificate_verify_cb"),
        *("ssl_curves_list", "ssl_enabled_protocols", "ssl_engine_*", "ssl_keymanager_algorithm"),
        *("ssl_protocol", "ssl_provider", "ssl_providers", "ssl_secure_random_implementation"),
        *("ssl_sigalgs_list", "ssl_trustmanager_algorithm"),
    ),
    "user and password are sasl_plain_username and sasl_plain_password, also for SCRAM": (
        *("sasl_jaas_config",),
    ),
    "the ticket is that of the environment (kinit, KRB5_CLIENT_KTNAME); what is set here is"
    " sasl_kerberos_service_name and sasl_kerberos_domain_name": (
        *("sasl_kerberos_keytab", "sasl_kerberos_kinit_cmd", "sasl_kerberos_min_time_*"),
        *("sasl_kerberos_principal", "sasl_kerberos_ticket_*"),
    ),
    "give a sasl_oauth_token_provider, whose token() fetches a token:"
    " aktor.net.sasl.oauth.ClientCredentials does it by a client's id and secret": (
        *("enable_sasl_oauthbearer_unsecure_jwt", "sasl_client_callback_handler_class"),
        *("oauth_cb", "oauthbearer_token_refresh_cb", "sasl_login_*", "sasl_oauthbearer_*"),
    ),
    "it is one of socket_options, as in [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]": (
        *("socket_keepalive_enable", "socket_nagle_disable"),
    ),
    "name the address in bootstrap_servers; each attempt to connect looks it up anew": (
        *("broker_address_*", "resolve_*"),
    ),
    "what is fetched ahead is bounded by max_buffered_bytes, in bytes": (
        *("fetch_queue_backoff_ms", "queued_max_messages_kbytes", "queued_min_messages"),
    ),
    "when no broker can be reached, the consumer asks the bootstrap servers again by itself": (
        *("metadata_recovery_*",),
    ),
    "that time does not grow here: socket_connection_setup_timeout_ms": (
        "socket_connection_setup_timeout_max_ms",
    ),
    "versions are agreed upon with each broker; for an old one there is api_version": (
        *("api_version_fallback_ms", "api_version_request*", "broker_version_fallback"),
    ),
    "metadata is asked for as soon as it is needed, and every metadata_max_age_ms": (
        *("topic_metadata_*",),
    ),
    "it is a setting of producers": (
        *("acks", "batch_*", "buffer_memory", "compression_*", "delivery_*", "dr_*"),
        *("enable_idempotence", "linger_ms", "max_block_ms", "max_request_size"),
        *("message_send_max_retries", "message_timeout_ms", "partitioner*", "queue_buffering_*"),
        *("queuing_strategy", "request_required_acks", "retries", "sticky_partitioning_*"),
        *("transaction_timeout_ms", "transactional_id"),
    ),
    "leave it out: it says how another client works inside": (
        *("builtin_features", "closesocket_cb", "connect_cb", "coordinator_query_interval_ms"),
        *("enable_random_seed", "group_protocol_type", "internal_*", "legacy_iterator"),
        *("message_copy_max_bytes", "message_max_bytes", "opaque", "open_cb"),
        *("plugin_library_paths", "reconnect_backoff_jitter_ms", "sock_chunk_*"),
        *("socket_blocking_max_ms", "socket_cb", "socket_max_fails"),
    ),
}


def advice(name: str) -> str | None:
    """What to do instead of this setting of another client; None: it is not known."""
    for text, names in _ADVICE.items():
        if any(fnmatch.fnmatchcase(name, one) for one in names):
            return text
    return None
