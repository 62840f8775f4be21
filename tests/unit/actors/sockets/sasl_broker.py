"""The broker's side of a SASL login, for scripts: PLAIN and SCRAM-SHA-256."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from tests.unit.actors.sockets.scripted_broker import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Peer,
    Request,
)


def shake_hands(peer: Peer, *mechanisms: str, error_code: int = 0) -> Request:
    """Answer SaslHandshake, offering these; returns the request."""
    request = peer.read()
    assert request.api_key == SASL_HANDSHAKE, "a login begins with SaslHandshake"
    peer.answer(
        request,
        SaslHandshakeResponse(
            version=request.version, error_code=error_code, mechanisms=list(mechanisms)
        ),
    )
    return request


def read_token(peer: Peer) -> tuple[Request, bytes]:
    """The client's next token."""
    request = peer.read()
    assert request.api_key == SASL_AUTHENTICATE, "a handshake is followed by tokens"
    return request, _last_bytes(request.frame)


def give_token(
    peer: Peer, request: Request, token: bytes = b"", *, error: str = "", lifetime_ms: int = 0
) -> None:
    """Answer a token; with `error`, refuse."""
    peer.answer(
        request,
        SaslAuthenticateResponse(
            version=request.version,
            error_code=58 if error else 0,
            error_message=error or None,
            auth_bytes=token,
            session_lifetime_ms=lifetime_ms,
        ),
    )


def plain(peer: Peer, password: str, *, lifetime_ms: int = 0) -> None:
    """Let in who knows the password."""
    shake_hands(peer, "PLAIN")
    request, token = read_token(peer)
    well = token.endswith(b"\0" + password.encode())
    error = "" if well else "Authentication failed: Invalid username or password"
    give_token(peer, request, error=error, lifetime_ms=lifetime_ms)


def scram(peer: Peer, password: str) -> None:
    """RFC 5802, as a server."""
    shake_hands(peer, "SCRAM-SHA-256")
    request, first = read_token(peer)
    bare = first.removeprefix(b"n,,").decode()
    nonce = dict(one.split("=", 1) for one in bare.split(","))["r"] + "server"
    salt, rounds = b"salt", 4096
    challenge = f"r={nonce},s={base64.b64encode(salt).decode()},i={rounds}"
    give_token(peer, request, challenge.encode())

    request, final = read_token(peer)
    without_proof, proof = final.decode().rsplit(",p=", 1)
    transcript = f"{bare},{challenge},{without_proof}".encode()
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
    stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    signature = _hmac(stored, transcript)
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    if hashlib.sha256(key).digest() != stored:
        give_token(peer, request, error="Authentication failed due to invalid credentials")
        return
    verifier = base64.b64encode(_hmac(_hmac(salted, b"Server Key"), transcript)).decode()
    give_token(peer, request, f"v={verifier}".encode())


def _hmac(key: Any, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


def _last_bytes(frame: bytes) -> bytes:
    """The token of a SaslAuthenticate v2: compact bytes at the end, after two empty tag lists."""
    body = frame[8:]
    client_id = int.from_bytes(body[:2], "big")
    body = body[2 + client_id + 1 :]
    length, at, shift = 0, 0, 0
    while True:
        length |= (body[at] & 0x7F) << shift
        at += 1
        if body[at - 1] < 0x80:
            break
        shift += 7
    return body[at : at + length - 1]
