"""What is said on a connection before it is open: the API versions of both sides, and the login.

It has no socket: its methods are generators that yield what they want done (`Ask`, `AskRaw`,
`SayRaw`, `Work`), and are sent the result. A `conversation.Conversation` drives them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from aktor.actors.sockets.asked_versions import NEWEST_API_VERSIONS
from aktor.actors.sockets.diagnosis import Diagnosis
from aktor.actors.sockets.sasl import make_mechanism, without_tokens
from aktor.protocol.error_codes import Answer, Do, error_of, means, name_of
from aktor.protocol.remedies import remedy
from aktor.settings import Settings
from aktor.trace.plain import named
from aktor.values import Value
from aktor.version import __version__

__all__ = ["Ask", "AskRaw", "Handshake", "SayRaw", "Steps", "Work", "mechanism_of"]

_API_VERSIONS: Final = 18
_UNSUPPORTED_MECHANISM: Final = 33
_ILLEGAL_SASL_STATE: Final = 34

#: Settings that the SASL mechanisms need, with kafka-python's defaults.
_SASL_DEFAULTS: Final[Mapping[str, Any]] = {
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_kerberos_name": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
}

_T = TypeVar("_T")


class Ask(Value, kw_only=False):
    """Send this request, a kafka-python one; go on with its response."""

    body: Any


class AskRaw(Value, kw_only=False):
    """Send this token outside of requests (before KIP-152); go on with the token in the answer."""

    token: bytes


class SayRaw(Value, kw_only=False):
    """Send this token, which has no answer; go on at once."""

    token: bytes


class Work(Value, kw_only=False):
    """Call this on a thread that may block; go on with what it returns or raises."""

    work: Callable[[], Any]


#: A part of the handshake: yields what it wants done, and returns its result.
Steps: TypeAlias = Generator[Ask | AskRaw | SayRaw | Work, Any, _T]


class Handshake:
    """Owns the first requests of one connection: for versions, for the login and its renewal."""

    def __init__(self, settings: Settings, diagnosis: Diagnosis) -> None:
        self._settings = settings
        self._config = settings.connection
        self._diagnosis = diagnosis

    # -- versions

    def learn_versions(self, newest: int = NEWEST_API_VERSIONS) -> Steps[BrokerVersionData]:
        """ApiVersions (KIP-35, KIP-511), in version `newest` at most; a configured `api_version` is
        an upper bound of it and of all that is learned."""
        wanted = self._config.get("api_version")
        configured = BrokerVersionData(wanted) if wanted is not None else None
        version = newest
        if configured is not None:
            try:
                version = min(newest, configured.api_version(ApiVersionsRequest))
            except IncompatibleBrokerVersion:
                return configured  # a broker before 0.10 has no such request
        found = BrokerVersionData(api_versions=(yield from self._ask_versions(version)))
        return configured if configured is not None and configured < found else found

    def _ask_versions(self, version: int) -> Steps[Mapping[int, tuple[int, int]]]:
        while True:
            self._diagnosis.ask_versions(version)
            body = ApiVersionsRequest(
                version=version,
                client_software_name="aktor",
                client_software_version=__version__,
            )
            answer = yield Ask(body)
            spoken: Mapping[int, tuple[int, int]] = answer.spoken
            error = error_of(answer.error_code)
            if Do.RETRY in means(Answer.API_VERSIONS, error) and version > 0:
                version = min(version - 1, spoken.get(_API_VERSIONS, (0, 0))[1])
                continue
            if answer.error_code:
                reason = (
                    f"it does not say which versions it speaks ({name_of(error)});"
                    f" {remedy(Answer.API_VERSIONS, error)}"
                )
                raise self._diagnosis.failed(reason)
            return spoken

    # -- login

    def log_in(self, host: str) -> Steps[float]:
        """SaslHandshake, then the mechanism's tokens to and fro (KIP-43, KIP-152).

        `host` is the broker's name, as Kerberos knows it. Returns for how many seconds the login
        is good (0: for ever).
        """
        name = mechanism_of(self._settings)
        handshake = yield Ask(SaslHandshakeRequest(mechanism=name, max_version=1))
        error = error_of(handshake.error_code)
        refused = Do.DONE not in means(Answer.SASL_HANDSHAKE, error)
        if refused or name not in handshake.mechanisms:
            raise self._diagnosis.refused(_why_no_handshake(handshake))
        self._diagnosis.expect_hang_up(mute=handshake.version == 0)
        mechanism = yield from self._mechanically(
            lambda: make_mechanism(name, host, self._sasl_config())
        )
        lifetime = 0.0
        while not mechanism.is_done():
            token = yield from self._mechanically(mechanism.auth_bytes)
            if self._diagnosis.mute and mechanism.is_done():
                yield SayRaw(token)  # Kerberos' last word has no answer
                break
            answer, lifetime = yield from self._exchange(token)
            yield from self._mechanically(functools.partial(mechanism.receive, answer))
        if not mechanism.is_authenticated():
            raise self._diagnosis.refused("the broker did not accept the credentials")
        self._diagnosis.expect_hang_up(mute=False)
        return lifetime

    def _exchange(self, token: bytes) -> Steps[tuple[bytes, float]]:
        if self._diagnosis.mute:
            return (yield AskRaw(token)), 0.0
        answer = yield Ask(SaslAuthenticateRequest(auth_bytes=token))
        error = error_of(answer.error_code)
        if Do.DONE not in means(Answer.SASL_AUTHENTICATE, error):
            reason = answer.error_message or error.__name__
            raise self._diagnosis.refused(reason)
        return answer.auth_bytes, (answer.session_lifetime_ms or 0) / 1000.0

    def _mechanically(self, work: Callable[[], _T]) -> Steps[_T]:
        """Run the mechanism's work on a thread: it may fetch a token over HTTP, or a ticket."""
        try:
            return (yield Work(work))  # type: ignore[no-any-return]
        except Exception as error:
            text = named(error)
            if mechanism_of(self._settings) == "OAUTHBEARER":
                text = without_tokens(text)
            raise self._diagnosis.refused(text, error) from error

    def _sasl_config(self) -> dict[str, Any]:
        given = {name: value for name, value in self._config.items() if name.startswith("sasl_")}
        return {
            **_SASL_DEFAULTS,
            **given,
            "sasl_mechanism": mechanism_of(self._settings),
            "security_protocol": self._settings.security_protocol,
        }


def mechanism_of(settings: Settings) -> str:
    """The SASL mechanism that the settings ask for."""
    return str(settings.sasl_mechanism or settings.connection.get("sasl_mechanism"))


def _why_no_handshake(handshake: Any) -> str:
    if handshake.error_code == _ILLEGAL_SASL_STATE:
        return "the broker's listener seems not to use SASL (check security_protocol)"
    if handshake.error_code in (0, _UNSUPPORTED_MECHANISM):
        offered = ", ".join(handshake.mechanisms) or "none"
        return f"the broker does not offer this mechanism; it offers {offered}"
    return error_of(handshake.error_code).__name__
