"""All scenarios, by subject. Each public function of a module here is one."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from tests.kafka.recorded.world import Scenario

__all__ = ["all_scenarios"]


def all_scenarios(*modules: str) -> list[Scenario]:
    """The scenarios of these modules (all of them if none is named), as they stand there."""
    found = []
    for info in pkgutil.iter_modules(__path__):
        if modules and info.name not in modules:
            continue
        module = importlib.import_module(f"{__name__}.{info.name}")
        for name, act in vars(module).items():
            own = inspect.isfunction(act) and act.__module__ == module.__name__
            if own and not name.startswith("_"):
                found.append(Scenario(info.name, name, act))
    return found
