"""What RE2 matches, and what it refuses."""

from __future__ import annotations

import time

import pytest

from aktor.broker.groups.consumer.re2 import Pattern, PatternError

# What is expected here is what RE2/J 1.8 answers to the same.


@pytest.mark.parametrize(
    ("regex", "matches", "others"),
    [
        ("", [""], ["a"]),
        ("orders", ["orders"], ["orders-eu", "my-orders"]),
        ("orders-.*", ["orders-", "orders-eu"], ["orders"]),
        ("a|b|", ["a", "b", ""], ["ab"]),
        ("(?:a|bc)+x?", ["abca", "ax"], ["x", "bx"]),
        ("(a*)*", ["", "aaa"], ["b"]),
        ("[a-c_.-]+", ["a-b.c_"], ["d", ""]),
        ("[^a-c]", ["d", "-"], ["a", "dd"]),
        ("[]a]+", ["]a]"], ["b"]),
        ("[[:alpha:]]\\d{2,3}", ["a12", "b123"], ["a1", "a1234", "112"]),
        ("a{2}", ["aa"], ["a", "aaa"]),
        ("a{2,}", ["aa", "aaaa"], ["a"]),
        ("a{0}", [""], ["a"]),
        ("a{,2}", ["a{,2}"], ["a", "aa"]),
        ("(?i)Orders", ["orders", "ORDERS"], ["order"]),
        ("(?i:A)b", ["ab", "Ab"], ["aB"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(a(?i)b)c", ["aBc"], ["aBC"]),
        ("^a$", ["a"], ["aa"]),
        ("a^b", [], ["ab"]),
        ("\\Aa\\z", ["a"], ["ab"]),
        ("a\\b-b", ["a-b"], ["ab"]),
        ("a\\Bb", ["ab"], ["a-b"]),
        ("\\Qa.b*\\E+", ["a.b*", "a.b**"], ["axb"]),
        ("\\x61\\x{62}\\143", ["abc"], ["ab"]),
        ("\\pL\\p{Nd}\\PN", ["a1b"], ["11b", "a11"]),
        ("\\w+\\W\\w+", ["ab-cd"], ["ab_cd"]),
        ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
        ("é?a", ["a"], ["e"]),
        (".*?", ["", "a.b"], []),
    ],
)
def test_a_pattern_matches_whole_names(regex: str, matches: list[str], others: list[str]) -> None:
    pattern = Pattern(regex)

    assert [name for name in matches + others if pattern.matches(name)] == matches


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("(", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("[a", "missing closing ]"),
        ("*a", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a*+", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{3,2}", "invalid repeat count"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        ("a(?!b)", "invalid or unsupported Perl syntax"),
        ("(?>a)", "invalid or unsupported Perl syntax"),
        ("(?x)a", "invalid or unsupported Perl syntax"),
        ("(a)\\1", "invalid escape sequence"),
        ("a\\Z", "invalid escape sequence"),
        ("\\u0061", "invalid escape sequence"),
        ("a\\", "trailing backslash at end of expression"),
        ("[b-a]", "invalid character class range"),
        ("[[:foo:]]", "invalid character class range"),
        ("\\p{Foo}", "invalid character class range"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
    ],
)
def test_what_re2_does_not_know_is_refused_with_its_reason(regex: str, reason: str) -> None:
    with pytest.raises(PatternError) as refusal:
        Pattern(regex)

    assert str(refusal.value) == reason


@pytest.mark.parametrize(
    "regex", ["((((a{50}){50}){50}){50})", "a" * 5000, "(" * 3000 + "a" + ")" * 3000]
)
def test_what_would_take_too_much_memory_is_refused(regex: str) -> None:
    with pytest.raises(PatternError, match=r"too large|longer than|too deeply"):
        Pattern(regex)


@pytest.mark.parametrize("regex", ["(a+)+$", "(a|aa)*", "(a?){60}a{60}", "(.*)(.*)(.*)(.*)(.*)x"])
def test_no_pattern_takes_long(regex: str) -> None:
    pattern = Pattern(regex)
    began = time.thread_time()

    pattern.matches("a" * 248 + "b")

    assert time.thread_time() - began < 2.0
