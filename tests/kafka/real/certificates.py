"""Certificates for TLS on this machine, from an authority founded on the spot."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """PEM files for TLS: the authority, the broker's identity, and alice's for mutual TLS."""

    ca_file: Path
    broker_file: Path
    alice_cert_file: Path
    alice_key_file: Path


def make_certificates(folder: Path) -> Certificates:
    """Found an authority and let it certify a broker on this machine and the user alice."""
    folder.mkdir(parents=True)
    ca_key, ca_name = ec.generate_private_key(ec.SECP256R1()), _name("aktor test authority")
    ca = _certificate(ca_name, ca_key.public_key(), ca_name, ca_key, authority=True)
    broker_key, alice_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    broker = _certificate(_name("localhost"), broker_key.public_key(), ca_name, ca_key)
    alice = _certificate(_name("alice"), alice_key.public_key(), ca_name, ca_key)
    files = Certificates(
        ca_file=folder / "ca.pem",
        broker_file=folder / "broker.pem",
        alice_cert_file=folder / "alice.pem",
        alice_key_file=folder / "alice.key",
    )
    files.ca_file.write_bytes(_pem(ca))
    files.broker_file.write_bytes(_key_pem(broker_key) + _pem(broker) + _pem(ca))
    files.alice_cert_file.write_bytes(_pem(alice))
    files.alice_key_file.write_bytes(_key_pem(alice_key))
    return files


def _certificate(
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if not authority:
        builder = builder.add_extension(x509.SubjectAlternativeName(here), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
