"""kafka-python's `kafka.net.sasl.oauth`: the base class of token providers, for OAUTHBEARER."""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.net.sasl.oauth import AbstractTokenProvider

__all__ = ["AbstractTokenProvider"]
