"""The TLS context of a connection, from kafka-python's settings."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

__all__ = ["make_ssl_context"]


def make_ssl_context(config: Mapping[str, Any]) -> ssl.SSLContext:
    """The TLS context for one connection. Each connection makes its own, so that certificates which
    were renewed on disk are used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = config.get("ssl_check_hostname", True)
    if config.get("ssl_cafile"):
        context.load_verify_locations(config["ssl_cafile"])
    else:
        context.load_default_certs()
    if config.get("ssl_certfile"):
        context.load_cert_chain(
            config["ssl_certfile"], config.get("ssl_keyfile"), config.get("ssl_password")
        )
    if config.get("ssl_crlfile"):
        context.load_verify_locations(config["ssl_crlfile"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if config.get("ssl_ciphers"):
        context.set_ciphers(config["ssl_ciphers"])
    return context
