"""A provider of OAUTHBEARER tokens that logs in with a client's id and secret (RFC 6749, 4.4).

It does what Java's client does with `OAuthBearerLoginCallbackHandler` (KIP-768) and librdkafka with
`sasl.oauthbearer.method=oidc`.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.net.sasl.oauth import AbstractTokenProvider

from aktor.errors import ConfigurationError

__all__ = ["ClientCredentials", "TokenError"]

#: How long one request may take, in seconds.
_REQUEST: Final = 10.0

#: For so long a request is repeated, and how long is waited before the first and the last of them
#: (Java's `sasl.login.retry.backoff.ms` and its maximum, which also ends the attempts).
_RETRIED_FOR: Final = 10.0
_FIRST_WAIT: Final = 0.1

#: The part of a token's life after which another one is fetched
#: (`sasl.login.refresh.window.factor`).
_RENEWED_AFTER: Final = 0.8

#: While the token is still good, a failed attempt to get another one is repeated no sooner.
_RENEWED_AGAIN: Final = 10.0

#: Answers that may be others in a moment: Request Timeout, Too Early, Too Many Requests, and what
#: is wrong with the server.
_PASSING: Final = {408, 425, 429, 500, 502, 503, 504}

#: More than any token, or any reason.
_LONGEST_ANSWER: Final = 1_000_000


class TokenError(RuntimeError):
    """The token endpoint gave no token. The text has its address and its reason, and no secret."""


class _Passing(Exception):
    """An attempt failed for a reason that may pass."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would send the secret on to whatever address an answer names."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """Give it to a consumer as `sasl_oauth_token_provider`, with `sasl_mechanism="OAUTHBEARER"`.

    Owns the token that was fetched last. All connections use it, for four fifths of its life; then
    another one is fetched, and the old one is used as long as that fails. Threads may share one.

    `url` is the token endpoint. The scope is the identity provider's; extensions go to the broker
    (KIP-342). `ssl_cafile` has the certificates that the endpoint is trusted by, instead of the
    system's. With `header_urlencode` id and secret are encoded before they are joined (KIP-1025).
    Proxies are those of the environment (`HTTPS_PROXY`); no redirect is followed.

    Raises ConfigurationError for what cannot be.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str | None = None,
        extensions: Mapping[str, str] | None = None,
        ssl_cafile: str | None = None,
        header_urlencode: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ConfigurationError(
                "the token endpoint must be http(s)://host[:port]/path, without user and password"
            )
        if not client_id or not client_secret:
            raise ConfigurationError("a login with client credentials needs an id and a secret")
        if header_urlencode:
            client_id, client_secret = map(urllib.parse.quote_plus, (client_id, client_secret))
        self._url = url
        #: What errors name: a query may have a secret.
        self._shown = urllib.parse.urlunsplit(parts._replace(query="", fragment=""))
        self._login = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self._body = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self._extensions = dict(extensions or {})
        try:
            context = ssl.create_default_context(cafile=ssl_cafile)
        except OSError as error:
            raise ConfigurationError(f"{ssl_cafile} cannot be used: {error}") from None
        self._opener = urllib.request.build_opener(
            _NoRedirect, urllib.request.HTTPSHandler(context=context)
        )
        self._clock, self._wait = clock, wait
        self._lock = threading.Lock()
        self._token = ""
        self._renewed_at = self._good_until = 0.0

    def __repr__(self) -> str:
        return f"ClientCredentials({self._shown})"

    def __reduce__(self) -> Any:
        raise TypeError("ClientCredentials is not pickled: it has a secret")

    def token(self) -> str:
        """A token that is good for some time yet. Blocks while one is fetched: for up to ten
        seconds, and one request of ten more.

        Raises TokenError.
        """
        with self._lock:
            now = self._clock()
            if not self._token or now >= self._good_until:
                self._fetch_patiently()
            elif now >= self._renewed_at:
                self._renew()
            return self._token

    def extensions(self) -> dict[str, str]:
        """The SASL extensions."""
        return dict(self._extensions)

    def _renew(self) -> None:
        try:
            self._fetch()
        except (_Passing, TokenError):
            self._renewed_at = self._clock() + _RENEWED_AGAIN

    def _fetch_patiently(self) -> None:
        begun, pause = self._clock(), _FIRST_WAIT
        while True:
            try:
                return self._fetch()
            except _Passing as error:
                if self._clock() - begun + pause > _RETRIED_FOR:
                    raise TokenError(f"the token endpoint {self._shown} {error}") from None
            self._wait(pause)
            pause *= 2

    def _fetch(self) -> None:
        asked = self._clock()
        request = urllib.request.Request(
            self._url,
            urllib.parse.urlencode(self._body).encode(),
            {"Authorization": f"Basic {self._login}", "Accept": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=_REQUEST) as answer:
                said = answer.read(_LONGEST_ANSWER)
        except urllib.error.HTTPError as error:
            with error:
                why = f"answered {error.code} {error.reason}{_reason(error)}"
            if error.code in _PASSING:
                raise _Passing(why) from None
            raise TokenError(f"the token endpoint {self._shown} {why}") from None
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)
            raise _Passing(f"cannot be reached: {cause}") from None
        self._keep(said, asked)

    def _keep(self, said: bytes, asked: float) -> None:
        try:
            answer = json.loads(said)
            token = answer["access_token"]
            life = float(answer.get("expires_in") or 0)
        except (ValueError, TypeError, KeyError, AttributeError):
            token = None
        if not isinstance(token, str) or not token:
            raise TokenError(f"the answer of the token endpoint {self._shown} has no access_token")
        self._token = token
        self._renewed_at = asked + life * _RENEWED_AFTER
        self._good_until = asked + life


def _reason(error: urllib.error.HTTPError) -> str:
    """What an error's body says (RFC 6749, 5.2)."""
    try:
        answer = json.loads(error.read(_LONGEST_ANSWER))
        told = [str(answer[name]) for name in ("error", "error_description") if name in answer]
    except (ValueError, TypeError, OSError, http.client.HTTPException):
        return ""
    return "".join(f", {text[:300]}" for text in told)
