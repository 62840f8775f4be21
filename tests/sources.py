"""The code of our modules as trees, each parsed once for all rules that a module of tests checks.

To parse all of aktor takes two seconds. The trees are large: who is done with them calls `forget`.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The code of a file. Nobody changes it."""
    return ast.parse(path.read_text())


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All that is in it, in the order of `ast.walk`, which takes as long as parsing it."""
    return tuple(ast.walk(tree_of(path)))


def forget() -> None:
    """Keep no tree any more."""
    tree_of.cache_clear()
    nodes_of.cache_clear()
