"""How connections are secured: the settings of TLS and SASL, checked before one is opened."""

from __future__ import annotations

import importlib.util
import platform
import ssl
from typing import Any, Final

from aktor.consumer.configuration.checks import refusal
from aktor.consumer.configuration.secrets import Secret, unmasked
from aktor.errors import ConfigurationError
from aktor.trace import Trace

__all__ = [
    "SASL_MECHANISMS",
    "SECURITY_PROTOCOLS",
    "check_together",
    "password",
    "ssl_context",
    "token_provider",
]

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SASL_MECHANISMS: Final = (*PASSWORD_MECHANISMS, "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")


# -- checks of one value


def password(name: str, value: Any) -> Any:
    """A Secret, or a function that returns one (`ssl_password` only). Never shows the value."""
    value = unmasked(name, value)
    if callable(value) and name == "ssl_password":
        return value
    if isinstance(value, (bytes, bytearray)):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise ConfigurationError(f"{name} is bytes that are not UTF-8; pass a str") from None
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} is of type {type(value).__name__}, but must be a str")
    return Secret(value)


def ssl_context(name: str, value: Any) -> Any:
    if not isinstance(value, ssl.SSLContext):
        raise refusal(name, value, "an ssl.SSLContext")
    return value


def token_provider(name: str, value: Any) -> Any:
    if not callable(getattr(value, "token", None)):
        raise ConfigurationError(
            f"{name} is of type {type(value).__name__}, which has no token(): pass an instance of a"
            " class that implements kafka.net.sasl.oauth.AbstractTokenProvider"
        )
    return value


# -- checks of all of them together


def check_together(config: dict[str, Any], supplied: frozenset[str], log: Trace) -> None:
    """Refuse what cannot work, trace what is ignored. `supplied` are the names the user gave."""
    protocol = config["security_protocol"]
    tls, sasl = protocol.endswith("SSL"), protocol.startswith("SASL_")
    if not sasl and config["sasl_mechanism"] is not None:
        _ignore("sasl_mechanism", "SASL_SSL or SASL_PLAINTEXT", config, supplied, log)
    if not tls:
        for name in ("ssl_context", "ssl_cafile", "ssl_certfile"):
            if config[name] is not None:
                _ignore(name, "SSL or SASL_SSL", config, supplied, log)
    if sasl:
        _check_sasl(config)
    if tls and config["ssl_context"] is None:
        _check_tls_files(config)
        _try_tls_files(config)


def _ignore(
    name: str, needs: str, config: dict[str, Any], supplied: frozenset[str], log: Trace
) -> None:
    """The setting has no effect: ignore it if the user chose security_protocol, as kafka-python
    does; refuse it if the user did not."""
    if "security_protocol" not in supplied:
        raise ConfigurationError(
            f"{name} is set, but security_protocol is not: set it to {needs}; the default PLAINTEXT"
            " would neither authenticate nor encrypt"
        )
    log.warning(
        "setting.ignored",
        setting=name,
        because=f"security_protocol is {config['security_protocol']}",
    )


def _check_sasl(config: dict[str, Any]) -> None:
    protocol, mechanism = config["security_protocol"], config["sasl_mechanism"]
    if mechanism is None:
        raise ConfigurationError(
            f"security_protocol {protocol} needs a sasl_mechanism: one of"
            f" {', '.join(SASL_MECHANISMS)}"
        )
    needed: tuple[str, ...] = ()
    if mechanism in PASSWORD_MECHANISMS:
        needed = ("sasl_plain_username", "sasl_plain_password")
    elif mechanism == "OAUTHBEARER":
        needed = ("sasl_oauth_token_provider",)
    missing = [name for name in needed if not config[name]]
    if missing:
        raise ConfigurationError(f"sasl_mechanism {mechanism} needs {' and '.join(missing)}")

    if mechanism == "AWS_MSK_IAM":
        if protocol != "SASL_SSL":
            raise ConfigurationError("sasl_mechanism AWS_MSK_IAM needs security_protocol SASL_SSL")
        _need_package("botocore", mechanism)
    if mechanism == "GSSAPI" and platform.system() != "Windows":
        _need_package("gssapi", mechanism)


def _need_package(name: str, mechanism: str) -> None:
    if importlib.util.find_spec(name) is None:
        raise ConfigurationError(
            f"sasl_mechanism {mechanism} needs the package {name!r}, which is not installed"
        )


def _check_tls_files(config: dict[str, Any]) -> None:
    for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"):
        if config[name] is not None:
            try:
                with open(config[name], "rb"):
                    pass
            except OSError as error:
                raise ConfigurationError(
                    f"{name} {config[name]!r} cannot be read: {error.strerror}"
                ) from None
    if config["ssl_keyfile"] is not None and config["ssl_certfile"] is None:
        raise ConfigurationError("ssl_keyfile is set, but ssl_certfile is not: a key needs both")


def _try_tls_files(config: dict[str, Any]) -> None:
    """Load the files as each connection will, so that a mistake shows here, with its name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if config["ssl_cafile"] is not None:
        _load_certificates(context, "ssl_cafile", config["ssl_cafile"])
        if not context.cert_store_stats()["x509"]:
            raise ConfigurationError(f"ssl_cafile {config['ssl_cafile']!r} holds no certificate")
    if config["ssl_certfile"] is not None:
        _load_key(context, config)
    if config["ssl_crlfile"] is not None:
        _load_certificates(context, "ssl_crlfile", config["ssl_crlfile"])
        if not context.cert_store_stats()["crl"]:
            raise ConfigurationError(f"ssl_crlfile {config['ssl_crlfile']!r} holds no CRL")
    if config["ssl_ciphers"] is not None:
        try:
            context.set_ciphers(config["ssl_ciphers"])
        except ssl.SSLError:
            raise refusal(
                "ssl_ciphers", config["ssl_ciphers"], "a list of ciphers that OpenSSL knows"
            ) from None


def _load_certificates(context: ssl.SSLContext, name: str, path: str) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise ConfigurationError(f"{name} {path!r} cannot be used: {error.reason}") from None


def _load_key(context: ssl.SSLContext, config: dict[str, Any]) -> None:
    asked = False

    def no_password() -> str:  # without a function, OpenSSL would ask at the terminal and wait
        nonlocal asked
        asked = True
        return ""

    certificate, key = config["ssl_certfile"], config["ssl_keyfile"]
    try:
        context.load_cert_chain(certificate, key, config["ssl_password"] or no_password)
    except ssl.SSLError as error:
        if asked:
            raise ConfigurationError(
                f"the key in {key or certificate!r} is encrypted: set ssl_password"
            ) from None
        hint = "" if key else ": without ssl_keyfile the file must hold the key as well"
        raise ConfigurationError(
            f"ssl_certfile {certificate!r} and ssl_keyfile {key!r} cannot be used"
            f" ({error.reason or 'wrong format or wrong ssl_password'}){hint}"
        ) from None
