"""`help(KafkaConsumer)` tells of each setting what configuration.md tells."""

from __future__ import annotations

import functools
import pydoc
import re

import pytest

import aktor
from aktor.consumer.configuration.table import SECTIONS, Setting

SETTINGS = [setting for settings in SECTIONS.values() for setting in settings]


@functools.cache
def shown() -> str:
    """What `help` prints of the settings."""
    text = pydoc.plain(pydoc.render_doc(aktor.KafkaConsumer))
    return text[text.index("Settings, with their") : text.index("Method resolution order")]


def told(setting: Setting) -> tuple[str, str]:
    """The line with the setting's default, and what stands under it."""
    text = shown().replace("\n |  ", "\n")
    found = re.search(rf"^ {{4}}({setting.name} = .*)\n((?: {{8}}.*\n)*)", text, re.MULTILINE)
    assert found, f"nothing is said of {setting.name}"
    return found[1], " ".join(found[2].split())


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_it_has_a_default_and_a_sentence_that_can_be_read_without_the_page(
    setting: Setting,
) -> None:
    default, sentence = told(setting)

    assert re.match(r"['\w(\[]", sentence), "it begins with a word"
    assert not re.search(r"`|\]\(|\bbelow\b(?!.* than)", sentence.replace("must be below", ""))
    assert not default.endswith(f"None {setting.unit}") or not setting.unit


def test_no_line_is_longer_than_those_of_the_methods() -> None:
    assert max(map(len, shown().splitlines())) <= 100
