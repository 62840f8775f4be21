"""Settings of TLS, SASL and proxies: they are checked before anything is connected."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.kafka.real.certificates import Certificates, make_certificates
from tests.unit.consumer.configuration.builders import (
    PASSWORD,
    events,
    refusal,
    settings,
    with_password,
)

# -- security


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_sasl_needs_a_mechanism(protocol: str) -> None:
    assert f"{protocol} needs a sasl_mechanism" in refusal(security_protocol=protocol)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("missing", ["sasl_plain_username", "sasl_plain_password"])
@pytest.mark.parametrize("nothing", [None, ""])
def test_a_password_mechanism_needs_both_name_and_password(
    mechanism: str, missing: str, nothing: Any
) -> None:
    configs = with_password(sasl_mechanism=mechanism)

    assert refusal(**{**configs, missing: nothing}) == f"sasl_mechanism {mechanism} needs {missing}"


def test_oauthbearer_needs_a_token_provider() -> None:
    class Provider(AbstractTokenProvider):
        def token(self) -> str:
            return "t"

    configs: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }
    provider = Provider()

    assert "needs sasl_oauth_token_provider" in refusal(**configs)
    ours = settings(**configs, sasl_oauth_token_provider=provider)
    assert ours.connection["sasl_oauth_token_provider"] is provider


def test_msk_iam_needs_tls() -> None:
    configs = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "AWS_MSK_IAM"}

    assert "needs security_protocol SASL_SSL" in refusal(**configs)


@pytest.mark.parametrize(
    ("mechanism", "package"), [("AWS_MSK_IAM", "botocore"), ("GSSAPI", "gssapi")]
)
def test_a_mechanism_whose_package_is_missing_is_refused_by_its_name(
    mechanism: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert f"needs the package {package!r}" in refusal(
        security_protocol="SASL_SSL", sasl_mechanism=mechanism
    )


@pytest.mark.parametrize(
    ("name", "value", "needed"),
    [
        ("sasl_mechanism", "PLAIN", "SASL_SSL or SASL_PLAINTEXT"),
        ("ssl_cafile", "ca.pem", "SSL or SASL_SSL"),
        ("ssl_context", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "SSL or SASL_SSL"),
    ],
)
def test_security_without_a_security_protocol_is_refused(
    name: str, value: Any, needed: str
) -> None:
    assert f"{name} is set, but security_protocol is not: set it to {needed}" in refusal(
        **{name: value}
    )


@pytest.mark.parametrize(("name", "value"), [("sasl_mechanism", "PLAIN"), ("ssl_cafile", "ca")])
def test_security_that_the_chosen_protocol_ignores_is_traced(name: str, value: str) -> None:
    (event,) = events(**{name: value}, security_protocol="PLAINTEXT")

    assert (event["event"], event["setting"]) == ("setting.ignored", name)
    assert event["because"] == "security_protocol is PLAINTEXT"


# -- TLS files


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls") / "certificates")


def encrypted_key(certificates: Certificates, folder: Path) -> Path:
    key = serialization.load_pem_private_key(certificates.alice_key_file.read_bytes(), None)
    file = folder / "encrypted.key"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    return file


def revocation_list(folder: Path) -> Path:
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "aktor test authority")])
    crl = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(name)
        .last_update(now)
        .next_update(now + datetime.timedelta(days=1))
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    file = folder / "crl.pem"
    file.write_bytes(crl.public_bytes(serialization.Encoding.PEM))
    return file


def test_sound_files_pass_and_each_connection_reads_them_again(certificates: Certificates) -> None:
    connection = settings(
        security_protocol="SSL",
        ssl_cafile=certificates.ca_file,
        ssl_certfile=str(certificates.alice_cert_file),
        ssl_keyfile=str(certificates.alice_key_file),
    ).connection

    assert connection["ssl_cafile"] == str(certificates.ca_file)
    assert connection["ssl_context"] is None


def test_one_file_may_hold_certificate_and_key(certificates: Certificates) -> None:
    assert settings(security_protocol="SSL", ssl_certfile=certificates.broker_file)


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"])
def test_a_file_that_is_not_there_is_named(name: str) -> None:
    text = refusal(security_protocol="SSL", **{name: "/no/such/file.pem"})

    assert text == f"{name} '/no/such/file.pem' cannot be read: No such file or directory"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    text = refusal(security_protocol="SSL", ssl_cafile=tmp_path)

    assert "cannot be read: Is a directory" in text


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile", "ssl_crlfile"])
def test_a_file_that_holds_something_else_is_named(name: str, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no certificate\n")

    assert f"{name} {str(file)!r}" in refusal(security_protocol="SSL", **{name: file})


def test_certificates_are_no_revocation_list(certificates: Certificates) -> None:
    assert "holds no CRL" in refusal(security_protocol="SSL", ssl_crlfile=certificates.ca_file)


def test_a_revocation_list_is_no_authority(tmp_path: Path) -> None:
    text = refusal(security_protocol="SSL", ssl_cafile=revocation_list(tmp_path))

    assert "holds no certificate" in text


def test_a_certificate_without_its_key_is_refused(certificates: Certificates) -> None:
    text = refusal(security_protocol="SSL", ssl_certfile=certificates.alice_cert_file)

    assert "without ssl_keyfile the file must hold the key as well" in text


def test_a_key_without_its_certificate_is_refused(certificates: Certificates) -> None:
    text = refusal(security_protocol="SSL", ssl_keyfile=certificates.alice_key_file)

    assert text == "ssl_keyfile is set, but ssl_certfile is not: a key needs both"


def test_a_key_of_another_certificate_is_refused(certificates: Certificates) -> None:
    text = refusal(
        security_protocol="SSL",
        ssl_certfile=certificates.broker_file,
        ssl_keyfile=certificates.alice_key_file,
    )

    assert "cannot be used (KEY_VALUES_MISMATCH)" in text


def test_an_encrypted_key_without_a_password_is_refused_and_nobody_is_asked_for_it(
    certificates: Certificates, tmp_path: Path
) -> None:
    key = encrypted_key(certificates, tmp_path)
    text = refusal(
        security_protocol="SSL", ssl_certfile=certificates.alice_cert_file, ssl_keyfile=key
    )

    assert text == f"the key in {str(key)!r} is encrypted: set ssl_password"


@pytest.mark.parametrize("password", [PASSWORD, PASSWORD.encode(), lambda: PASSWORD])
def test_an_encrypted_key_opens_with_its_password(
    password: Any, certificates: Certificates, tmp_path: Path
) -> None:
    configs = {
        "security_protocol": "SSL",
        "ssl_certfile": certificates.alice_cert_file,
        "ssl_keyfile": encrypted_key(certificates, tmp_path),
    }

    assert settings(**configs, ssl_password=password)
    text = refusal(**configs, ssl_password="wrong")
    assert "cannot be used" in text
    assert "wrong" not in text.replace("wrong format or wrong ssl_password", "")


def test_a_revocation_list_and_ciphers_pass_on_to_the_connections(tmp_path: Path) -> None:
    crl = revocation_list(tmp_path)

    connection = settings(
        security_protocol="SSL", ssl_crlfile=crl, ssl_ciphers="ECDHE-ECDSA-AES256-GCM-SHA384"
    ).connection

    assert connection["ssl_crlfile"] == str(crl)
    assert connection["ssl_ciphers"] == "ECDHE-ECDSA-AES256-GCM-SHA384"


def test_unknown_ciphers_are_refused() -> None:
    assert "a list of ciphers that OpenSSL knows" in refusal(
        security_protocol="SSL", ssl_ciphers="ROT13"
    )


def test_a_context_given_by_the_user_makes_the_files_irrelevant() -> None:
    mine = ssl.create_default_context()

    ours = settings(security_protocol="SSL", ssl_context=mine, ssl_cafile="/no/such/file.pem")

    assert ours.connection["ssl_context"] is mine


# -- proxies


@pytest.mark.parametrize("name", ["proxy_url", "socks5_proxy"])
def test_a_proxy_reaches_the_connections(name: str) -> None:
    assert settings(**{name: "socks5h://proxy:1080"}).connection["proxy_url"] == (
        "socks5h://proxy:1080"
    )


@pytest.mark.parametrize(
    "address", ["proxy:1080", "ftp://proxy:21", "socks5://proxy", "socks5://:1080", "http://p:x"]
)
def test_a_proxy_that_cannot_be_used_is_refused_without_repeating_it(address: str) -> None:
    text = refusal(proxy_url=address)

    assert "must look like socks5://host:1080" in text
    assert address not in text
