"""Every Python example of docs/spark.md does what the page says, in the order of the page."""

import random
import re
from pathlib import Path

from pyspark.sql import SparkSession

import gossamer
from gossamer.store import open_store
from tests.pipeline.log_makers import entry, packet_of

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
EVENTS = [
    ("quotes.nyse.ibm", b"101.5", {"price": 101.5}),
    ("quotes.nyse.ge", b"7.0", {"price": 7.0}),
    ("quotes.nasdaq.x", b"1", {}),
]


def test_the_examples_of_the_page_run(spark: SparkSession, tmp_path: Path, capsys):
    with open_store(tmp_path / "quotes") as log:
        log.append([entry(7, n, packet_of(EVENTS, n)) for n in range(200)])
    address = f"239.192.77.11:{random.randint(20_000, 60_000)}"
    places = {"/var/log": str(tmp_path), "/tmp": str(tmp_path), "/data": str(tmp_path)}
    places['"quotes-out")'] = f'"quotes-out").option("address", "{address}")'
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(examples) >= 7
    seen: dict[str, object] = {}

    with gossamer.join_sync("quotes-out", gossamer.Settings(address=address)) as group:
        subscription = group.subscribe(">")
        for example in examples:
            code = re.sub("|".join(map(re.escape, places)), lambda match: places[match[0]], example)
            exec(compile(code, str(PAGE), "exec"), seen)
        heard = [subscription.get(60) for _ in range(402)]

    assert seen["done"].batches == 1
    assert seen["table"].count() == 600
    assert heard[0].attributes["price"] in (101.5, 7.0)
    assert {event.subject for event in heard} == {"quotes.nyse.ibm", "quotes.nyse.ge"}
    shown = capsys.readouterr().out
    assert "IBM" in shown
