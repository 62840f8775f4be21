"""Historic bugs put back, and gross ones: every patch can be used, the simulator is not blind."""

from __future__ import annotations

import builtins
import re
import shutil
import symtable
from pathlib import Path

import pytest

from tests.gate import all_but_the_first
from tests.mutations.one_token import ANYWHERE, IN_TABLE, ROOT, NotThereError, one_tokens
from tests.mutations.run import (
    BEGIN,
    DOCUMENT,
    END,
    Mutation,
    PatchError,
    StormsError,
    mutated,
    mutations,
    read,
    storms,
)

#: Some mutations: (part of the name, a seed that finds it, by what). `make mutations` has all.
QUICK = [
    ("05_", 3, "nothing_is_given_out_while_it_is_handed_back"),
    ("28_", 0, "automatic_commits_are_not_late"),
]


@pytest.mark.parametrize("mutation", mutations(), ids=lambda one: one.path.stem)
def test_a_patch_says_which_bug_it_is_and_applies_to_the_code_as_it_is(mutation: Mutation) -> None:
    with mutated(mutation, whole=False) as folder:
        changed = [
            one.relative_to(folder)
            for one in folder.rglob("*.py")
            if one.read_bytes() != (ROOT / one.relative_to(folder)).read_bytes()
        ]

        assert changed
        assert {name for one in changed for name in unknown_names(folder / one)} == set()


def unknown_names(file: Path) -> set[str]:
    """The names that code reads, and that neither its module nor Python has.

    A patch that applies where a variable has another name now would be found by any test: not as
    the bug that it was.
    """
    module = symtable.symtable(file.read_text(), str(file), "exec")
    tables, read = [module], set[str]()
    for table in tables:
        tables += table.get_children()
        read |= {one.get_name() for one in table.get_symbols() if one.is_global()}
    return read - {*module.get_identifiers(), *dir(builtins), "__file__"}


def test_a_name_that_nothing_has_is_found(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text("import sys\ndef a(b):\n    return [c for d in b], sys, len, e.f, a\n")

    assert unknown_names(file) == {"c", "e"}


def test_the_tests_that_find_bugs_are_there() -> None:
    """By their ids; `python -m tests.mutations.strength --of known` runs them."""
    gone = []
    known = {one.found_by for one in one_tokens()} | {one.found_by for one in mutations()}
    for test in sorted(known - {""}):
        path, _, name = test.partition("[")[0].partition("::")
        file = ROOT / path
        if not (file.exists() and re.search(rf"^def {name}\(", file.read_text(), re.MULTILINE)):
            gone.append(test)

    assert gone == []


def test_bugs_of_one_token_can_be_put_into_the_code_as_it_is(tmp_path: Path) -> None:
    """Lines change: when many are gone, `python -m tests.mutations.one_token` draws others."""
    bugs, gone = one_tokens(), 0
    shutil.copytree(ROOT / "aktor", tmp_path / "aktor")
    for bug in bugs:
        try:
            path = bug.put_into(tmp_path)
        except NotThereError:
            gone += 1
            continue
        assert (tmp_path / path).read_bytes() != (ROOT / path).read_bytes()
        shutil.copy(ROOT / path, tmp_path / path)

    assert len(bugs) == ANYWHERE + IN_TABLE
    assert gone <= len(bugs) / 4


def test_there_are_twenty_historic_bugs_then_seven_gross_ones_and_then_those_found_by_hand() -> (
    None
):
    kinds = [one.bug.partition(": ")[0] for one in mutations()]
    gross, by_hand = ["gross"] * 7, ["by hand"]

    assert [one.number for one in mutations()] == [f"{number:02}" for number in range(1, 29)]
    assert kinds[20:] == gross + by_hand
    assert not {"gross", "by hand"} & set(kinds[:20])


@pytest.mark.parametrize(("name", "seed", "check"), all_but_the_first(0, QUICK))
def test_a_bug_that_is_put_back_is_found(name: str, seed: int, check: str) -> None:
    (mutation,) = [one for one in mutations() if one.path.stem.startswith(name)]

    with mutated(mutation) as folder:
        (said,) = storms(folder, seed, seed)

    assert said["found"], said
    assert check in str(said["by"])


def test_a_patch_without_a_header_is_an_error(tmp_path: Path) -> None:
    patch = tmp_path / "99_nameless.patch"
    patch.write_text("diff --git a/aktor/errors.py b/aktor/errors.py\n")

    with pytest.raises(PatchError, match="does not say which bug"):
        read(patch)


def test_a_patch_that_does_not_apply_is_an_error(tmp_path: Path) -> None:
    patch = tmp_path / "99_stale.patch"
    patch.write_text(
        "Bug: none.\nSeen: nothing.\n\ndiff --git a/aktor/errors.py b/aktor/errors.py\n"
        "--- a/aktor/errors.py\n+++ b/aktor/errors.py\n@@ -1 +1 @@\n-not there\n+at all\n"
    )

    with pytest.raises(PatchError, match="does not apply"), mutated(read(patch)):
        pass


def test_storms_that_cannot_run_are_an_error_and_not_a_bug_that_is_not_found(
    tmp_path: Path,
) -> None:
    (tmp_path / "aktor").mkdir()
    (tmp_path / "aktor" / "__init__.py").write_text("import no_such_thing\n")

    with pytest.raises(StormsError, match="No module named 'no_such_thing'"):
        list(storms(tmp_path, 0, 0))


def test_the_documents_have_the_table() -> None:
    text = DOCUMENT.read_text()

    assert text.count(BEGIN) == text.count(END) == 1
    table = text[text.index(BEGIN) : text.index(END)]
    assert all(one.name in table for one in mutations())
