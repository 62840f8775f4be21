"""What the user may have meant by a name that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

__all__ = ["did_you_mean"]


def did_you_mean(name: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """The end of an error's text, with the nearest of the known names (upper and lower case do not
    matter) as it is to be shown; an empty text if none is near."""
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, 1)
    return f"; did you mean {shown(by_lower[near[0]])}?" if near else ""
