"""The checks of one value: each takes a setting's name and value, and returns what is kept."""

from __future__ import annotations

import inspect
import numbers
import operator
import os
import re
import reprlib
import selectors
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from kafka.errors import UnrecognizedBrokerVersion
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import IsolationLevel

from aktor.consumer.configuration.secrets import Secret, unmasked
from aktor.errors import ConfigurationError
from aktor.events.positions import BY_DURATION, seconds

#: Checks one value and returns it as it will be kept; raises ConfigurationError.
Check = Callable[[str, Any], Any]

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

OFFSET_RESETS: Final = ("latest", "earliest", "none")
#: The names of Kafka 0.8, which kafka-python still takes.
OFFSET_RESETS_OF_OLD: Final = {"smallest": "earliest", "largest": "latest"}
PROXY_SCHEMES: Final = ("socks5", "socks5h", "http")


#: A longer string does not fit into a request.
INT16_MAX: Final = 2**15 - 1


def refusal(name: str, value: Any, must: str) -> ConfigurationError:
    """The error to raise: what was given, shortened, and what it must be."""
    return ConfigurationError(f"{name} is {reprlib.repr(value)}, but must be {must}")


def anything(name: str, value: Any) -> Any:
    return value


#: A number as an environment variable has it.
_WRITTEN: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")

#: Truth as an environment variable has it.
_WRITTEN_TRUTH: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def as_number(value: Any) -> Any:
    """A number that is given as text, as a number; anything else as it is."""
    if not isinstance(value, str) or not _WRITTEN.fullmatch(text := value.strip()):
        return value
    return float(text) if "." in text else int(text)


def is_number(value: Any) -> bool:
    """Whether it is a number, NaN and infinity among them; True is none."""
    if type(value) in (int, float):
        return True  # as nearly always, and asking an abstract class takes long
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def milliseconds(low: int = 0, high: int = INT32_MAX) -> Check:
    """A number, whole or not, in this range."""
    must = f"a number of milliseconds from {low} to {high}"

    def check(name: str, value: Any) -> Any:
        number = as_number(value)
        if not is_number(number) or not low <= number <= high:
            raise refusal(name, value, must)
        return number

    return check


def integer(low: int, high: int, what: str) -> Check:
    """A whole number in this range, of numpy's kinds, too."""
    must = f"a whole number of {what} from {low} to {high}"

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool):
            raise refusal(name, value, must)
        try:
            number = operator.index(as_number(value))
        except TypeError:
            raise refusal(name, value, must) from None
        if not low <= number <= high:
            raise refusal(name, value, must)
        return number

    return check


def size(low: int = 1, high: int = INT32_MAX) -> Check:
    """A whole number of bytes in this range."""
    return integer(low, high, "bytes")


def optional(check: Check, default: Any = None) -> Check:
    """None means `default`; anything else must pass `check`."""
    return lambda name, value: default if value is None else check(name, value)


def boolean(name: str, value: Any) -> bool:
    # kafka-python takes anything; "false" from an environment variable means True there
    if isinstance(value, str):
        value = _WRITTEN_TRUTH.get(value.strip().lower(), value)
    if not isinstance(value, int) or value not in (0, 1):
        raise refusal(name, value, "True or False")
    return bool(value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refusal(name, value, "a str")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:  # a lone surrogate, as in the name of a file that is no UTF-8
        raise refusal(name, value, "a str that can be encoded in UTF-8") from None
    if size > INT16_MAX:
        raise refusal(name, value, f"a str of at most {INT16_MAX} bytes in UTF-8")
    return value


def identifier(name: str, value: Any) -> str:
    """A name that programs make of a process id or a UUID; kafka-python sends `str` of it."""
    named = isinstance(value, int | UUID) and not isinstance(value, bool)
    return text(name, str(value) if named else value)


def group_id(name: str, value: Any) -> str:
    group = identifier(name, value)
    if group == "":
        raise refusal(name, value, "the name of a group, or None to read without one")
    return group


def one_of(*choices: str) -> Check:
    """One of these, in small or capital letters; a misspelt one is told which."""

    def check(name: str, value: Any) -> str:
        given = value.strip().casefold() if isinstance(value, str) else value
        for choice in choices:
            if given == choice.casefold():
                return choice
        must = f"one of {', '.join(map(repr, choices))}"
        raise refusal(name, value, must + did_you_mean(nearest(value, choices)))

    return check


def offset_reset(name: str, value: Any) -> Any:
    if value is None:
        return "none"
    if isinstance(value, str):
        value = value.strip()
        value = OFFSET_RESETS_OF_OLD.get(value, value.lower())
        if value.startswith(BY_DURATION):
            return _by_duration(name, value)
    if value in OFFSET_RESETS:
        return value
    must = f"{', '.join(map(repr, OFFSET_RESETS))} or a duration as in '{BY_DURATION}PT1H'"
    raise refusal(name, value, must + did_you_mean(nearest(value, OFFSET_RESETS)))


def _by_duration(name: str, value: str) -> str:
    duration = value.removeprefix(BY_DURATION).upper()
    try:
        seconds(duration)
    except ValueError:
        must = f"{BY_DURATION} and a duration in ISO 8601, as in {BY_DURATION}PT1H or P1DT12H"
        raise refusal(name, value, must) from None
    return BY_DURATION + duration


def isolation_level(name: str, value: Any) -> Any:
    try:
        return IsolationLevel.build_from(value).name.lower()
    except ValueError:
        return one_of("read_uncommitted", "read_committed")(name, value)


def group_protocol(name: str, value: Any) -> Any:
    value = value.lower() if isinstance(value, str) else value
    return one_of("classic", "consumer", "auto")(name, value)


def not_blank(name: str, value: Any) -> str:
    if not text(name, value).strip():
        raise refusal(name, value, "a name that is not blank, or None")
    return str(value)


def instance_id(name: str, value: Any) -> str:
    return not_blank(name, identifier(name, value))


def path(name: str, value: Any) -> str:
    try:
        return os.fsdecode(value)
    except TypeError:
        raise refusal(name, value, "the name of a file") from None


def function(name: str, value: Any) -> Any:
    if not callable(value):
        raise refusal(name, value, "a function")
    if inspect.iscoroutinefunction(value):
        raise refusal(name, value, "an ordinary function: a coroutine would not be awaited")
    return value


def selector(name: str, value: Any) -> Any:
    # By its methods: eventlet puts classes into `selectors` that are none of its BaseSelector
    methods = selectors.BaseSelector.__abstractmethods__
    if not isinstance(value, type) or not all(hasattr(value, method) for method in methods):
        raise refusal(name, value, "a class with the methods of selectors.BaseSelector")
    return value


def socket_options(name: str, value: Any) -> list[Any]:
    must = "a list of arguments to setsockopt, e.g. [(SOL_SOCKET, SO_KEEPALIVE, 1)]"
    if not isinstance(value, (list, tuple)):
        raise refusal(name, value, must)
    for option in value:
        if not isinstance(option, (list, tuple)) or not _is_socket_option(option):
            raise refusal(name, value, must)
    return list(value)


def _is_socket_option(option: Sequence[Any]) -> bool:
    """Whether `setsockopt` takes these: a number, bytes, or None with the length of a buffer."""
    whole: tuple[Any, ...]
    match option:
        case (level, number, bytes() | bytearray() | memoryview()):
            whole = (level, number)
        case (level, number, None, length):
            whole = (level, number, length)
        case (_, _, _):
            whole = tuple(option)
        case _:
            return False
    return all(_is_int32(number) for number in whole)


def _is_int32(value: Any) -> bool:
    try:
        return -INT32_MAX <= operator.index(value) <= INT32_MAX
    except TypeError:
        return False


def buffer_size(name: str, value: Any) -> int | None:
    # -1 is the Java client's way to leave it to the system
    return None if value == -1 else size()(name, value)


def consumer_timeout(name: str, value: Any) -> Any:
    number = as_number(value)
    if not is_number(number) or number != number:
        raise refusal(name, value, "a number of milliseconds; float('inf') iterates for ever")
    return float("inf") if number < 0 else number


def api_version(name: str, value: Any) -> Any:
    """A broker version that kafka-python knows, as a tuple; None has the broker asked."""
    must = "a tuple such as (3, 9), or None to ask the broker"
    if value == "auto":
        return None
    if isinstance(value, str):
        if not re.fullmatch(r"\d+(\.\d+)+", value):
            raise refusal(name, value, must)
        value = tuple(map(int, value.split(".")))
    if not isinstance(value, tuple) or not all(type(item) is int for item in value):
        raise refusal(name, value, must)
    try:
        return BrokerVersionData(value).broker_version
    except UnrecognizedBrokerVersion:
        raise refusal(name, value, f"{must}; no broker of this version is known") from None


def proxy(name: str, value: Any) -> str:
    value = text(name, unmasked(name, value))
    try:
        parts = urlsplit(value)
        whole = parts.scheme in PROXY_SCHEMES and parts.hostname and parts.port
    except ValueError:
        whole = None
    if not whole:
        # the address may hold a password: it is not repeated here
        raise ConfigurationError(
            f"{name} cannot be used: it must look like socks5://host:1080, with one of the schemes"
            f" {', '.join(PROXY_SCHEMES)} and with a port"
        )
    return Secret(value) if parts.username or parts.password else value


def metric_reporters(name: str, value: Any) -> list[Any]:
    """Classes (or functions) that make reporters, as kafka-python takes them."""
    if value is None:
        return []
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(map(callable, value)):
        raise refusal(name, value, "a list of classes, as [MyReporter]")
    return list(value)


def not_yet(default: Any, what: str) -> Check:
    """Accept a setting of kafka-python only with the value that means "without it"."""

    def check(name: str, value: Any) -> Any:
        value = list(value) if isinstance(value, tuple) else value
        if value == default:
            return default
        raise ConfigurationError(f"{name} is not supported yet ({what}); leave it out")

    return check


def nearest(value: Any, known: Iterable[str]) -> str | None:
    """The known name that is spelt most like `value`, if any is."""
    import difflib  # here, because importing it takes time and only a misspelt setting needs it

    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(value).lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


def did_you_mean(name: str | None) -> str:
    """The hint to append to a message; empty without a name."""
    return f" (did you mean {name!r}?)" if name else ""
