"""What a setting may be: what makes no sense is refused before a cluster starts."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import fields
from typing import Any

__all__ = ["check_numbers"]


def check_numbers(settings: Any, *, above_zero: Collection[str]) -> None:
    """Every number of a dataclass is finite and not negative, and these are more than 0.

    Raises ValueError naming the setting.
    """
    for name in (field.name for field in fields(settings)):
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        least_is_out = name in above_zero
        if not math.isfinite(value) or value < 0 or (least_is_out and value == 0):
            must = "more than 0" if least_is_out else "0 or more"
            raise ValueError(f"{type(settings).__name__}({name}={value}): must be {must}")
