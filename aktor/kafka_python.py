"""The check that kafka-python is installed, in a version whose internals aktor knows.

The import of this module is the check: it raises an ImportError that says what to do. A package of
aktor that imports kafka-python imports this module first. Without it, another version would show
as an ImportError from deep inside ("cannot import name 'TaskState'"). pip installs the right
version by itself; another one gets in if a later `pip install` replaces it, or if another
distribution brings a package `kafka`, too (kafka-python-ng does).

kafka-python reads the layouts of its messages by functions that Python 3.11 and 3.12 call
deprecated: 226 warnings, and under `filterwarnings = error` it cannot be imported. That is neither
our user's matter nor ours: it is imported here, without its warnings.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["BEFORE", "OLDEST", "check", "quiet", "version"]

#: The oldest version with which our tests pass (3.0.4 loses an answer at the end of a stream), and
#: the first one that does not fit (3.1 moves `kafka.net`). The same range is in setup.cfg.
OLDEST: Final = (3, 0, 5)
BEFORE: Final = (3, 1)

_RANGE: Final = f">={'.'.join(map(str, OLDEST))},<{'.'.join(map(str, BEFORE))}"


@contextmanager
def quiet() -> Iterator[None]:
    """Meanwhile kafka-python's modules are imported without a DeprecationWarning. (For all threads:
    Python's filters are those of the process.)"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def version() -> str:
    """The version that the imported package `kafka` says it has."""
    with quiet():
        import kafka

    return str(kafka.__version__)


def check() -> None:
    """Raise an ImportError that says what to do, unless the right kafka-python is installed."""
    try:
        found = version()
    except (ImportError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "kafka":
            raise _error("found none") from None
        raise _error(f"found one that cannot be imported ({error})") from error
    numbers = tuple(map(int, re.findall(r"\d+", found)[:3]))
    if not OLDEST <= numbers < BEFORE:
        raise _error(f"found {found}")


def _error(found: str) -> ImportError:
    from importlib.metadata import packages_distributions

    others = sorted(set(packages_distributions().get("kafka", [])) - {"kafka-python"})
    if others:
        found += f", from {' and '.join(others)}"
    remove = f"pip uninstall {' '.join(others)}; " if others else ""
    return ImportError(
        f"aktor needs kafka-python {_RANGE}, {found}. To repair:"
        f" {remove}pip install --force-reinstall 'kafka-python{_RANGE}'",
        name="kafka",
    )


check()
