"""Why a connection did not come about or ended: an error that names the broker and the cause.

Sockets and TLS say what went wrong in their own terms ("wrong version number", end of file). Here
that becomes a text on which a user can act ("the broker's listener seems to expect TLS").
"""

from __future__ import annotations

import enum
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final

from kafka.errors import KafkaConnectionError

from aktor.actors.sockets.asked_versions import older_than
from aktor.actors.sockets.frames import BadLength
from aktor.errors import AuthenticationError, FrameError
from aktor.trace.plain import named

__all__ = ["Diagnosis", "Phase", "is_hang_up", "reason_of", "without_guess"]

#: Settings whose values never appear in an error.
_SECRETS: Final = ("sasl_plain_password", "ssl_password")

#: How the part of a text begins that is a guess from the way in which a connection ended.
_GUESS: Final = "; its listener seems"


class Phase(enum.Enum):
    """How far a connection is; the value completes "the broker closed the connection ...".

    The values of phases that can run out of time complete "no answer within 10 s ..." as well.
    """

    RESOLVING = "while the broker's name was looked up"
    CONNECTING = "while the connection was opened"
    SECURING = "during the TLS handshake"
    VERSIONING = "at the first request"
    LOGGING_IN = "during the login"
    UNPROVEN = "at the first request after it was open"
    PROVEN = "while it was in use"


class Diagnosis:
    """Owns how far one connection is, and words what happens to it."""

    def __init__(
        self, broker: str, *, security_protocol: str, mechanism: str, config: Mapping[str, Any]
    ) -> None:
        self.broker = broker
        self.phase = Phase.RESOLVING
        #: The broker closes the connection instead of refusing a login (before KIP-152).
        self.mute = False
        #: The version of ApiVersions that was asked last.
        self._api_versions = 0
        self._security_protocol = security_protocol
        self._mechanism = mechanism
        self._secrets = [value for name in _SECRETS if isinstance(value := config.get(name), str)]

    def enter(self, phase: Phase) -> None:
        """The connection has reached this phase."""
        self.phase = phase

    def ask_versions(self, version: int) -> None:
        """The broker is asked for ApiVersions of this version."""
        self._api_versions = version

    @property
    def unanswered_versions(self) -> int | None:
        """The version of ApiVersions that the broker has been asked and has not answered."""
        return self._api_versions if self.phase is Phase.VERSIONING else None

    def expect_hang_up(self, *, mute: bool) -> None:
        """During the login: whether the broker closes the connection instead of refusing it."""
        self.mute = mute

    @property
    def open(self) -> bool:
        """True once the connection can be used."""
        return self.phase in (Phase.UNPROVEN, Phase.PROVEN)

    def refused(self, reason: str, cause: BaseException | None = None) -> AuthenticationError:
        """Authentication failed: the broker rejected our credentials, or our settings for the login
        or for TLS cannot be used."""
        mechanism = "SSL" if self.phase is Phase.SECURING else self._mechanism
        error = AuthenticationError(
            broker=self.broker, mechanism=mechanism, reason=self._redact(reason)
        )
        error.__cause__ = cause
        return error

    def failed(self, reason: str, cause: BaseException | None = None) -> Exception:
        """Any other failure of the connection: the next attempt may succeed."""
        error: Exception = KafkaConnectionError(f"broker {self.broker}: {self._redact(reason)}")
        error.__cause__ = cause
        return error

    def malformed(self, reason: str, cause: BaseException | None = None) -> FrameError:
        """The bytes are not what a Kafka broker sends."""
        error = FrameError(broker=self.broker, reason=reason)
        error.__cause__ = cause
        return error

    def explain(self, error: Exception) -> Exception:
        """`error`, whatever it is, as one of the three above, with the original as its cause."""
        match error:
            case AuthenticationError() | KafkaConnectionError():
                return error
            case BadLength():
                return self.malformed(_what_speaks(error), error)
            case ssl.SSLError():
                return self._explain_tls(error)
            case _ if is_hang_up(error):
                return self._explain_hang_up(error)
            case TimeoutError():
                return self.failed(str(error), error)
            case socket.gaierror():
                return self.failed(f"the name cannot be looked up: {error.strerror}", error)
            case OSError():
                return self.failed(error.strerror or str(error), error)
        return self.failed(named(error), error)

    def _explain_hang_up(self, error: Exception) -> Exception:
        text = f"the broker closed the connection {self.phase.value}"
        if self.phase is Phase.LOGGING_IN and self.mute:
            return self.refused(text, error)
        tls = self._security_protocol in ("SSL", "SASL_SSL")
        sasl = self._security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        if self.phase is Phase.SECURING:
            text += f"{_GUESS} not to use TLS"
        elif self.phase is Phase.VERSIONING:
            text += f", ApiVersions v{self._api_versions}; {self._why_no_versions(tls)}"
        elif self.phase is Phase.UNPROVEN and not sasl:
            text += f"{_GUESS} to expect a login (SASL)"
        else:
            return self.failed(text, error)
        return self.failed(f"{text}. security_protocol is {self._security_protocol}", error)

    def _why_no_versions(self, tls: bool) -> str:
        """A broker, or a proxy, that does not know the version should answer so (KIP-511), and some
        hang up."""
        older = older_than(self._api_versions)
        why = "" if tls else "its listener seems to expect TLS, or "
        if older is None:
            return f"{why}it is older than Kafka 0.10 (then set api_version)"
        return f"{why}it does not know this version (then v{older} works; api_version can name it)"

    def _explain_tls(self, error: ssl.SSLError) -> Exception:
        detail = (error.reason or "unknown reason").lower().replace("_", " ")
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"the broker's certificate was refused: {error.verify_message}"
        elif isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return self._explain_hang_up(error)
        elif "alert" in detail and not self.open:
            # In TLS 1.3 the alert for a missing client certificate comes after our handshake.
            reason = f"the broker ended the TLS handshake: {detail}"
        elif self.phase is Phase.SECURING:
            reason = f"{detail}: its listener seems not to use TLS"
            protocol = self._security_protocol
            return self.malformed(f"{reason}; security_protocol is {protocol}", error)
        else:
            return self.failed(f"TLS failed: {detail}", error)
        refused = AuthenticationError(broker=self.broker, mechanism="SSL", reason=reason)
        refused.__cause__ = error
        return refused

    def _redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***") if secret else text
        return text


def is_hang_up(error: BaseException) -> bool:
    """Whether the error means that the other end has closed or reset the connection."""
    hang_ups = (EOFError, ConnectionResetError, BrokenPipeError)
    return isinstance(error, (*hang_ups, ssl.SSLEOFError, ssl.SSLZeroReturnError))


def _what_speaks(error: BadLength) -> str:
    """What kind of server the peer is, by its first bytes."""
    if error.head[:2] in (b"\x15\x03", b"\x16\x03"):
        return "its listener seems to expect TLS, security_protocol SSL or SASL_SSL"
    if error.head == b"HTTP":
        return "it is an HTTP server, not a Kafka broker"
    return str(error)


def reason_of(error: Exception) -> str:
    """The text of an error without the broker's name, for a list that has it already."""
    if isinstance(error, FrameError | AuthenticationError):
        return str(error.reason)
    text = str(error.args[0]) if error.args else type(error).__name__
    return text.partition(": ")[2] or text if text.startswith("broker ") else text


def without_guess(error: Exception) -> Exception:
    """The error without what is guessed about the broker's listener: what it expects is known if
    it has answered us."""
    text = str(error.args[0]) if error.args else ""
    if _GUESS not in text:
        return error  # (Only `Diagnosis.failed` makes a text with one.)
    fact: Exception = KafkaConnectionError(text.partition(_GUESS)[0])
    fact.__cause__ = error.__cause__
    return fact
