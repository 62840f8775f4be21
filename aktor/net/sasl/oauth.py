"""kafka-python's `kafka.net.sasl.oauth`: the base class of token providers, for OAUTHBEARER; and
one that logs in with a client's id and secret.
"""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.net.sasl.oauth import AbstractTokenProvider

from aktor.net.sasl.client_credentials import ClientCredentials, TokenError

__all__ = ["AbstractTokenProvider", "ClientCredentials", "TokenError"]
