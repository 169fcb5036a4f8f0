"""Standard streams that are closed or cannot be read, and interrupts at any moment: a line at most, no traceback."""

from __future__ import annotations

import os
import random
import subprocess
import sys
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
