"""Certificates for scripted brokers, made for the test run, with an authority of their own."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_NOW = datetime.datetime.now(datetime.UTC)
_DAY = datetime.timedelta(days=1)


class Certificates:
    """`broker` is good for 127.0.0.1, `expired` was, `elsewhere` is good for another host."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.ca_file = folder / "ca.pem"
        authority = self._sign("authority", self._key.public_key(), ca=True)
        self.ca_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        self._make("broker", "127.0.0.1", until=_NOW + _DAY)
        self._make("expired", "127.0.0.1", until=_NOW - _DAY)
        self._make("elsewhere", "127.0.0.99", until=_NOW + _DAY)

    def file(self, name: str) -> Path:
        """Key and certificate, PEM."""
        return self._folder / f"{name}.pem"

    def server(self, name: str) -> ssl.SSLContext:
        """What a broker with this certificate listens with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file(name))
        return context

    def _make(self, name: str, ip: str, *, until: datetime.datetime) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key.public_key(), ip=ip, until=until)
        self.file(name).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )

    def _sign(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        *,
        ip: str | None = None,
        until: datetime.datetime = _NOW + _DAY,
        ca: bool = False,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name("authority"))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(_NOW - 10 * _DAY)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if ip is not None:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ip))])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])
