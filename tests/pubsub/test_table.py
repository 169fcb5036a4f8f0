"""The table of subscriptions: order, keys, and a memory that changes nothing but the time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.pubsub import FilterError, SubjectError, Subscriptions, compile_pattern


def keys(table: Subscriptions[str], subject: str) -> list[str]:
    return [key for key, _ in table.match(subject)]


def test_a_subject_finds_its_subscriptions_in_the_order_in_which_they_were_made() -> None:
    table = Subscriptions[str]()
    table.add("quotes.>", key="z")
    table.add("trades.>", key="y")
    table.add("quotes.nyse.ibm", key="x")
    table.add("quotes.*.ibm", key="a")

    assert keys(table, "quotes.nyse.ibm") == ["z", "x", "a"]
    assert table.match("news") == ()
    assert len(table) == 4


def test_the_filter_comes_compiled_and_is_left_to_the_caller() -> None:
    table = Subscriptions[int]()
    table.add("quotes.>", where="price > 100", key=1)
    table.add("quotes.>", key=2)

    (one, where), (two, none) = table.match("quotes.ibm")

    assert (one, two, none) == (1, 2, None)
    assert where is not None
    assert where({"price": 101})
    assert not where({"price": 99})


def test_added_and_removed_subscriptions_are_seen_at_once_on_a_remembered_subject() -> None:
    table = Subscriptions[str]()
    table.add("a.>", key="one")
    assert keys(table, "a.b") == ["one"]

    table.add("a.b", key="two")
    assert keys(table, "a.b") == ["one", "two"]

    table.remove("one")
    assert keys(table, "a.b") == ["two"]
    assert "one" not in table

    table.add("a.>", key="one")
    assert keys(table, "a.b") == ["two", "one"]


def test_a_remembered_subject_gives_the_very_same_answer() -> None:
    table = Subscriptions[str]()
    table.add(">", key="all")
    assert table.match("a.b") is table.match("a." + "b")


def test_a_key_is_used_once_and_only_a_known_one_is_removed() -> None:
    table = Subscriptions[str]()
    table.add("a", key="one")
    with pytest.raises(ValueError, match="'one' exists already"):
        table.add("b", key="one")
    with pytest.raises(KeyError, match="no subscription 'two'"):
        table.remove("two")
    assert keys(table, "a") == ["one"]


def test_an_invalid_subscription_leaves_nothing_behind() -> None:
    table = Subscriptions[str]()
    with pytest.raises(SubjectError):
        table.add("a..b", key="one")
    with pytest.raises(FilterError):
        table.add("a.b", where="price >", key="one")
    assert len(table) == 0
    table.add("a.b", key="one")


def test_the_memory_of_subjects_is_bounded() -> None:
    table = Subscriptions[str](subjects_remembered_max=10)
    table.add("a.*", key="one")
    for number in range(1000):
        assert keys(table, f"a.{number}") == ["one"]
        assert len(table._remembered) <= 10
    with pytest.raises(ValueError, match="must be at least 1"):
        Subscriptions[str](subjects_remembered_max=0)


patterns = st.sampled_from(["a", "b", "a.b", "a.*", "*.b", "a.>", ">", "*.*", "a.*.c"])
steps = st.lists(
    st.tuples(st.just("add"), patterns)
    | st.tuples(st.just("remove"), st.integers(0, 9))
    | st.tuples(st.just("match"), st.sampled_from(["a", "b", "a.b", "c.b", "a.b.c", "x"])),
    max_size=40,
)


@given(steps)
def test_any_history_answers_as_a_plain_list_would(history: list[tuple[str, str | int]]) -> None:
    table, plain, made = Subscriptions[int](subjects_remembered_max=3), {}, 0
    for step, what in history:
        if step == "add":
            table.add(str(what), key=made)
            plain[made] = str(what)
            made += 1
        elif step == "remove" and what in plain:
            table.remove(int(what))
            del plain[int(what)]
        elif step == "match":
            expected = [key for key, pattern in plain.items() if compile_pattern(pattern)(str(what))]
            assert [key for key, _ in table.match(str(what))] == expected
