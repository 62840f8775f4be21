"""The SASL mechanisms PLAIN, SCRAM and OAUTHBEARER: the client's tokens, as Kafka's Java client
makes them. The other mechanisms (GSSAPI, AWS_MSK_IAM, those that an application has registered) are
kafka-python's.

Of kafka-python's own classes for these three, SCRAM does not escape user names, takes any number of
iterations from the server, and hides an error of the server behind a `KeyError`; OAUTHBEARER
refuses a provider that has the methods and is no subclass, and sends whatever the provider returns.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import SaslMechanismOAuth
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram

__all__ = ["Mechanism", "make_mechanism", "without_tokens"]

#: Bounds of the iterations that a server may ask for. Fewer would let somebody who poses as the
#: broker try passwords faster (Java's `ScramMechanism.minIterations`); more would keep us busy.
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 1_000_000

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

#: What a token and an extension consist of (RFC 7628; Java's `OAuthBearerClientInitialResponse`).
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_EXTENSION_KEY: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


class Mechanism(Protocol):
    """The client's side of a login. Whatever a method raises ends the login."""

    def auth_bytes(self) -> bytes:
        """The next token for the broker."""

    def receive(self, auth_bytes: bytes) -> object:
        """The broker's answer to it."""

    def is_done(self) -> bool:
        """Whether no token follows."""

    def is_authenticated(self) -> bool:
        """Whether the broker has accepted us, once it is done."""


def make_mechanism(name: str, host: str, config: Mapping[str, Any]) -> Mechanism:
    """The mechanism of this name, for a login at the broker `host`. `config`: kafka-python's
    settings that begin with `sasl_`, and `security_protocol`."""
    theirs = get_sasl_mechanism(name)
    ours = _OURS.get(theirs)
    made: Mechanism = theirs(host=host, **config) if ours is None else ours(config)
    return made


class Plain:
    """PLAIN (RFC 4616): the password itself."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._name: str = config["sasl_plain_username"]
        self._password: str = config["sasl_plain_password"]
        self._done = False

    def auth_bytes(self) -> bytes:
        """Name and password. The identity to act as is left out: it is that of the name."""
        if "\0" in self._name or "\0" in self._password:
            raise ValueError("a user name or password of PLAIN cannot contain the character NUL")
        return "\0".join(("", self._name, self._password)).encode()

    def receive(self, auth_bytes: bytes) -> None:
        """The broker would have refused by an error."""
        self._done = True

    def is_done(self) -> bool:
        """After one token."""
        return self._done

    is_authenticated = is_done


class Scram:
    """SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password.

    Names and passwords are sent as UTF-8 as they are. Kafka's `ScramFormatter` does not prepare
    them by SASLprep (RFC 4013), so that a client that did would compute another key.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._hash = _HASHES[config["sasl_mechanism"]]
        self._password: str = config["sasl_plain_password"]
        self._nonce = os.urandom(24).hex()
        # "," ends a field and "=" begins an escape (RFC 5802, saslname).
        name = config["sasl_plain_username"].replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={self._nonce}"
        self._final = ""
        self._signature = b""
        self._done = False

    def auth_bytes(self) -> bytes:
        """First our name, then our proof."""
        return (self._final or f"n,,{self._first}").encode()

    def receive(self, auth_bytes: bytes) -> None:
        """First the broker's challenge, then its proof."""
        text = auth_bytes.decode()
        if self._final:
            self._check_signature(_attributes(text))
            self._done = True
        else:
            self._prove(text, _attributes(text))

    def is_done(self) -> bool:
        """When the broker has proved that it knows the password."""
        return self._done

    is_authenticated = is_done

    def _prove(self, challenge: str, given: Mapping[str, str]) -> None:
        nonce = _needed(given, "r")
        if "m" in given:
            raise ValueError("SCRAM: the broker asks for an extension that is not known")
        if not nonce.startswith(self._nonce):
            raise ValueError("SCRAM: the broker's nonce does not begin with ours")
        iterations = _iterations(_needed(given, "i"))
        without_proof = f"c=biws,r={nonce}"  # "biws": no channel binding, "n,,"
        said = ",".join((self._first, challenge, without_proof)).encode()
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._password.encode(), _decoded(_needed(given, "s")), iterations
        )
        key = hmac.digest(salted, b"Client Key", self._hash)
        stored = hashlib.new(self._hash, key).digest()
        mask = hmac.digest(stored, said, self._hash)
        proof = bytes(left ^ right for left, right in zip(key, mask, strict=True))
        self._signature = hmac.digest(
            hmac.digest(salted, b"Server Key", self._hash), said, self._hash
        )
        self._final = f"{without_proof},p={base64.b64encode(proof).decode()}"

    def _check_signature(self, given: Mapping[str, str]) -> None:
        if not hmac.compare_digest(_decoded(_needed(given, "v")), self._signature):
            raise ValueError("SCRAM: the broker does not know the password (wrong signature)")


def _attributes(text: str) -> dict[str, str]:
    """The attributes of a message: "r=...,s=...", each with a name of one letter."""
    given = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if len(name) != 1 or not equals:
            raise ValueError("SCRAM: the broker's message is malformed")
        given[name] = value
    if "e" in given:
        raise ValueError(f"SCRAM: the broker refused the login: {given['e']}")
    return given


def _needed(given: Mapping[str, str], name: str) -> str:
    if name not in given:
        raise ValueError(f"SCRAM: the broker's message has no {name!r}")
    return given[name]


def _iterations(text: str) -> int:
    iterations = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise ValueError(
            f"SCRAM: the broker asks for {text[:20]} iterations, where {LEAST_ITERATIONS} to"
            f" {MOST_ITERATIONS} are allowed"
        )
    return iterations


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("SCRAM: the broker's message is not Base64") from None


#: What may be a token in the text of an error: what follows such a word, the user and the query of
#: a URL, and any word of eight or more characters that has letters and digits (or begins as JSON in
#: Base64 does).
_AFTER_WORD: Final = re.compile(
    r"((?:token|secret|password|bearer|credential|assertion|signature)s?[\"']?"
    r"(?:\s*[:=]\s*|\s+(?:is|was)\s+|\s+(?=\S*[\d_.]))[\"']?)[^\s\"',;&)]+",
    re.IGNORECASE,
)
_URL_USER: Final = re.compile(r"://[^\s/@]+@")
_URL_QUERY: Final = re.compile(r"(://[^\s?]+\?)\S+")
_OPAQUE: Final = re.compile(
    r"(?<![\w:/.])(?:eyJ|(?=[\w+/=.~-]*\d)(?=[\w+/=.~-]*[A-Za-z]))[\w+/=.~-]{8,}"
)


def without_tokens(text: str) -> str:
    """The text of an error of a token provider, which may quote a token or a client's secret: what
    may be one is left out. (The error itself is the `__cause__` of what the application gets.)"""
    text = _URL_QUERY.sub(r"\1***", _URL_USER.sub("://***@", text))
    return _OPAQUE.sub("***", _AFTER_WORD.sub(r"\1***", text))


class OAuthBearer:
    """OAUTHBEARER (RFC 7628): a token of the application's provider, and extensions (KIP-342)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._provider = config["sasl_oauth_token_provider"]
        self._refused = False
        self._done = False

    def auth_bytes(self) -> bytes:
        """The token; or, after the broker has said what is wrong with it, the answer to that, on
        which the broker ends the login with an error."""
        if self._refused:
            return b"\x01"
        token = self._provider.token()
        if not isinstance(token, str):
            kind = type(token).__name__
            raise TypeError(f"token() of the provider returned a {kind}, but must return a str")
        if not _TOKEN.fullmatch(token):
            raise ValueError(
                "token() of the provider returned an empty str, or one with spaces, line breaks or"
                " other characters that no token has"
            )
        return f"n,,\x01auth=Bearer {token}{self._extensions()}\x01\x01".encode()

    def receive(self, auth_bytes: bytes) -> None:
        """Nothing, if the token was accepted; else why it was not."""
        self._refused = bool(auth_bytes)
        self._done = not self._refused

    def is_done(self) -> bool:
        """When the token was accepted."""
        return self._done

    is_authenticated = is_done

    def _extensions(self) -> str:
        extensions: Callable[[], Any] = getattr(self._provider, "extensions", dict)
        parts = []
        for key, value in (extensions() or {}).items():
            key, value = str(key), str(value)
            if key.lower() == "auth" or not _EXTENSION_KEY.fullmatch(key):
                raise ValueError(f"a SASL extension cannot have the name {key!r}")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"the value of the SASL extension {key!r} cannot be sent")
            parts.append(f"\x01{key}={value}")
        return "".join(parts)


#: In the place of kafka-python's classes.
_OURS: Final[Mapping[Any, Callable[[Mapping[str, Any]], Mechanism]]] = {
    SaslMechanismPlain: Plain,
    SaslMechanismScram: Scram,
    SaslMechanismOAuth: OAuthBearer,
}
