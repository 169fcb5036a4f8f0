"""The options of a reader of the log, parsed from Spark's options and checked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from gossamer.pipeline import positions
from gossamer.pipeline.positions import Positions
from gossamer.pipeline.session import PipelineError
from gossamer.pubsub.subjects import SubjectError, check_pattern
from gossamer.settings.group import read_key
from gossamer.wire.keys import KeyRing

NAMES = (
    *("store", "subscribe", "startingOffsets", "endingOffsets", "maxOffsetsPerTrigger", "failOnDataLoss"),
    *("minPartitions", "consumer", "gapTimeout", "key", "path"),
)
KEY_VARIABLE = "GOSSAMER_KEY"


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read, parsed and checked."""

    store: str
    """Folder of the log store, as given to `gossamer logger --store`."""
    subscribe: str = ">"
    """Pattern of the subjects to read."""
    starting: str | Positions = "earliest"
    """Where to begin: earliest, latest, or the next number by sender."""
    ending: str | Positions = "latest"
    """Where a batch ends."""
    offsets_per_trigger_max: int | None = None
    """Packets that one batch of a stream may take."""
    fail_on_data_loss: bool = True
    """Whether to fail if packets were collected, or damaged, before they were read."""
    partitions_min: int = 1
    """Minimum number of tasks to split a read into, if there are that many packets."""
    consumer: str | None = None
    """Name under which a stream tells the log what it no longer needs, so that the log keeps the rest."""
    gap_timeout_s: float = 30.0
    """How long the packets around a gap must have been in the log before a stream passes it."""
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """The group's keys, if its packets are sealed."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Parse the options of `spark.read`, in upper or lower case; `PipelineError` names what is wrong."""
        given = {name.lower(): value for name, value in options.items()}
        for name in given:
            if name not in map(str.lower, NAMES):
                near = get_close_matches(name, list(map(str.lower, NAMES)), 1)
                meant = (
                    next(known for known in NAMES if known.lower() == near[0]) if near else f"one of {', '.join(NAMES)}"
                )
                raise PipelineError(f"unknown option {name}: did you mean {meant}?")
        store = given.get("store") or given.get("path")
        if not store:
            raise PipelineError('the option store is missing; set it with .option("store", DIR), the folder of the log')
        return cls(
            store=store,
            subscribe=_pattern(given.get("subscribe", ">")),
            starting=_where("startingOffsets", given.get("startingoffsets", "earliest")),
            ending=_where("endingOffsets", given.get("endingoffsets", "latest")),
            offsets_per_trigger_max=_whole("maxOffsetsPerTrigger", given.get("maxoffsetspertrigger")),
            fail_on_data_loss=_flag("failOnDataLoss", given.get("failondataloss", "true")),
            partitions_min=_whole("minPartitions", given.get("minpartitions")) or 1,
            consumer=given.get("consumer") or None,
            gap_timeout_s=_seconds("gapTimeout", given.get("gaptimeout", "30")),
            keys=parse_keys(given.get("key") or os.environ.get(KEY_VARIABLE, "")),
        )

    def as_options(self) -> dict[str, str]:
        """The options for `spark.read`; the inverse of `parse`."""
        most = self.offsets_per_trigger_max
        return {
            "store": os.path.abspath(self.store),
            "subscribe": self.subscribe,
            "startingOffsets": _written(self.starting),
            "endingOffsets": _written(self.ending),
            "failOnDataLoss": str(self.fail_on_data_loss).lower(),
            "minPartitions": str(self.partitions_min),
            "gapTimeout": str(self.gap_timeout_s),
            **({"maxOffsetsPerTrigger": str(most)} if most is not None else {}),
            **({"consumer": self.consumer} if self.consumer is not None else {}),
            **({"key": ",".join(key.hex() for key in self.keys)} if self.keys else {}),
        }

    def ring(self) -> KeyRing:
        """The keys, ready for opening datagrams."""
        return KeyRing(self.keys)


def parse_keys(text: str) -> tuple[bytes, ...]:
    """Parse keys separated by commas or line ends; packets sealed before a rotation need the old key.

    Each is written as in `Settings`: the key itself, or `@` and the file that holds it.
    """
    parts = [part.strip() for part in text.replace(",", "\n").splitlines() if part.strip()]
    try:
        return tuple(read_key("key", part) for part in parts)
    except ValueError as error:
        raise PipelineError(str(error)) from None


def _where(option: str, text: str) -> str | Positions:
    return text.lower() if text.lower() in ("earliest", "latest") else positions.parse(option, text)


def _written(where: str | Positions) -> str:
    return where if isinstance(where, str) else json.dumps(positions.to_offset(where))


def _pattern(text: str) -> str:
    try:
        return check_pattern(text)
    except SubjectError as error:
        raise PipelineError(f"subscribe: {error}") from None


def _whole(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise PipelineError(f"{option} = {text!r}: must be a whole number of at least 1")
    return int(text)


def _flag(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise PipelineError(f"{option} = {text!r}: must be true or false")
    return text.lower() == "true"


def _seconds(option: str, text: str) -> float:
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise PipelineError(f"{option} = {text!r}: must be a number of seconds, 0 or more")
    return seconds
