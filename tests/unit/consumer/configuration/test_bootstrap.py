"""The bootstrap servers, as a user may write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from aktor.errors import ConfigurationError
from tests.unit.consumer.configuration.builders import (
    PASSWORD,
    refusal,
    settings,
)


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ("broker", [("broker", 9092)]),
        ("broker:19092", [("broker", 19092)]),
        ("a:1, b:2 ,c", [("a", 1), ("b", 2), ("c", 9092)]),
        ("a:1,", [("a", 1)]),
        (["", "a:1", " "], [("a", 1)]),
        (["a:1", "b"], [("a", 1), ("b", 9092)]),
        (["a:1,b:2, "], [("a", 1), ("b", 2)]),
        (("a:1",), [("a", 1)]),
        (iter(["a:1"]), [("a", 1)]),
        ("SASL_SSL://broker:9093", [("broker", 9093)]),
        ("10.0.0.1:9092", [("10.0.0.1", 9092)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("[fe80::1%eth0]", [("fe80::1%eth0", 9092)]),
        ("SSL://[::1]:9093", [("::1", 9093)]),
        ("::1", [("::1", 9092)]),
        ("my_broker.kafka.svc.cluster.local.:9092", [("my_broker.kafka.svc.cluster.local.", 9092)]),
    ],
)
def test_bootstrap_servers_are_read_in_every_form(given: Any, addresses: Any) -> None:
    assert settings(bootstrap_servers=given).bootstrap_servers == tuple(addresses)


@pytest.mark.parametrize(
    ("given", "item"),
    [
        ("broker:port", "'broker:port'"),
        ("broker:", "'broker:'"),
        ("broker:0", "'broker:0'"),
        (["a:1", "b:70000"], "'b:70000'"),
        ("http://broker:9092/path", "'http://broker:9092/path'"),
        ("two words", "'two words'"),
        ([9092], "9092"),
        (["a", None], "None"),
    ],
)
def test_a_bootstrap_server_that_cannot_be_read_is_named(given: Any, item: str) -> None:
    assert f"an item of bootstrap_servers is {item}, but must be" in refusal(
        bootstrap_servers=given
    )


@pytest.mark.parametrize("given", [[], "", " , ", [""], None, 9092, b"broker:9092"])
def test_without_any_bootstrap_server_there_is_no_consumer(given: Any) -> None:
    assert "bootstrap_servers" in refusal(bootstrap_servers=given)


@pytest.mark.parametrize(
    "address",
    [
        f"SASL_SSL://alice:{PASSWORD}@b:9092",
        f"alice:{PASSWORD}@b:9092",
        f"alice:x@{PASSWORD}@b:9092",
        f"alice:{PASSWORD}@b:9092\nalice:{PASSWORD}@c:9092\n",
    ],
)
def test_a_password_in_a_bootstrap_address_is_not_repeated(address: str) -> None:
    for servers in (address, [address], address.encode(), [address.encode()]):
        told = refusal(bootstrap_servers=servers)
        assert PASSWORD not in told
        assert "***@" in told


@hypothesis_settings(deadline=None)
@given(st.one_of(st.text(), st.lists(st.text())))
def test_bootstrap_servers_give_addresses_or_a_configuration_error(servers: Any) -> None:
    try:
        addresses = settings(bootstrap_servers=servers).bootstrap_servers
    except ConfigurationError:
        return
    assert addresses
    assert all(host and 0 < port < 65536 for host, port in addresses)
