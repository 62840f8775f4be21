"""Settings as a user gives them, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.consumer.configuration.configuration import parse
from aktor.errors import ConfigurationError
from aktor.settings import Settings
from aktor.trace import recording

PASSWORD = "hunter2-and-more"


def config(**configs: Any) -> dict[str, Any]:
    return parse(configs, trace=recording()[0])[0]


def settings(**configs: Any) -> Settings:
    return parse(configs, trace=recording()[0])[1]


def events(**configs: Any) -> list[dict[str, Any]]:
    trace, heard = recording()
    parse(configs, trace=trace)
    return heard


def refusal(**configs: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        parse(configs, trace=recording()[0])
    return str(raised.value).removeprefix("ConfigurationError: ")


def with_password(**configs: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
        **configs,
    }
