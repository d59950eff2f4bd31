"""What the tests share: the repository's model folders, and the command to compare with."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import qkv

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "models" / "golden"
MARIAN = ROOT / "tests" / "pipelines" / "golden" / "marian"


def expect_other_threads_run(work):
    """While a thread runs work()."""
    done = threading.Event()
    worker = threading.Thread(target=lambda: (work(), done.set()))
    worker.start()
    turns = 0
    while not done.is_set():
        turns += 1
        time.sleep(0.001)
    worker.join()
    assert turns > 10


def expect_interrupted(program, answer):
    """Ctrl-C ends a program that prints "ready" before its work, and this line at its end."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert process.stdout.readline() == answer + "\n"
        assert time.monotonic() - began < 5
    assert process.returncode == 0


@pytest.fixture(scope="session")
def command():
    """Runs the command and returns the lines that it prints; with json=True, as objects."""
    program = os.environ.get("QKV_PROGRAM")
    if not program:
        pytest.skip("needs QKV_PROGRAM, the path of the command qkv")

    def run(*arguments, text=None, as_json=False):
        arguments = [str(one) for one in arguments]
        done = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        return [json.loads(line) for line in lines] if as_json else lines

    return run


@pytest.fixture(scope="session")
def encoder():
    return qkv.open(MODELS / "bert_texts")


@pytest.fixture(scope="session")
def language():
    return qkv.open(MODELS / "llama")


@pytest.fixture(scope="session")
def translator():
    return qkv.open(MARIAN)
