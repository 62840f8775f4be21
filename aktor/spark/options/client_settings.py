"""The options `kafka.*` as settings of our consumer (and of a producer).

Spark's source takes the Java client's names (`kafka.sasl.jaas.config`); ours takes them too, and
kafka-python's with dots for underscores. A value may name where it is found instead of being it:
`${env:NAME}`, `${file:PATH:KEY}` or `${directory:PATH:FILE}` (KIP-297, KIP-421), resolved in each
process that connects. So a secret stays out of Spark's plans and of what the driver sends to the
executors, and executors in several zones can have a rack each.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kafka.errors import KafkaTimeoutError

from aktor.consumer.configuration import configuration
from aktor.errors import (
    AuthenticationError,
    BootstrapError,
    BrokersUnreachableError,
    ConfigurationError,
    FrameError,
)
from aktor.spark.options import java_settings, oauth
from aktor.spark.options.hints import did_you_mean
from aktor.spark.options.java_settings import Refused, Translate, ignored

__all__ = [
    "PREFIX",
    "SECRETS",
    "check",
    "check_names",
    "consumer_settings",
    "names",
    "naming_options",
    "resolved",
    "secret_names",
    "settings",
    "warn_of_ignored",
    "with_defaults",
    "without_references",
]

_LOG: Final = logging.getLogger("aktor.spark")

PREFIX: Final = "kafka."

#: Settings whose values are secret.
SECRETS: Final = re.compile(r"password|secret|jaas|token|key\.pem", re.IGNORECASE)

_SECURITY: Final = re.compile(r"(sasl|ssl|security)\.")
_REFERENCE: Final = re.compile(r"\$\{(env|file|directory):([^}:]+)(?::([^}]+))?\}")
#: An entry of a file of properties: name and value, which may be empty.
_ENTRY: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPED: Final = re.compile(r"\\(u([0-9a-fA-F]{4})|.)")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BOOLEANS: Final = {"true": True, "false": False}

#: Settings that text cannot give a value to.
_NO_TEXT: Final = {
    "selector",
    "kafka_client",
    "ssl_context",
    "socket_options",
    "metric_reporters",
} | {
    "default_offset_commit_callback",
    "partition_assignment_strategy",
    "sasl_oauth_token_provider",
    # For the source it has no meaning (`java_settings`).
    "group_instance_id",
}


#: Java's default. With kafka-python's (30 s) a query would go on up to 30 s later than with Spark's
#: own source, after a broker was away for a minute.
_RECONNECT_MAX_MS: Final = 1_000

#: What this process has warned of.
_WARNED: Final[set[str]] = set()


#: A setting in an error's text.
_SETTING: Final = re.compile(
    rf"\b({'|'.join(name for name in configuration.DEFAULT_CONFIG if '_' in name)})\b"
)

#: Those of them that most users know by Java's name.
_JAVAS: Final = {
    "ssl_cafile": "ssl.truststore.location",
    "ssl_certfile": "ssl.keystore.location",
    "ssl_password": "ssl.key.password",
}

#: Errors with advice on settings.
_NAME_SETTINGS: Final = (
    *(AuthenticationError, BootstrapError, BrokersUnreachableError, ConfigurationError),
    *(FrameError, KafkaTimeoutError),
)


def check(options: Mapping[str, str]) -> None:
    """Refuse what cannot be a setting, without resolving references.

    Raises ConfigurationError: no bootstrap servers, a name that is refused or unknown (with the
    nearest one), a value out of range.
    """
    check_names(options, configuration.DEFAULT_CONFIG)
    with naming_options():
        configuration.parse(settings(without_references(options), configuration.DEFAULT_CONFIG))


def check_names(options: Mapping[str, str], known: Mapping[str, Any]) -> None:
    """Refuse names that are not those of `known` (kafka-python's names and their defaults)."""
    for name in options:
        _translation(name, known)
    if "bootstrap.servers" not in options:
        raise ConfigurationError(
            "kafka.bootstrap.servers is missing: set it to host:port,host:port. (Spark does not"
            " hand over the options of a catalog's table. Name them in the query: SELECT ... FROM t"
            " WITH ('kafka.bootstrap.servers'='...', ...), INSERT INTO t WITH (...), or use CREATE"
            " TEMPORARY VIEW ... USING aktor OPTIONS (...))"
        )


def without_references(options: Mapping[str, str]) -> dict[str, str]:
    """Those of the options that can be checked before they get to an executor.

    Settings of TLS and SASL are checked together: a user name without its password would be
    refused. So one reference among them leaves all of them to the executors.
    """
    plain = {name: text for name, text in options.items() if not _REFERENCE.search(text)}
    if any(_SECURITY.match(name) for name in options.keys() - plain.keys()):
        return {name: text for name, text in plain.items() if not _SECURITY.match(name)}
    return plain


def consumer_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python's keyword arguments of these options, whose references are resolved here."""
    found = {name: resolved(name, text) for name, text in options.items()}
    return settings(found, configuration.DEFAULT_CONFIG)


def with_defaults(settings: Mapping[str, Any], **defaults: Any) -> dict[str, Any]:
    """The arguments of a consumer of ours: these, the defaults of the source, and those of Java's
    client that are others than kafka-python's."""
    defaults["allow_auto_create_topics"] = False
    # The constructor does not wait for a broker: the source waits in its requests, and says so.
    defaults["bootstrap_timeout_ms"] = 0
    # Left out if the user sets reconnect_backoff_ms: a value above this maximum would be refused.
    if "reconnect_backoff_ms" not in settings:
        defaults["reconnect_backoff_max_ms"] = _RECONNECT_MAX_MS
    return defaults | dict(settings)


@contextmanager
def naming_options() -> Iterator[None]:
    """Errors of our client name its settings (`bootstrap_servers`). The user of Spark has options
    (`kafka.bootstrap.servers`), and these are what the errors name here."""
    try:
        yield
    except _NAME_SETTINGS as error:
        error.args = tuple(
            _named_as_options(argument) if isinstance(argument, str) else argument
            for argument in error.args
        )
        raise


def _named_as_options(text: str) -> str:
    found = _SETTING.sub(_option, text)
    of_file = "ssl_cafile" in text or "ssl_certfile" in text or "ssl_keyfile" in text
    return f"{found}. It must be a PEM file" if of_file and "cannot be used" in text else found


def _option(setting: re.Match[str]) -> str:
    ours = PREFIX + setting[0].replace("_", ".")
    javas = _JAVAS.get(setting[0])
    return ours if javas is None else f"{PREFIX}{javas} ({ours})"


def secret_names(options: Mapping[str, str]) -> set[str]:
    """Those of the names whose values are never printed."""
    return {name for name in options if SECRETS.search(name)}


def resolved(name: str, text: str, *, prefix: str = PREFIX) -> str:
    """The text with what its references stand for. Raises ConfigurationError if that is missing."""

    def found(match: re.Match[str]) -> str:
        kind, path, key = match.groups()
        value = _RESOLVERS[kind](path, key or "")
        if value is None:
            raise ConfigurationError(
                f"{prefix}{name}: {match[0]} stands for nothing in this process (pid {os.getpid()})"
            )
        return value

    return _REFERENCE.sub(found, text)


def _file_entry(path: str, key: str) -> str | None:
    """The value of this key of a file of properties."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        return None
    return _properties(text).get(key)


def _properties(text: str) -> dict[str, str]:
    """The entries of a file in the format of java.util.Properties, as FileConfigProvider reads
    it."""
    found: dict[str, str] = {}
    lines = (line.lstrip(" \t\f") for line in re.split(r"\r?\n|\r", text))
    for entry in lines:
        if not entry or entry.startswith(("#", "!")):
            continue
        while (len(entry) - len(entry.rstrip("\\"))) % 2:  # goes on in the next line
            entry = entry[:-1] + next(lines, "")
        name, value = _ENTRY.fullmatch(entry).groups()  # type: ignore[union-attr]
        found[_unescaped(name)] = _unescaped(value)
    return found


def _unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        character, code = match.groups()
        return chr(int(code, 16)) if code else _ESCAPES.get(character, character)

    return _ESCAPED.sub(meant, text)


def _whole_file(path: str, key: str) -> str | None:
    try:
        return (Path(path) / key).read_text().strip()
    except OSError:
        return None


_RESOLVERS: Final[dict[str, Callable[[str, str], str | None]]] = {
    "env": lambda name, _: os.environ.get(name),
    "file": _file_entry,
    "directory": _whole_file,
}


# -- from Java's names to kafka-python's


def settings(options: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, Any]:
    """kafka-python's settings of these options; `known` has its names and their defaults."""
    found: dict[str, Any] = {}
    for name, text in options.items():
        found |= _translation(name, known)(text)
    return oauth.together(found)


def _translation(name: str, known: Mapping[str, Any]) -> Translate:
    """What makes kafka-python's settings of a text of this option."""
    rule = java_settings.rule_for(name)
    if isinstance(rule, Refused):
        raise ConfigurationError(f"kafka.{name} is not supported: {rule}")
    ours = name.replace(".", "_")
    # A name with underscores is refused: the code looks settings up by their names with dots
    # (`group.id`), so it would not find `kafka.group_id`.
    is_ours = ours in known and ours not in _NO_TEXT and "_" not in name
    if rule is not None and not (rule is ignored and is_ours):
        return rule
    if not is_ours:
        hint = did_you_mean(name.replace("_", "."), names(known), "kafka.{}".format)
        raise ConfigurationError(f"unknown option kafka.{name}{hint}")
    return lambda text: {ours: _value(ours, name, text, known[ours])}


def names(known: Mapping[str, Any]) -> list[str]:
    """The names of settings that text can give a value to, with dots."""
    own = [name.replace("_", ".") for name in known if name not in _NO_TEXT]
    return [*java_settings.translated_names(), *own]


def warn_of_ignored(options: Mapping[str, str], known: Mapping[str, Any]) -> None:
    """Name in one warning what Java's client would heed and ours does not. For the driver: each
    task would repeat it."""
    found = sorted(name for name in options if _translation(name, known) is ignored)
    text = ", ".join(f"kafka.{name}" for name in found)
    # Spark makes the writer of a stream anew for each batch, mostly in the same process.
    if found and text not in _WARNED:
        _WARNED.add(text)
        _LOG.warning("%s: of Java's client, without effect here", text)


def _value(ours: str, name: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text.strip().lower() not in _BOOLEANS:
            raise ConfigurationError(f"kafka.{name} must be true or false, not {text!r}")
        return _BOOLEANS[text.strip().lower()]
    if isinstance(default, (int, float)) or ours.endswith(("_bytes", "_ms")):
        if not re.fullmatch(r"-?[0-9]{1,19}", text.strip()):
            raise ConfigurationError(f"kafka.{name} must be a number, not {text!r}")
        return int(text)
    return text
