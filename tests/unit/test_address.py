"""Addresses as texts: what is written can be read, and copied into bootstrap_servers."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.address import written
from aktor.consumer.configuration.bootstrap import addresses
from aktor.events.metadata import Broker


@pytest.mark.parametrize("host", ["localhost", "b1.example", "127.0.0.1", "::1", "fe80::1%eth0"])
def test_what_is_written_names_the_same_address_in_bootstrap_servers(host: str) -> None:
    assert addresses(written(host, 9093)) == ((host, 9093),)
    assert str(Broker(node_id=1, host=host, port=9093)).endswith(f" at {written(host, 9093)}")


@pytest.mark.parametrize("host", ["", None])
def test_a_broker_that_names_no_host_has_a_text_too(host: Any) -> None:
    assert written(host, -1) == f"{host}:-1"
