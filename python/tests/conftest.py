"""What the tests share: the repository's model folders, and the command to compare with."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import qkv

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "models" / "golden"
MARIAN = ROOT / "tests" / "pipelines" / "golden" / "marian"


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
