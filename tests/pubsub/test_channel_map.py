"""The channel map: the first rule decides, a subscription finds all its channels, and a bad map is refused."""

import itertools
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gossamer.pubsub.channel_map import MAP_BYTES_MAX, ChannelMap, ChannelMapError, Rule
from gossamer.pubsub.first_match import intersection
from gossamer.pubsub.subjects import SubjectError, compile_pattern


def made(*rules: tuple[str, int], version: int = 1, channels: int = 16) -> ChannelMap:
    return ChannelMap(version, channels, tuple(Rule(*rule) for rule in rules))


MIXED = made(("quotes.nyse.ibm", 3), ("quotes.nyse.*", 1), ("quotes.>", 2), ("news.*.sport", 4))

# every token that a rule can name, and one that none can: it stands for all the others
NAMED = ["a", "b"]
SUBJECTS = [".".join(s) for n in range(1, 6) for s in itertools.product([*NAMED, "other"], repeat=n)]
TOKENS = st.sampled_from([*NAMED, "*"])
PATTERNS = st.builds(
    lambda front, last: ".".join([*front, last]), st.lists(TOKENS, max_size=3), TOKENS | st.sampled_from([">"])
)

# each subject of ten tokens `a` is compared with all of these
ENTANGLED = sorted((".".join(p), 1) for p in itertools.product("a*", repeat=10) if "*" in p)[::-1]


@st.composite
def maps(draw: st.DrawFn) -> ChannelMap:
    """Maps of random rules, of which those that could never match are left out."""
    rules: list[Rule] = []
    for pattern in draw(st.lists(PATTERNS, min_size=1, max_size=8, unique=True)):
        if reaches([rule.pattern for rule in rules], pattern):
            rules.append(Rule(pattern, draw(st.integers(0, 15))))
    return ChannelMap(draw(st.integers(1, 1 << 60)), 16, tuple(rules))


def reaches(before: list[str], pattern: str) -> bool:
    return any(compile_pattern(pattern)(s) and not any(compile_pattern(p)(s) for p in before) for s in SUBJECTS)


def by_scanning(found: ChannelMap, subject: str) -> int:
    return next((rule.channel for rule in found.rules if compile_pattern(rule.pattern)(subject)), 0)


def test_the_first_rule_that_matches_decides_and_channel_0_takes_the_rest() -> None:
    subjects = ["quotes.nyse.ibm", "quotes.nyse.sap", "quotes.eurex.sap", "quotes", "news.de.sport", "news.de"]

    assert [MIXED.channel_of(subject) for subject in subjects] == [3, 1, 2, 0, 4, 0]


def test_a_subscription_listens_to_every_channel_that_can_carry_a_subject_of_it() -> None:
    assert MIXED.channels_for("quotes.nyse.ibm") == (3,)
    assert MIXED.channels_for("quotes.nyse.*") == (1, 3)
    assert MIXED.channels_for("quotes.*") == (2,)
    assert MIXED.channels_for("quotes.>") == (1, 2, 3)
    assert MIXED.channels_for("*.nyse.>") == (0, 1, 2, 3, 4)
    assert MIXED.channels_for("news.*") == (0,)
    assert MIXED.channels_for(">") == (0, 1, 2, 3, 4)


@given(maps(), st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=30))
def test_every_subject_goes_where_a_scan_of_the_rules_sends_it(found: ChannelMap, subjects: list[str]) -> None:
    for subject in subjects * 2:  # the second time from memory
        assert found.channel_of(subject) == by_scanning(found, subject)


@given(maps(), PATTERNS)
@example(made(("*", 1), ("*.*", 2), ("*.*.>", 3)), ">")
@example(made(("a.*", 1), ("a.*.>", 2), ("b.a", 3)), "a.>")
def test_the_channels_of_a_pattern_are_those_of_all_its_subjects(found: ChannelMap, pattern: str) -> None:
    """Rules have up to 4 tokens, so subjects with 5 stand for all longer ones."""
    matches = compile_pattern(pattern)

    assert found.channels_for(pattern) == tuple(sorted({by_scanning(found, s) for s in SUBJECTS if matches(s)}))


@given(st.lists(PATTERNS, min_size=1, max_size=8, unique=True))
def test_exactly_the_maps_with_an_unreachable_rule_are_refused(patterns: list[str]) -> None:
    reachable = all(reaches(patterns[:index], pattern) for index, pattern in enumerate(patterns))
    rules = [(pattern, 1) for pattern in patterns]
    if reachable:
        assert len(made(*rules).rules) == len(patterns)
    else:
        with pytest.raises(ChannelMapError, match="unreachable"):
            made(*rules)


@given(PATTERNS, PATTERNS)
def test_an_intersection_matches_what_both_patterns_match(one: str, other: str) -> None:
    met = intersection(tuple(one.split(".")), tuple(other.split(".")))
    both = {s for s in SUBJECTS if compile_pattern(one)(s) and compile_pattern(other)(s)}

    assert both == ({s for s in SUBJECTS if compile_pattern(".".join(met))(s)} if met else set())


@given(maps())
def test_a_map_survives_a_file_the_wire_and_a_pickle(found: ChannelMap) -> None:
    assert ChannelMap.from_toml(found.to_toml()) == found
    assert ChannelMap.from_bytes(found.to_bytes()) == found
    assert ChannelMap.from_bytes(memoryview(found.to_bytes())) == found
    assert pickle.loads(pickle.dumps(found)) == found
    assert len({found, ChannelMap.from_toml(found.to_toml())}) == 1


def test_a_file_may_hold_any_token_that_a_subject_may_hold() -> None:
    odd = made(('quote".back\\slash.北.#=[[', 1))

    assert ChannelMap.from_toml(odd.to_toml()) == odd


@given(st.binary(max_size=80))
def test_any_bytes_are_a_map_or_are_refused(data: bytes) -> None:
    refused_or_same(data)


@given(maps(), st.data())
def test_a_map_damaged_on_the_way_is_a_map_or_is_refused(found: ChannelMap, data: st.DataObject) -> None:
    raw = bytearray(found.to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    refused_or_same(bytes(raw))
    refused_or_same(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


def refused_or_same(data: bytes) -> None:
    try:
        found = ChannelMap.from_bytes(data)
    except ChannelMapError:
        return
    assert found.to_bytes() == data


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ([], "no rules"),
        ([("a.>", 1), ("a.b", 2)], r"rule 2 \(a.b\): unreachable, .* taken by rule 1 \(a.>\)"),
        ([("a.*", 1), ("a.*.>", 1), ("a.>", 2)], r"rule 3 \(a.>\): unreachable, .*rule 1 .* and rule 2"),
        ([("a", 1), ("b", 1), ("a", 2)], r"rule 3 \(a\): rule 1 has the same pattern"),
        ([("a", 16)], r"rule 1 \(a\): channel = 16: must be from 0 to 15"),
        ([("a", -1)], "channel = -1"),
        ([("a", True)], "channel = True"),
        ([("a b", 1)], "rule 1: pattern 'a b'"),
        ([(f"a.{i}.*", 1) for i in range(1025)], "1025 rules with wildcards, at most 1024"),
        ([(f"a.a.a.a.a.a.a.a.a.a.{i}", 1) for i in range(2000)] + ENTANGLED, "too many rules before it overlap"),
        ([(f"{i:06}{'x' * 200}{i:06}", 1) for i in range(6000)], f"at most {MAP_BYTES_MAX}"),
    ],
)
def test_a_map_that_cannot_mean_what_it_says_is_refused_in_one_line(rules: list[tuple[str, int]], says: str) -> None:
    with pytest.raises(ChannelMapError, match=says) as refused:
        made(*rules)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version = ", "not valid TOML"),
        ("channels = 2", "version is missing"),
        ("version = 1", "channels is missing"),
        ("version = 0\nchannels = 2", "version = 0"),
        ("version = 1\nchannels = 129", "from 1 to 128"),
        ("version = 1\nchannels = 2", "no rules"),
        ("version = 1\nchannels = 2\nrule = 3", r"\[\[rule\]\]"),
        ("version = 1\nchannels = 2\nrules = []", "unknown key 'rules'"),
        ("version = 1\nchannels = 2\n[[rule]]\npattern = 'a'", "rule 1: channel is missing"),
        ("version = 1\nchannels = 2\n[[rule]]\npattern = 3\nchannel = 1", "rule 1: pattern 3"),
        ("version = 1\nchannels = 2\n[[rule]]\npattern = 'a'\nchannel = 1.0", "channel = 1.0"),
    ],
)
def test_a_file_that_is_no_map_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(ChannelMapError, match=says) as refused:
        ChannelMap.from_toml(text)
    assert "\n" not in str(refused.value)


def test_a_pattern_with_a_wildcard_in_a_word_is_no_subscription() -> None:
    with pytest.raises(SubjectError):
        MIXED.channels_for("quotes.n*")


def test_a_difference_names_what_was_added_removed_moved_and_reordered() -> None:
    old = made(("a.b", 1), ("a.*", 2), ("c", 3))
    new = made(("c", 4), ("a.b", 1), ("d", 5), version=2)

    diff = old.diff(new)

    assert diff == ((Rule("d", 5),), (Rule("a.*", 2),), (("c", 3, 4),), True)
    assert diff
    assert not old.diff(made(*old.rules, version=9))


def test_a_map_of_ten_thousand_subjects_is_made_looked_up_and_carried_quickly() -> None:
    """A scan of the rules for each subject would take minutes."""
    rules = [(f"quotes.market{i % 37}.share{i}", i % 128) for i in range(10_000)]

    large = made(*rules, ("quotes.>", 5), channels=128)
    assert [large.channel_of(subject) for subject, _ in rules] == [channel for _, channel in rules]
    assert len(large.channels_for("quotes.market3.*")) > 100
    assert len(large.channels_for(">")) == 128
    assert ChannelMap.from_bytes(large.to_bytes()) == large
    assert len(large.to_bytes()) < 300_000
