"""The columns of what could not be decoded."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

__all__ = ["columns_of"]


def columns_of(values: pa.Array, bad: Mapping[int, str]) -> dict[str, pa.Array]:
    """The reasons and the bytes of the values that are bad; null for all others."""
    count = len(values)
    if not bad:
        return {
            "valueError": pa.nulls(count, pa.string()),
            "rawValue": pa.nulls(count, pa.binary()),
        }
    import pyarrow.compute as compute

    errors = pa.array(map(bad.get, range(count)), pa.string())
    return {"valueError": errors, "rawValue": compute.if_else(errors.is_valid(), values, None)}
