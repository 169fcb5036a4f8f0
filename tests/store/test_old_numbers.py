"""A store from before there were channels: its senders have 63 bits, and none of them says a channel."""

from pathlib import Path

import lmdb
import pytest

from gossamer.core.ids import channel_of, stream_of
from gossamer.pipeline.log_rows import Part, Reading
from gossamer.store import StoreError, open_store
from gossamer.store.environment import DATABASES
from gossamer.store.survey import survey
from tests.pipeline.log_makers import simple

LONG, SHORT = (5 << 55) + 12345, 678


def made_before_channels(path: Path, *senders: int) -> None:
    """As an earlier version made it: the same but for one row."""
    with open_store(path, group="quotes") as store:
        for sender in senders:
            store.append(simple(sender, range(3)))
    with lmdb.open(str(path), max_dbs=len(DATABASES)) as env:
        rows = env.open_db(b"about", create=False)
        with env.begin(write=True) as transaction:
            assert transaction.delete(b"member bits", db=rows)


def channels_in(path: Path, sender: int) -> set[int]:
    """As Spark's source and `gossamer log export` show them."""
    with open_store(path, readonly=True) as store:
        reading = Reading(store, Part(sender, 0, 3, 3), bytes, pytest.fail)
        return {row["channel"] for batch in reading.batches() for row in batch.to_pylist()}


def test_all_of_it_is_read_as_channel_0(tmp_path: Path) -> None:
    made_before_channels(tmp_path, LONG)
    assert channel_of(LONG) == 5
    assert channels_in(tmp_path, LONG) == {0}
    assert survey(tmp_path)["channels"] is False


def test_a_logger_does_not_go_on_with_numbers_that_would_mean_a_channel(tmp_path: Path) -> None:
    made_before_channels(tmp_path, LONG, SHORT)
    with pytest.raises(
        StoreError, match="1 of its 2 senders have numbers that would now mean a channel; a logger needs"
    ):
        open_store(tmp_path, group="quotes")
    assert channels_in(tmp_path, LONG) == {0}  # and nothing was changed


def test_a_logger_goes_on_with_numbers_that_mean_the_same(tmp_path: Path) -> None:
    made_before_channels(tmp_path, SHORT)
    stream = stream_of(SHORT, 3)
    with open_store(tmp_path, group="quotes") as store:
        store.append(simple(stream, range(3)))
    assert (channels_in(tmp_path, SHORT), channels_in(tmp_path, stream)) == ({0}, {3})
    assert survey(tmp_path)["channels"] is True
