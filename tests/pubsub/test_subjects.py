"""Subjects and patterns: by example, and against a comparison token by token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.pubsub.subjects import SubjectError, check_pattern, check_subject, compile_pattern


@pytest.mark.parametrize("subject", ["quotes", "quotes.nyse.ibm", "a-b_c/d:e", "börse.münchen", "北.東", "x" * 255])
def test_a_subject_is_tokens_with_dots_between_them(subject: str) -> None:
    assert check_subject(subject) == subject
    assert check_pattern(subject) == subject


@pytest.mark.parametrize(
    "subject",
    ["", ".", "a.", ".a", "a..b", "a b", "a\tb", "a\n", "a\u00a0b", "a\u2028b", "a\x00", "a\x7f", "a\x85", "\ud800"],
)
def test_a_malformed_string_is_neither_a_subject_nor_a_pattern(subject: str) -> None:
    for check in (check_subject, check_pattern, compile_pattern):
        with pytest.raises(SubjectError, match="tokens with dots between them"):
            check(subject)


@pytest.mark.parametrize("subject", ["*", ">", "a.*", "a.>", "a*b", "a.b>"])
def test_wildcards_are_not_published(subject: str) -> None:
    with pytest.raises(SubjectError, match=r"subject '.*': .*\* and > are for subscriptions"):
        check_subject(subject)


@pytest.mark.parametrize("pattern", [">.a", "a.>.b", "a*", "*a.b", "a.b>", "**", "a.>>", "a.*.", ">."])
def test_a_wildcard_is_a_whole_token_and_the_greater_than_sign_comes_last(pattern: str) -> None:
    with pytest.raises(SubjectError, match=r"pattern '.*': .*> as the last token"):
        compile_pattern(pattern)


@pytest.mark.parametrize("subject", ["x" * 256, "é" * 128, "𝕏" * 64, "a." * 127 + "bc"])
def test_a_subject_has_at_most_255_bytes_of_utf_8(subject: str) -> None:
    for check in (check_subject, check_pattern):
        with pytest.raises(SubjectError, match="256 bytes in UTF-8, at most 255 are allowed"):
            check(subject)
    assert check_subject(subject[:-1]) == subject[:-1]


def test_an_error_names_the_subject_but_only_part_of_a_long_one() -> None:
    with pytest.raises(SubjectError) as caught:
        check_subject("no spaces " * 1000)
    assert "'no spaces no" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_subject_that_is_not_a_string_is_refused_in_the_same_way() -> None:
    for check in (check_subject, check_pattern):
        with pytest.raises(SubjectError, match="None"):
            check(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "heard", "unheard"),
    [
        ("quotes.nyse.ibm", ["quotes.nyse.ibm"], ["quotes.nyse", "quotes.nyse.ibm.bid", "quotes.nyse.IBM"]),
        ("quotes.*.ibm", ["quotes.nyse.ibm", "quotes.lse.ibm"], ["quotes.ibm", "quotes.a.b.ibm", "quotes.nyse.ibmx"]),
        ("*", ["quotes"], ["quotes.nyse"]),
        ("quotes.*", ["quotes.nyse"], ["quotes", "quotes.nyse.ibm"]),
        ("quotes.>", ["quotes.nyse", "quotes.nyse.ibm"], ["quotes", "quotesx.nyse", "x.quotes.nyse"]),
        ("*.nyse.>", ["quotes.nyse.ibm", "trades.nyse.ibm.x"], ["quotes.nyse", "quotes.lse.ibm"]),
        (">", ["quotes", "quotes.nyse"], []),
        ("a+b.*", ["a+b.c"], ["aab.c"]),
    ],
)
def test_patterns_by_example(pattern: str, heard: list[str], unheard: list[str]) -> None:
    matches = compile_pattern(pattern)
    assert [subject for subject in heard + unheard if matches(subject)] == heard


def token_by_token(pattern: str, subject: str) -> bool:
    wanted, given_ = pattern.split("."), subject.split(".")
    for place, token in enumerate(wanted):
        if token == ">":
            return len(given_) > place
        if place >= len(given_) or token not in ("*", given_[place]):
            return False
    return len(given_) == len(wanted)


tokens = st.sampled_from(["a", "b", "ab", "a-b", "(", "^", "\\d", "é", "北"])
subjects = st.lists(tokens, min_size=1, max_size=5).map(".".join)
patterns = st.builds(
    lambda front, last: ".".join([*front, last]),
    st.lists(tokens | st.just("*"), max_size=4),
    tokens | st.sampled_from(["*", ">"]),
)


@given(patterns, st.lists(subjects, min_size=1, max_size=20))
def test_every_pattern_matches_as_a_comparison_token_by_token_does(pattern: str, some: list[str]) -> None:
    matches = compile_pattern(pattern)
    assert [matches(subject) for subject in some] == [token_by_token(pattern, subject) for subject in some]


@given(patterns, st.data())
def test_a_pattern_matches_the_subjects_that_are_made_from_it(pattern: str, data: st.DataObject) -> None:
    fill = {"*": tokens, ">": subjects}
    subject = ".".join(data.draw(fill[token]) if token in fill else token for token in pattern.split("."))
    assert compile_pattern(pattern)(check_subject(subject)) is True


@given(st.text(alphabet=st.characters() | st.sampled_from(".*> ")))
def test_any_string_is_accepted_or_refused_with_a_subject_error(text: str) -> None:
    for check in (check_subject, compile_pattern):
        try:
            check(text)
        except SubjectError:
            continue
        tokens_of_it = text.split(".")
        assert all(token and not any(c.isspace() for c in token) for token in tokens_of_it)
        assert len(text.encode()) <= 255
