"""The server's side of SASL on one connection, by PLAIN or by SCRAM."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, Final, Protocol

from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from aktor.broker.call import CLOSE, Call
from aktor.broker.codes import Code
from aktor.state_table import follow

__all__ = ["MECHANISMS", "Authentication", "Users"]

#: What is offered unless less is asked for, in the order in which clients are told.
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

#: What Kafka takes for both hashes at least, and by default.
_ITERATIONS: Final = 4096

#: From this SaslHandshake on tokens come in requests of their own (KIP-152).
_TOKENS_IN_REQUESTS: Final = 1


class _AuthenticationFailed(Exception):
    """The client could not prove its name. The message, if any, is sent to the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScramKeys:
    """What SCRAM keeps of a password (RFC 5802): enough to check a proof, not to make one."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


class Users:
    """Owns the passwords, and shows them nowhere: not in its repr, not in an error."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = {name: secret.encode() for name, secret in passwords.items()}
        self._keys: dict[tuple[str, str], _ScramKeys] = {}

    def __repr__(self) -> str:
        return f"<Users {', '.join(self._passwords) or 'none'}>"

    def set_password(self, name: str, password: str) -> None:
        """From now on this is the password of this user, who may be a new one."""
        self._passwords[name] = password.encode()
        self._keys = {key: keys for key, keys in self._keys.items() if key[0] != name}

    def has_password(self, name: str, password: str) -> bool:
        """Whether this is the password of this user; as slow for a wrong one as for the right."""
        known = self._passwords.get(name)
        same = hmac.compare_digest(known or b"", password.encode())
        return same and known is not None

    def scram_keys(self, name: str, hash_name: str, rng: Random) -> _ScramKeys | None:
        """The keys of a user, made when first asked for; None if there is no such user."""
        password = self._passwords.get(name)
        if password is None:
            return None
        keys = self._keys.get((name, hash_name))
        if keys is None:
            keys = self._keys[name, hash_name] = _scram_keys(password, hash_name, rng)
        return keys


def _scram_keys(password: bytes, hash_name: str, rng: Random) -> _ScramKeys:
    salt = rng.randbytes(16)
    salted = hashlib.pbkdf2_hmac(hash_name, password, salt, _ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    return _ScramKeys(
        salt=salt,
        stored_key=hashlib.new(hash_name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", hash_name),
    )


class _Exchange(Protocol):
    """One try to log in. `name` is the user that logged in, None before that."""

    name: str | None

    def respond(self, token: bytes) -> bytes:
        """The server's token in answer to the client's. Raises _AuthenticationFailed."""


class _Plain:
    """One token: the authorization id (it must be the user), the user, the password (RFC 4616)."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self.name: str | None = None

    def respond(self, token: bytes) -> bytes:
        parts = token.decode("utf-8", "replace").split("\0")
        if len(parts) != 3:
            # Kafka's message never names more than four.
            raise _AuthenticationFailed(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}"
            )
        act_as, name, password = parts
        if not name:
            raise _AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise _AuthenticationFailed("Authentication failed: password not specified")
        if not self._users.has_password(name, password):
            raise _AuthenticationFailed("Authentication failed: Invalid username or password")
        _check_act_as(act_as, name)
        self.name = name
        return b""


#: A name with "," and "=" written as =2C and =3D. Kafka takes ASCII only.
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<act_as>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<channel>[^,]+),r=(?P<nonce>{_NONCE})),p=(?P<proof>[^,]+)"
)


class _Scram:
    """Two tokens each way: a challenge, and proofs of both sides to know the password (RFC 5802).

    Failures carry no message: it could tell whether there is such a user.
    """

    def __init__(self, users: Users, hash_name: str, rng: Random) -> None:
        self._users = users
        self._hash = hash_name
        self._rng = rng
        self._first: re.Match[str] | None = None
        self._challenge = ""
        self._nonce = ""
        self._keys: _ScramKeys | None = None
        self.name: str | None = None

    def respond(self, token: bytes) -> bytes:
        text = token.decode("utf-8", "replace")
        if self._first is None:
            return self._begin(_matched(_CLIENT_FIRST, text)).encode()
        return self._finish(self._first, _matched(_CLIENT_FINAL, text)).encode()

    def _begin(self, first: re.Match[str]) -> str:
        name = _unescaped(first["name"])
        self._keys = self._users.scram_keys(name, self._hash, self._rng)
        if self._keys is None:
            raise _AuthenticationFailed
        _check_act_as(_unescaped(first["act_as"] or ""), name)
        self._first = first
        self._nonce = f"{first['nonce']}{self._rng.getrandbits(128):032x}"
        salt = base64.b64encode(self._keys.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={_ITERATIONS}"
        return self._challenge

    def _finish(self, first: re.Match[str], final: re.Match[str]) -> str:
        keys = self._keys
        assert keys is not None, "a proof is asked of a known user only"
        header = base64.b64encode(first["header"].encode()).decode()
        if final["nonce"] != self._nonce or final["channel"] != header:
            raise _AuthenticationFailed
        signed = f"{first['bare']},{self._challenge},{final['unproved']}".encode()
        signature = hmac.digest(keys.stored_key, signed, self._hash)
        client_key = _xor(_decoded(final["proof"]), signature)
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), keys.stored_key):
            raise _AuthenticationFailed
        self.name = _unescaped(first["name"])
        proof = hmac.digest(keys.server_key, signed, self._hash)
        return f"v={base64.b64encode(proof).decode()}"


def _check_act_as(act_as: str, name: str) -> None:
    if act_as and act_as != name:
        raise _AuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from "
            "username"
        )


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise _AuthenticationFailed
    return match


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _AuthenticationFailed from None


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise _AuthenticationFailed
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


class _State(Enum):
    """How far the login on a connection is."""

    HANDSHAKE = "handshake"
    """SaslHandshake is awaited: which mechanism?"""

    AUTHENTICATE = "authenticate"
    """Tokens go back and forth by SaslAuthenticate."""

    COMPLETE = "complete"
    """The client is known, and may ask for everything."""

    FAILED = "failed"
    """The client was refused. The connection is closed once the answer is sent."""


class _Trigger(Enum):
    """What happens to a login."""

    CHOSEN = "chosen"
    """The client has named a mechanism that is offered."""
    PROVED = "proved"
    """The client has proved who it is."""
    REFUSED = "refused"
    """The client has no right mechanism, password or proof, or asks for what it may not ask now."""


#: The whole machine.
_TRANSITIONS: Final[Mapping[_State, Mapping[_Trigger, _State]]] = {
    _State.HANDSHAKE: {_Trigger.CHOSEN: _State.AUTHENTICATE, _Trigger.REFUSED: _State.FAILED},
    _State.AUTHENTICATE: {_Trigger.PROVED: _State.COMPLETE, _Trigger.REFUSED: _State.FAILED},
    _State.COMPLETE: {},
    _State.FAILED: {},
}

#: What may be asked where, by API name; None: everything.
_ALLOWED: Final[Mapping[_State, tuple[str, ...] | None]] = {
    _State.HANDSHAKE: ("ApiVersions", "SaslHandshake"),
    _State.AUTHENTICATE: ("SaslAuthenticate",),
    _State.COMPLETE: None,
    _State.FAILED: (),
}


class Authentication:
    """Owns what is known of the client on one connection (Kafka's SaslServerAuthenticator).

    A connection on which it `failed` is to be closed once the answer is sent. The session has no
    end: clients are not asked to log in again (KIP-368). Tokens outside of requests, as after a
    SaslHandshake v0, are not spoken: that handshake is refused with UNSUPPORTED_VERSION.
    """

    def __init__(
        self, users: Users, mechanisms: Iterable[str] = MECHANISMS, *, rng: Random
    ) -> None:
        self.mechanisms = tuple(mechanisms)
        if unknown := set(self.mechanisms) - set(MECHANISMS):
            raise ValueError(f"unknown SASL mechanisms {sorted(unknown)}; known: {MECHANISMS}")
        self._users = users
        self._rng = rng
        self._state = _State.HANDSHAKE
        self._mechanism = ""
        self._exchange: _Exchange | None = None

    def __repr__(self) -> str:
        return f"<Authentication {self._state.value} {self.principal or ''}>"

    @property
    def principal(self) -> str | None:
        """The client's principal, as "User:name"; None until that is proved."""
        name = self._exchange.name if self._exchange else None
        return f"User:{name}" if self._state is _State.COMPLETE else None

    @property
    def failed(self) -> bool:
        """Whether the client can do no more on this connection."""
        return self._state is _State.FAILED

    def may_ask(self, api: str) -> bool:
        """Whether the client may ask this now; if not, the connection is to be closed."""
        allowed = _ALLOWED[self._state]
        return allowed is None or api in allowed

    def _on(self, trigger: _Trigger) -> None:
        """The only place where the state is changed."""
        self._state = follow(_TRANSITIONS, self._state, trigger)

    def handshake(self, call: Call) -> None:
        """SaslHandshake: take the mechanism, or say which there are."""
        if self._state is _State.HANDSHAKE:
            call.reply(self._choose(call.request.mechanism, call.version))
        elif self._state is _State.FAILED:
            call.reply(CLOSE)
        else:
            call.reply(SaslHandshakeResponse(error_code=Code.ILLEGAL_SASL_STATE))
            self._refuse()

    def _choose(self, mechanism: str, version: int) -> Any:
        code = Code.NONE
        if mechanism not in self.mechanisms:
            code = Code.UNSUPPORTED_SASL_MECHANISM
        elif version < _TOKENS_IN_REQUESTS:
            code = Code.UNSUPPORTED_VERSION
        if code is Code.NONE:
            self._mechanism = mechanism
            self._exchange = self._begin(mechanism)
            self._on(_Trigger.CHOSEN)
        else:
            self._on(_Trigger.REFUSED)
        return SaslHandshakeResponse(error_code=code, mechanisms=list(self.mechanisms))

    def _begin(self, mechanism: str) -> _Exchange:
        if mechanism == "PLAIN":
            return _Plain(self._users)
        return _Scram(self._users, _SCRAM_HASHES[mechanism], self._rng)

    def authenticate(self, call: Call) -> None:
        """SaslAuthenticate: one token for another, until the client is known or refused."""
        if self._state is _State.COMPLETE:
            call.reply(
                SaslAuthenticateResponse(
                    error_code=Code.ILLEGAL_SASL_STATE,
                    error_message="SaslAuthenticate request received after successful "
                    "authentication",
                    auth_bytes=b"",
                )
            )
        elif self._state is _State.AUTHENTICATE and self._exchange is not None:
            call.reply(self._answer(self._exchange, call.request.auth_bytes))
        else:
            # Without a mechanism Kafka does not even read the token.
            self._refuse()
            call.reply(CLOSE)

    def _answer(self, exchange: _Exchange, token: bytes) -> Any:
        try:
            answer = exchange.respond(bytes(token))
        except _AuthenticationFailed as failure:
            self._refuse()
            return SaslAuthenticateResponse(
                error_code=Code.SASL_AUTHENTICATION_FAILED,
                error_message=str(failure)
                or "Authentication failed during authentication due to invalid credentials with "
                f"SASL mechanism {self._mechanism}",
                auth_bytes=b"",
            )
        if exchange.name is not None:
            self._on(_Trigger.PROVED)
        return SaslAuthenticateResponse(auth_bytes=answer)

    def _refuse(self) -> None:
        """A client that is known stays known; any other has failed."""
        if _Trigger.REFUSED in _TRANSITIONS[self._state]:
            self._on(_Trigger.REFUSED)
