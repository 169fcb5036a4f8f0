"""Standard streams that are closed or cannot be read, and interrupts at any moment: a line at most, no traceback."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from functools import partial

import pytest

COMMAND = [sys.executable, "-m", "gossamer"]


@pytest.fixture
def env():
    return os.environ | {"GOSSAMER_ADDRESS": f"239.192.77.13:{random.randint(20_000, 60_000)}"}


def test_a_subscriber_without_standard_output_takes_part_all_the_same(env):
    line = [*COMMAND, "sub", "quotes", "--count", "3"]
    closed = partial(os.close, 1)
    sub = subprocess.Popen(line, env=env, text=True, stderr=subprocess.PIPE, preexec_fn=closed)
    subprocess.run([*COMMAND, "pub", "quotes", "a", "--count", "3", "--wait", "1"], env=env, timeout=60)

    _, said = sub.communicate(timeout=60)

    assert (sub.returncode, said) == (0, "")


def test_a_subscriber_whose_output_nobody_reads_stays_a_member_and_can_be_ended(env):
    reading, writing = os.pipe()
    sub = subprocess.Popen([*COMMAND, "sub", "quotes"], env=env, text=True, stdout=writing, stderr=subprocess.PIPE)
    try:
        os.close(writing)
        line = [*COMMAND, "pub", "quotes", "a", "x" * 1000, "--count", "2000", "--wait", "1"]
        subprocess.run(line, env=env, timeout=60, check=True)
        time.sleep(8)  # others do not hear of a member for 5 s: then it is gone

        stats = subprocess.run([*COMMAND, "stats", "quotes", "--json"], env=env, capture_output=True, timeout=60)
        assert len(json.loads(stats.stdout)) == 1

        sub.terminate()
        _, said = sub.communicate(timeout=20)
        assert (sub.returncode, said) == (0, "")
    finally:
        sub.kill()
        sub.wait()
        os.close(reading)


def test_a_subscriber_whose_reader_has_seen_enough_ends_without_a_traceback(env):
    head = subprocess.Popen(["head", "-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    sub = subprocess.Popen([*COMMAND, "sub", "quotes"], env=env, text=True, stdout=head.stdin, stderr=subprocess.PIPE)
    try:
        head.stdin.close()
        line = [*COMMAND, "pub", "quotes", "a", "--count", "20", "--rate", "10", "--wait", "1"]
        subprocess.run(line, env=env, timeout=60, check=True)

        _, said = sub.communicate(timeout=20)
        assert (sub.returncode, said, head.stdout.read()) == (141, "", "a 0\n")
    finally:
        sub.kill()
        sub.wait()
        head.wait()


def test_a_publisher_without_standard_input_has_nothing_to_publish(env):
    line = [*COMMAND, "pub", "quotes", "a", "--stdin"]
    done = subprocess.run(line, env=env, text=True, capture_output=True, timeout=60, preexec_fn=partial(os.close, 0))

    assert (done.returncode, done.stderr) == (0, "")


def test_an_input_that_cannot_be_read_is_an_error(env):
    with open(os.devnull, "wb") as not_readable:
        line = [*COMMAND, "pub", "quotes", "a", "--stdin"]
        done = subprocess.run(line, env=env, text=True, stdin=not_readable, stderr=subprocess.PIPE, timeout=60)

    assert (done.returncode, done.stderr) == (2, "gossamer: standard input: Bad file descriptor\n")


def test_a_line_without_end_is_refused_before_all_of_it_is_read(env):
    line = [*COMMAND, "pub", "quotes", "a", "--stdin"]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, env=env, stdin=pipe, stderr=pipe) as pub:
        assert pub.stdin is not None
        with pytest.raises(BrokenPipeError):  # it ends while we write
            pub.stdin.write(bytes(100 << 20))
        assert pub.stderr is not None
        assert b"at most 16777216 are allowed" in pub.stderr.read()
    assert pub.returncode == 2


def test_lines_come_apart_wherever_they_are_cut(env, tmp_path):
    texts = [b"x" * size for size in (0, 1, 65_535, 65_536, 65_537, 200_000, 0, 3)]
    with (tmp_path / "heard").open("wb") as out:
        sub = subprocess.Popen([*COMMAND, "sub", "quotes", "--count", str(len(texts))], env=env, stdout=out)
    line = [*COMMAND, "pub", "quotes", "a", "--stdin", "--wait", "1"]
    subprocess.run(line, env=env, input=b"\n".join(texts), timeout=60, check=True)

    assert sub.wait(timeout=60) == 0
    assert (tmp_path / "heard").read_bytes().split(b"\n") == [(b"a " + text).strip() for text in texts] + [b""]


def test_an_interrupt_while_python_ends_is_no_traceback():
    program = """
import atexit, os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(5)))
sys.argv = ["gossamer", "--version"]
from gossamer.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, timeout=60)

    assert (done.returncode, done.stderr) == (130, "gossamer: interrupted\n")
