"""The filter language by example: what it says, what it means, how it is refused, where it ends."""

from typing import Any

import pytest

from gossamer.pubsub.where import FilterError, compile_where

IBM: dict[str, Any] = {
    "price": 101.5,
    "size": 300,
    "symbol": "IBM",
    "open": True,
    "note": None,
    "order.limit": 99,
    "bid": 101,
    "ask": 102,
    "blob": b"IBM",
    "list": [1],
    "nan": float("nan"),
}


def passes(text: str, attributes: dict[str, Any] = IBM) -> bool:
    return compile_where(text)(attributes)


@pytest.mark.parametrize(
    "text",
    [
        'price > 100 and symbol in ["IBM", "MSFT"]',
        "price>100 and(size>=300)",
        "100 < price",
        "bid < ask",
        "price == 101.5 and price == 1015e-1 and price == +101.50",
        "size == 300.0 and size == 3e2 and size != 300.5",
        "price > -5 and price > -.5 and price > 1.",
        "symbol startswith 'IB'",
        'symbol startswith ""',
        "'IBM' == symbol and \"IBM\" == symbol",
        "symbol < 'IBN' and symbol <= 'IBM' and symbol >= 'IBM' and symbol > 'IB'",
        "symbol not in ['MSFT', 'AAPL']",
        "symbol not in []",
        "not symbol in []",
        "open == true and open != false",
        "open in [true]",
        "note == null and note in [null]",
        "order.limit == 99",
        "price > 1000 or size > 1000 or symbol == 'IBM'",
        "not (price < 100 or price > 200)",
        "not not price > 100",
        "price\n>\t100",
        "3 > 2",
        "'IBM' startswith 'I'",
        "'a' not in ['b']",
    ],
)
def test_filters_that_pass(text: str) -> None:
    assert passes(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "price < 100",
        "price > 100 and symbol == 'MSFT'",
        "symbol in []",
        "symbol in ['ibm']",
        "symbol not in ['IBM']",
        "symbol startswith 'BM'",
        "size startswith '3'",
        "not open == true",
        "ask <= bid",
        "2 > 3",
        "3 startswith '3'",
        "'a' not in ['a']",
    ],
)
def test_filters_that_do_not_pass(text: str) -> None:
    assert passes(text) is False


def test_not_binds_tighter_than_and_which_binds_tighter_than_or() -> None:
    assert passes("open == true or open == true and open == false")
    assert not passes("(open == true or open == true) and open == false")
    assert passes("not open == false and open == true")
    assert not passes("not (open == false or open == true)")


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("value", ["1", "'x'", "true", "null", "price", "missing"])
def test_every_comparison_with_a_missing_attribute_is_false(operator: str, value: str) -> None:
    assert not passes(f"missing {operator} {value}")
    assert not passes(f"{value} {operator} missing")


def test_a_missing_attribute_is_neither_in_a_list_nor_outside_it() -> None:
    assert not passes("missing in [1, null]")
    assert not passes("missing not in [1]")
    assert not passes("missing not in []")
    assert not passes("missing startswith ''")


def test_not_equal_needs_the_attribute_and_the_negation_of_equal_does_not() -> None:
    assert not passes("venue != 'NYSE'")
    assert passes("not venue == 'NYSE'")
    assert passes("venue != 'NYSE'", {"venue": "LSE"})


def test_unequal_to_null_means_that_an_attribute_has_a_value() -> None:
    assert passes("price != null")
    assert not passes("note != null")
    assert not passes("missing != null")
    assert not passes("missing == null")


@pytest.mark.parametrize(
    ("name", "literal"), [("price", "'101.5'"), ("symbol", "1"), ("open", "1"), ("note", "0"), ("size", "null")]
)
def test_between_two_kinds_only_not_equal_is_true(name: str, literal: str) -> None:
    for left, right in ((name, literal), (literal, name)):
        true = [o for o in ("==", "!=", "<", "<=", ">", ">=") if passes(f"{left} {o} {right}")]
        assert true == ["!="]
    assert not passes(f"{name} in [{literal}]")
    assert passes(f"{name} not in [{literal}]")


def test_true_is_not_one() -> None:
    assert not passes("one == true", {"one": 1})
    assert not passes("yes == 1", {"yes": True})
    assert not passes("one in [true, 2]", {"one": 1})
    assert not passes("yes in [1, 1.0, false]", {"yes": True})
    assert passes("yes in [1, true]", {"yes": True})
    assert passes("one in [true, 1.0]", {"one": 1})


def test_booleans_and_null_have_no_order() -> None:
    for text in ("open > false", "open >= true", "open >= open", "note <= null", "note <= note"):
        assert not passes(text)
    assert passes("open == open and note == note")


def test_integers_and_floats_compare_exactly() -> None:
    assert passes("big > 9007199254740992.0", {"big": 2**53 + 1})
    assert passes("big < 1e300", {"big": 10**200})
    assert passes("big > 1e308", {"big": 10**400})


def test_not_a_number_equals_nothing() -> None:
    assert not passes("nan == nan")
    assert passes("nan != nan and nan != 1")
    assert not passes("nan < 1 or nan >= 1 or nan in [1]")


@pytest.mark.parametrize("name", ["blob", "list"])
def test_a_value_of_another_type_only_differs(name: str) -> None:
    assert not passes(f"{name} == 'IBM' or {name} in ['IBM', 1, null, true] or {name} > 0 or {name} startswith ''")
    assert passes(f"{name} != 'IBM' and {name} not in ['IBM'] and {name} != {name}")


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r'"say \"hi\""', 'say "hi"'),
        (r"'it\'s'", "it's"),
        (r"'a\\b'", "a\\b"),
        (r"'\n\r\t'", "\n\r\t"),
        (r"'\u00e9\u20AC'", "é€"),
        ("'é€𝕏'", "é€𝕏"),
        ("'two\nlines'", "two\nlines"),
        ("'not and or ( ['", "not and or ( ["),
        ("''", ""),
    ],
)
def test_strings_and_their_escapes(literal: str, value: str) -> None:
    assert passes(f"x == {literal}", {"x": value})
    assert not passes(f"x != {literal}", {"x": value})


def test_keywords_inside_names_are_names() -> None:
    names = {"android": 1, "order.in": 1, "nothing": 1, "nullable": 1, "größe": 1, "_x9": 1}
    for name in names:
        assert passes(f"{name} == 1", names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected an attribute, a number, a string, true, false or null, found the end: ^"),
        ("price >", "column 8: expected an attribute, .*, found the end: price >^"),
        ("price > and", "column 9: expected an attribute, .*, found and: price > ^and"),
        ("price = 3", "column 7: = is not an operator, write ==: price ^= 3"),
        ("a == 1 && b == 2", "column 8: & is not an operator, write and: a == 1 ^&& b == 2"),
        ("a == 1 | b == 2", "column 8: | is not an operator, write or"),
        ("!a == 1", "column 1: ! is not an operator, write not or !="),
        ("a == 1 AND b == 2", "column 8: expected and, or, or the end, found AND (write and): a == 1 ^AND b == 2"),
        ("open", "column 5: expected == != < <= > >= in, not in or startswith, found the end: open^"),
        ("1 < price < 2", "column 11: expected and, or, or the end, found <: 1 < price ^< 2"),
        ("(a == 1", "column 8: expected and, or, or ), found the end"),
        ("a == 1)", "column 7: expected and, or, or the end, found ): a == 1^)"),
        ("a in 3", "column 6: expected [, found 3"),
        ("a in [1, 2", "column 11: expected , or ], found the end"),
        ("a in [1, ]", "column 10: expected a number, a string, true, false or null, found ]"),
        ("a in [b]", "column 7: expected a number, a string, true, false or null, found b"),
        ("a not 3", "column 7: expected in, found 3"),
        ("a startswith 3", "column 14: expected a string in quotes, found 3"),
        ("a == 'b", "column 6: the string that begins here has no closing ': a == ^'b"),
        (r"a == 'b\'", "column 6: the string that begins here has no closing '"),
        (r"a == 'b\q'", r"column 8: unknown escape, expected \\ "),
        (r"a == '\u12g4'", r"column 7: unknown escape"),
        (r"a == '\ud83d\ude00'", "column 7: half of a surrogate pair, write the character itself"),
        ("a == 1.2.3", "column 6: expected a number such as 3, -1.5 or 2e6: a == ^1.2.3"),
        ("a == 5x", "column 6: expected a number such as"),
        ("a == 1_000", "column 6: expected a number such as"),
        ("a == 1e", "column 6: expected a number such as"),
        ("a == - 5", "column 6: expected a number such as"),
        ("a == ٣", "column 6: unexpected character '\\u0663'"),
        ("a == -1e999", "column 6: -1e999 is too large"),
        ("a. == 1", "column 2: unexpected character '.'"),
        ("a == 1; b", "column 7: unexpected character ';': a == 1^; b"),
        ("__import__('os')", "column 11: expected == "),
    ],
)
def test_an_error_is_one_line_with_a_caret(text: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_where(text)
    said, beginning = str(caught.value), message.split(".*")[0]
    assert said.startswith(beginning)
    assert said.endswith(message.split(".*")[-1]) or beginning == message
    assert said.startswith(f"column {caught.value.column}: ")
    assert len(said.splitlines()) == 1


def test_a_long_or_unprintable_filter_is_shown_in_part_and_harmlessly() -> None:
    with pytest.raises(FilterError) as caught:
        compile_where("a == 1 and\n" * 20 + "\x1b[2J" + " and a == 1" * 20)
    said = str(caught.value)
    assert said.isprintable()
    assert len(said) < 200
    assert "... 1 and a == 1 and a == 1" in said


def test_a_filter_that_is_not_a_string_is_refused_in_the_same_way() -> None:
    with pytest.raises(FilterError, match="a filter must be a string such as 'price > 100', not function"):
        compile_where(lambda event: True)  # type: ignore[arg-type]


def nested(opening: str, levels: int, closing: str = "") -> str:
    return opening * levels + "open == true" + closing * levels


def test_at_most_64_levels_of_nesting_are_allowed() -> None:
    assert passes(nested("(", 64, ")"))
    assert passes(nested("not ", 64))
    assert passes(nested("not (", 32, ")"))
    for text in (nested("(", 65, ")"), nested("not ", 65), nested("not (", 33, ")")):
        with pytest.raises(FilterError, match="nested too deeply, at most 64 levels"):
            compile_where(text)


def test_a_long_chain_is_not_nested() -> None:
    assert passes(" and ".join(["3 > 2"] * 400))
    assert passes("(3 > 2) or " * 300 + "3 > 2")


def test_at_most_1000_values_are_allowed_in_a_list() -> None:
    values = ",".join(["1"] * 999)
    assert passes(f"size in [{values},300]")
    with pytest.raises(FilterError, match="list is too long, at most 1000 values"):
        compile_where(f"size in [{values},1,1]")


def test_at_most_4096_characters_are_allowed() -> None:
    text = "size == 300"
    assert passes(text.ljust(4096))
    with pytest.raises(FilterError, match="4097 characters, at most 4096 are allowed"):
        compile_where(text.ljust(4097))


def test_at_most_100_characters_are_allowed_in_a_number() -> None:
    assert passes(f"size == {'300'.rjust(100, '0')}")
    with pytest.raises(FilterError, match="101 characters, at most 100"):
        compile_where(f"size == {'300'.rjust(101, '0')}")
