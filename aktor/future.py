"""kafka-python's `kafka.future`: what `commit_async` returns, and the types of its methods.

As in `aktor.structs`: type checkers read the class below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

__all__ = ["Future"]

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Self

    class Future:
        """Ends once, with None or an exception."""

        is_done: bool
        value: None
        exception: BaseException | None

        def succeeded(self) -> bool:
            """It has ended without an exception."""
            ...

        def failed(self) -> bool:
            """It has ended with an exception."""
            ...

        def retriable(self) -> bool:
            """It has ended with an exception, and trying again may help."""
            ...

        def success(self, value: None) -> Self:
            """End it without an exception."""
            ...

        def failure(self, e: BaseException | type[BaseException]) -> Self:
            """End it with an exception."""
            ...

        def add_callback(self, f: Callable[[None], object]) -> Self:
            """Call `f(None)` when it has succeeded."""
            ...

        def add_errback(self, f: Callable[[BaseException], object]) -> Self:
            """Call `f(exception)` when it has failed."""
            ...

        def add_both(self, f: Callable[[BaseException | None], object]) -> Self:
            """Call `f` in either case."""
            ...

        def __await__(self) -> Generator[Self, None, None]: ...

else:
    from kafka.future import Future
