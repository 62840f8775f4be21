"""The version of this package: brokers show it in their metrics of clients (KIP-511)."""

from __future__ import annotations

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.1.0.dev0"
