"""The options `kafka.*`, by the Java client's names, as settings of our consumer."""

from __future__ import annotations

from pathlib import Path

import pytest

from aktor.errors import ConfigurationError
from aktor.spark.client_settings import check, consumer_settings, resolved

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="alice" password="a\\"b;c";'
)


def test_names_of_java_and_values_of_text_become_our_settings() -> None:
    found = consumer_settings(
        {
            "bootstrap.servers": "a:1,b:2",
            "fetch.min.bytes": "1024",
            "check.crcs": "false",
            "isolation.level": "read_committed",
            "client.rack": "eu-1a",
        }
    )

    assert found == {
        "bootstrap_servers": "a:1,b:2",
        "fetch_min_bytes": 1024,
        "check_crcs": False,
        "isolation_level": "read_committed",
        "client_rack": "eu-1a",
    }


def test_a_jaas_line_has_the_user_and_the_password() -> None:
    assert consumer_settings({"sasl.jaas.config": JAAS}) == {
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'a"b;c',
    }


def test_a_jaas_line_without_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="must have username and password") as error:
        consumer_settings({"sasl.jaas.config": "X required username='canary';"})

    assert "canary" not in str(error.value)


def test_stores_are_pem_files() -> None:
    found = consumer_settings(
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca.pem",
            "ssl.keystore.location": "/me.pem",
            "ssl.key.password": "p",
            "ssl.endpoint.identification.algorithm": "",
        }
    )

    assert found == {
        "ssl_cafile": "/ca.pem",
        "ssl_certfile": "/me.pem",
        "ssl_keyfile": "/me.pem",
        "ssl_password": "p",
        "ssl_check_hostname": False,
    }
    with pytest.raises(ConfigurationError, match="must be PEM"):
        consumer_settings({"ssl.truststore.type": "JKS"})


def test_what_only_the_java_client_has_is_passed_over() -> None:
    assert consumer_settings({"ssl.protocol": "TLSv1.3"}) == {}


def test_a_reference_is_resolved_where_the_client_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets").write_text("# our secrets\npassword = s3cret\n")
    (tmp_path / "user").write_text("alice\n")
    monkeypatch.setenv("RACK", "eu-1b")

    assert resolved("client.rack", "${env:RACK}") == "eu-1b"
    assert resolved("sasl.password", f"${{file:{tmp_path}/secrets:password}}") == "s3cret"
    assert resolved("sasl.username", f"x-${{directory:{tmp_path}:user}}") == "x-alice"


@pytest.mark.parametrize("text", ["${env:NOWHERE}", "${file:/nowhere:a}", "${directory:/no:a}"])
def test_a_reference_to_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="stands for nothing in this process"):
        resolved("sasl.password", text)


def test_the_driver_checks_settings_without_resolving_references() -> None:
    check({"bootstrap.servers": "a:1", "client.rack": "${env:NOWHERE}"})

    with pytest.raises(ConfigurationError, match="fetch_min_bytes"):
        check({"bootstrap.servers": "a:1", "fetch.min.bytes": "-1"})


@pytest.mark.parametrize(
    "secret", [{"sasl.jaas.config": "${env:JAAS}"}, {"sasl.password": "${file:/a:b}"}]
)
def test_a_login_may_refer_to_its_password(secret: dict[str, str]) -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    check({"bootstrap.servers": "a:1"} | login | secret)
    with pytest.raises(ConfigurationError, match="did you mean"):
        check({"bootstrap.servers": "a:1", "sasl.mechanisms": "PLAIN"} | secret)
