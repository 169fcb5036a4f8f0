"""A coverage-guided fuzzer for the filter language: every text compiles or raises FilterError, and nothing else.

    pip install atheris
    python tests/fuzz/fuzz_where.py -max_total_time=60 [CORPUS_DIRECTORY]

Atheris is not among the project's requirements: it has wheels for few systems. Further options are libFuzzer's.
One half of the inputs are read as text, the other half as pieces of the language, which reach deeper.
"""

import sys
from typing import Any

WORDS = "and or not in startswith true false null == != < <= > >= ( ) [ ] , a b.c größe 0 1 -2.5 .5 3e4 1e999"
STRANGE = r"""'x' "y" '\n' '\u00e9' '\ud800' '\q' ' " \ = && . 1_0"""
PIECES = f"{WORDS} {STRANGE}".split()
TEXT_CHARACTERS_MAX = 5_000  # more than are allowed, so that the limit is tried too


def text_from(data: Any) -> str:
    """A text from the fuzzer's bytes: as it comes, or each byte a piece."""
    if data.ConsumeBool():
        return str(data.ConsumeUnicode(TEXT_CHARACTERS_MAX))
    separator = " " if data.ConsumeBool() else ""
    count = data.ConsumeIntInRange(0, 2_500)
    pieces = (data.ConsumeIntInRange(0, len(PIECES) - 1) for _ in range(count) if data.remaining_bytes())
    return separator.join(PIECES[piece] for piece in pieces)


def attributes_from(data: Any) -> dict[str, object]:
    kinds = (
        lambda: data.ConsumeInt(16),
        data.ConsumeFloat,
        lambda: data.ConsumeUnicode(4),
        data.ConsumeBool,
        lambda: None,
        lambda: data.ConsumeBytes(2),
        list,
    )
    return {name: data.PickValueInList(list(kinds))() for name in ("a", "b.c", "größe") if data.ConsumeBool()}


def main() -> None:
    try:
        import atheris
    except ImportError:
        sys.exit("fuzz_where: atheris is not installed here: pip install atheris")
    with atheris.instrument_imports(include=["gossamer.pubsub"]):
        from gossamer.pubsub.where import FilterError, compile_where

    def one_input(raw: bytes) -> None:
        data = atheris.FuzzedDataProvider(raw)
        attributes, text = attributes_from(data), text_from(data)
        try:
            fine = compile_where(text)(attributes) in (True, False)
        except FilterError as error:
            fine = 1 <= error.column <= len(text) + 1 and str(error).isprintable()
        assert fine, (text, attributes)

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
