"""What `process` is asked to do, checked; and what it has done."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aktor.consumer import arguments
from aktor.errors import ConfigurationError
from aktor.processing.failures import Failure, Retries

if TYPE_CHECKING:
    from aktor.consumer.configuration.keywords import Config

__all__ = ["ORDERS", "Plan", "Processed", "plan", "plan_for"]

Handler = Callable[[Any], Any]
OnError = Callable[[Failure], Any]

#: What keeps its order: records with the same key, all of a partition, or none.
ORDERS: Final = ("key", "partition", "none")

#: Where handlers run.
WORKERS: Final = ("threads", "processes", "coroutines")


@dataclass(frozen=True, slots=True)
class Plan:
    """The arguments of `process`; times in seconds."""

    handler: Handler
    concurrency: int
    order: str
    #: Called with a `Failure` once all attempts have failed; or "raise", "skip".
    on_error: OnError | str
    retries: Retries
    workers: str
    max_pending: int
    max_uncommitted: int
    commit_interval: float
    drain_timeout: float
    #: It ends when nothing has come for so long.
    idle_timeout: float


@dataclass(slots=True)
class Processed:
    """What a call of `process` has done, in records.

    `unfinished` were polled, and their handlers had not ended when it did: they are given out
    again.
    """

    finished: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    retried: int = 0
    unfinished: int = 0


def plan_for(
    config: Config,
    handler: Handler,
    *,
    concurrency: int,
    order: str,
    on_error: OnError | str,
    retries: int | Retries,
    workers: str | None,
    max_pending: int,
    max_uncommitted: int,
    commit_interval_ms: float | None,
    drain_timeout_ms: float,
    awaits: bool = False,
) -> Plan:
    """The plan of a `process` of a consumer with these settings. ConfigurationError: auto-commit is
    on. TypeError, ValueError: an argument is wrong, and which."""
    if config["group_id"] is not None and config["enable_auto_commit"]:
        raise ConfigurationError(
            "process() commits what is finished; auto-commit would commit what is not: set"
            " enable_auto_commit=False"
        )
    return plan(
        handler,
        order=order,
        on_error=on_error,
        retries=retries,
        workers=workers,
        numbers={
            "concurrency": concurrency,
            "max_pending": max_pending,
            "max_uncommitted": max_uncommitted,
        },
        commit_interval=arguments.seconds(
            commit_interval_ms, config["auto_commit_interval_ms"] / 1000
        ),
        drain_timeout=arguments.seconds(drain_timeout_ms),
        idle_timeout=config["consumer_timeout_ms"] / 1000,
        awaits=awaits,
    )


def plan(
    handler: Handler,
    *,
    order: str,
    on_error: OnError | str,
    retries: int | Retries,
    workers: str | None,
    numbers: dict[str, int],
    commit_interval: float,
    drain_timeout: float,
    idle_timeout: float,
    awaits: bool = False,
) -> Plan:
    """Check the arguments. TypeError, ValueError: one is wrong, and which. `awaits`: `on_error` may
    be a coroutine function."""
    if not callable(handler):
        raise TypeError(f"handler must be callable, not {type(handler).__name__}")
    if _is_generator(handler):
        raise TypeError("handler is a generator function: it would never run; use no `yield` in it")
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, not {order!r}")
    if not callable(on_error) and on_error not in ("raise", "skip"):
        raise ValueError(
            f"on_error must be 'raise', 'skip', a dead_letter(...) or a function, not {on_error!r}"
        )
    if (_is_coroutine(on_error) and not awaits) or _is_generator(on_error):
        raise TypeError("on_error must be an ordinary function: it runs in a thread")
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"{name} must be an int, not {type(number).__name__}")
        if number < 1:
            raise ValueError(f"{name} must be at least 1, not {number}")
    is_coroutine = _is_coroutine(handler)
    workers = workers or ("coroutines" if is_coroutine else "threads")
    if workers not in WORKERS:
        raise ValueError(f"workers must be one of {', '.join(WORKERS)}, not {workers!r}")
    if is_coroutine != (workers == "coroutines"):
        raise TypeError(
            f"a handler for {workers} must {'' if workers == 'coroutines' else 'not '}be a"
            " coroutine function"
        )
    return Plan(
        handler=handler,
        order=order,
        on_error=on_error,
        retries=retries if isinstance(retries, Retries) else Retries(retries),
        workers=workers,
        commit_interval=commit_interval,
        drain_timeout=drain_timeout,
        idle_timeout=idle_timeout,
        **numbers,
    )


def _is_coroutine(call: Any) -> bool:
    return any(map(inspect.iscoroutinefunction, _functions_of(call)))


def _is_generator(call: Any) -> bool:
    return any(
        inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        for function in _functions_of(call)
    )


def _functions_of(call: Any) -> tuple[Any, Any]:
    return call, getattr(call, "__call__", None)  # noqa: B004  # an object whose call is one
