"""The fuzzer's corpus: nothing in it raises. What fuzzing has found is kept there."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import TARGETS, corpus, seeds


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_in_the_corpus_raises(target: str) -> None:
    for _, content in corpus(target):
        TARGETS[target](content)


@pytest.mark.parametrize("target", TARGETS)
def test_any_cut_and_any_flipped_byte_of_it_raises_nothing(target: str) -> None:
    for _, content in corpus(target):
        for at in range(0, len(content), 3):
            TARGETS[target](content[:at])
            TARGETS[target](content[:at] + bytes((content[at] ^ 0xFF,)) + content[at + 1 :])


def test_the_corpus_has_the_inputs_that_are_made() -> None:
    kept = {target: {name for name, _ in corpus(target)} for target in TARGETS}
    for target, name, _ in seeds():
        assert name in kept[target], "python -m tests.fuzz --write makes it anew"
