"""What the pages print as Python is Python, and what it takes from aktor is there."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import aktor
import aktor.aio
from aktor.consumer.configuration.table import DEFAULT_CONFIG

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

#: By their page and their place on it.
PROGRAMS = {
    f"{page.stem}-{number}": block
    for page in sorted(DOCS.glob("*.md"))
    for number, block in enumerate(_BLOCK.findall(page.read_text()))
}


def parsed(name: str) -> ast.Module:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree: ast.Module = compile(PROGRAMS[name], name, "exec", flags)
    return tree


def calls(tree: ast.Module) -> Iterator[tuple[str, str, list[str]]]:
    """The object, the method and the keywords of each call `object.method(...)`, or of `Name(...)`
    with an empty object."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        keywords = [one.arg for one in node.keywords if one.arg is not None]
        match node.func:
            case ast.Attribute(value=ast.Name(id=thing), attr=method):
                yield thing, method, keywords
            case ast.Name(id=thing):
                yield "", thing, keywords


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_a_page_imports_what_there_is(name: str) -> None:
    for node in ast.walk(parsed(name)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "aktor":
            module = importlib.import_module(node.module or "")
            for one in node.names:
                assert hasattr(module, one.name), f"from {node.module} import {one.name}"
        elif isinstance(node, ast.Import):
            for one in node.names:
                if one.name.split(".")[0] == "aktor":
                    importlib.import_module(one.name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_a_page_gives_settings_and_arguments_that_there_are(name: str) -> None:
    tree = parsed(name)
    asynchronous = "aktor.aio" in PROGRAMS[name] or "await " in PROGRAMS[name]
    kind = aktor.aio.KafkaConsumer if asynchronous else aktor.KafkaConsumer
    for thing, called, keywords in calls(tree):
        if called == "KafkaConsumer" and not thing:
            assert set(keywords) <= DEFAULT_CONFIG.keys(), "a setting that there is not"
        elif thing == "consumer" and "confluent_kafka" not in PROGRAMS[name]:
            method = getattr(kind, called, None)
            assert method is not None, f"consumer.{called}() is not there"
            assert set(keywords) <= inspect.signature(method).parameters.keys()
