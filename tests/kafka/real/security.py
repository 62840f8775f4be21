"""What makes a cluster demand a login: users, listeners, ACLs, and the settings that say so."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kafka.net.sasl.oauth import AbstractTokenProvider

if TYPE_CHECKING:
    from tests.kafka.real.certificates import Certificates

#: Who can log in with PLAIN and SCRAM: user name and password.
USERS: Mapping[str, str] = {"alice": "alice-secret", "bob": "bob-secret"}

#: Who may do everything. ANONYMOUS comes through PLAINTEXT, as the brokers and the helpers in
#: `topics` do, or through SSL without a certificate. bob may do what ACLs allow him.
SUPER_USERS = ("ANONYMOUS", "alice")

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SASL_LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL")
LISTENERS = (*SASL_LISTENERS, "SSL")

_JAAS = "org.apache.kafka.common.security"


class UnsecuredToken(AbstractTokenProvider):
    """An OAuth token for the handler that Kafka ships for development: it believes what it is told.

    Give it to a client as `sasl_oauth_token_provider`.
    """

    def __init__(self, user: str, *, lifetime_s: float = 3600.0) -> None:
        self.user = user
        self.lifetime_s = lifetime_s

    def token(self) -> str:
        """A JWT without signature (RFC 7519, section 6)."""
        now = time.time() - 1.0  # a broker refuses what was issued in its future
        claims = {"sub": self.user, "iat": now, "exp": now + self.lifetime_s}
        return f"{_base64url({'alg': 'none'})}.{_base64url(claims)}."

    def extensions(self) -> dict[str, str]:
        """SASL extensions (KIP-342): none."""
        return {}


def broker_security(certificates: Certificates) -> dict[str, str]:
    """What makes a broker demand TLS, logins and ACLs on the listeners in `LISTENERS`."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(f"User:{name}" for name in SUPER_USERS),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker_file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca_file),
        "listener.name.ssl.ssl.client.auth": "requested",
        # A certificate for CN=alice is the user alice.
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
    }
    for listener in SASL_LISTENERS:
        for mechanism, module in _login_modules():
            key = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            settings[key] = module
    return settings


def scram_users() -> list[str]:
    """The storage tool's arguments that create the users for SCRAM before the first start."""
    return [
        argument
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for user, password in USERS.items()
        for argument in ("--add-scram", f"{mechanism}=[name={user},password={password}]")
    ]


def _login_modules() -> Iterator[tuple[str, str]]:
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    yield "PLAIN", f"{_JAAS}.plain.PlainLoginModule required {users};"
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        yield mechanism, f"{_JAAS}.scram.ScramLoginModule required;"
    module = f"{_JAAS}.oauthbearer.OAuthBearerLoginModule"
    yield "OAUTHBEARER", f'{module} required unsecuredLoginStringClaim_sub="broker";'


def _base64url(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
