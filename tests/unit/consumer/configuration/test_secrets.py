"""Secrets in settings are shown nowhere."""

from __future__ import annotations

import copy
import json
import pickle
import pprint
from typing import Any
from urllib.parse import urlparse

import pytest
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.scram import ScramClient

from aktor.consumer.configuration.configuration import parse
from aktor.consumer.configuration.secrets import Masked, Secret
from aktor.trace import recording
from tests.unit.consumer.configuration.builders import (
    PASSWORD,
    config,
    events,
    refusal,
    settings,
    with_password,
)


def with_str(view: dict[str, Any]) -> list[tuple[str, str]]:
    return [(key, value) for key, value in view.items() if isinstance(value, str)]


def secretive(**more: Any) -> dict[str, Any]:
    return config(
        **with_password(proxy_url=f"http://alice:{PASSWORD}@proxy:8080", ssl_password=PASSWORD),
        **more,
    )


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        "{}".format,
        "%s".__mod__,
        pprint.pformat,
        lambda view: repr(pickle.loads(pickle.dumps(view))),
        lambda view: f"{view!r} {view}",
        lambda view: json.dumps(view, default=repr),
        lambda view: " ".join(f"{key}={value:>40}" for key, value in with_str(view)),
        lambda view: " ".join([value for _key, value in with_str(view)]),
        lambda view: repr([vars(v) if hasattr(v, "__dict__") else v for v in view.values()]),
        lambda view: repr(copy.deepcopy({k: v for k, v in view.items() if isinstance(v, str)})),
    ],
)
def test_a_secret_is_in_nothing_that_shows_the_configuration(show: Any) -> None:
    shown = show(secretive())

    assert PASSWORD not in shown
    assert "***" in shown


def test_a_secret_is_not_in_a_pickle() -> None:
    assert PASSWORD.encode() not in pickle.dumps(secretive())


@pytest.mark.parametrize("name", ["sasl_plain_password", "ssl_password", "proxy_url"])
@pytest.mark.parametrize("show", [repr, str, "{}".format, "{:>9}".format, "%s".__mod__])
def test_a_secret_for_the_connections_does_not_show_itself_either(name: str, show: Any) -> None:
    ours = settings(
        **with_password(proxy_url=f"http://alice:{PASSWORD}@proxy:8080", ssl_password=PASSWORD)
    )

    assert PASSWORD not in show(ours.connection[name])
    assert PASSWORD not in repr([ours, ours.connection, ours.__getstate__()])
    assert PASSWORD.encode() not in pickle.dumps(ours.connection[name])


def test_a_secret_works_as_itself_for_kafka_net() -> None:
    connection = settings(**with_password()).connection

    plain = get_sasl_mechanism("PLAIN")(**connection)
    scram = ScramClient("alice", connection["sasl_plain_password"], "SCRAM-SHA-256")

    assert plain.auth_bytes() == "\0".join(["alice", "alice", PASSWORD]).encode()
    assert scram.password == PASSWORD.encode()


def test_a_proxys_password_works_for_kafka_net() -> None:
    connection = settings(proxy_url=f"socks5://alice:{PASSWORD}@proxy:1080").connection

    assert urlparse(connection["proxy_url"]).password == PASSWORD


def test_a_copied_secret_still_works() -> None:
    secret = Secret(PASSWORD)

    assert copy.copy(secret) == copy.deepcopy([secret])[0] == Secret(secret) == PASSWORD


def test_another_consumer_can_be_made_from_the_configuration_of_one() -> None:
    first, ours = parse(with_password(group_id="g"), trace=recording()[0])
    again, theirs = parse(copy.deepcopy(first), trace=recording()[0])

    assert theirs.connection == ours.connection
    assert again == first


@pytest.mark.parametrize("where", ["sasl_plain_password", "ssl_password", "proxy_url"])
def test_a_configuration_that_lost_its_secrets_in_a_pickle_is_refused(where: str) -> None:
    pickled = pickle.loads(pickle.dumps(secretive()[where]))

    assert isinstance(pickled, Masked)
    assert refusal(**{**with_password(), where: pickled}).startswith(f"{where} was masked")


@pytest.mark.parametrize("before", ["", "kafka://"])
def test_a_password_in_an_address_is_refused_without_showing_it(before: str) -> None:
    text = refusal(bootstrap_servers=f"{before}joe:{PASSWORD}@kafka:9092")

    assert f"'{before}***@kafka:9092'" in text
    assert PASSWORD not in text


@pytest.mark.parametrize("password", [[PASSWORD], PASSWORD.encode("utf-16"), {PASSWORD: 1}])
def test_a_password_of_the_wrong_type_is_refused_without_showing_it(password: Any) -> None:
    text = refusal(**with_password(sasl_plain_password=password))

    assert text.startswith("sasl_plain_password is ")
    assert PASSWORD not in text


def test_no_trace_of_a_configuration_holds_a_secret() -> None:
    heard = events(
        **with_password(security_protocol="PLAINTEXT", ssl_cafile="ca.pem", ssl_password=PASSWORD),
        socks5_proxy=f"socks5://alice:{PASSWORD}@proxy:1080",
    )

    assert len(heard) == 3
    assert PASSWORD not in repr(heard)
