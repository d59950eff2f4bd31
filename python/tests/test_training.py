"""qkv.train() trains what the command trains, to the same bits."""

import signal
import subprocess
import sys
import time

import pytest

import qkv

TEXT = "the red dog runs in the house. a man sleeps in the blue house.\n\n" * 60
SMALL = {"model.d_model": 16, "model.heads": 2, "model.d_ff": 32, "model.layers": 1}
OPTIONS = {"max_steps": 12, "batch_tokens": 128, "context": 32, "tokenizer": "chars", "seed": 3}


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    return path


def flags(options, settings):
    found = []
    for name, value in options.items():
        found += ["--" + name.replace("_", "-"), str(value)]
    for name, value in settings.items():
        found += ["--set", f"{name}={value}"]
    return found


def test_a_run_has_the_bits_of_the_command_and_reports_its_steps(corpus, tmp_path, command):
    steps, validations = [], []
    result = qkv.train(
        "lm", train=corpus, out=tmp_path / "m", settings=SMALL, on_step=steps.append, on_validation=validations.append, **OPTIONS
    )
    assert [one["step"] for one in steps] == list(range(1, 13))
    assert steps[-1]["loss"] < steps[0]["loss"] and steps[0]["learning_rate"] > 0
    assert result["steps"] == 12 and not result["interrupted"] and result["validation"]["loss"] == validations[-1]["loss"]
    command("train", "lm", "--train", corpus, "--out", tmp_path / "c", *flags(OPTIONS, SMALL), "--quiet")
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == (tmp_path / "c" / "model.safetensors").read_bytes()
    assert qkv.open(tmp_path / "m").generate("the ", max_new_tokens=5).text()


def test_a_run_that_a_function_ends_is_resumed_to_the_same_bits(corpus, tmp_path):
    whole = tmp_path / "whole"
    qkv.train("lm", train=corpus, out=whole, settings=SMALL, **OPTIONS)
    parts = tmp_path / "parts"
    result = qkv.train("lm", train=corpus, out=parts, settings=SMALL, on_step=lambda report: report["step"] < 5, **OPTIONS)
    assert result["interrupted"] and result["steps"] == 5
    with pytest.raises(qkv.UsageError):
        qkv.train("lm", train=corpus, out=parts, settings=SMALL, **OPTIONS)

    def fail(report):
        if report["step"] == 8:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        qkv.train("lm", out=parts, resume=True, on_step=fail)
    assert qkv.train("lm", out=parts, resume=True)["steps"] == 12
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_settings_that_do_not_fit_are_named(corpus, tmp_path):
    for options, message in [
        ({"max_stepz": 3}, "train: expected one of the settings .*train.max_steps.*, found 'max_stepz'"),
        ({"max_steps": "x"}, "train.max_steps: expected"),
        ({"max_steps": [3]}, "max_steps: expected a text, a number or True or False"),
        ({"preset": "huge"}, "preset"),
    ]:
        with pytest.raises(qkv.UsageError, match=message):
            qkv.train("lm", train=corpus, out=tmp_path / "m", **options)
    with pytest.raises(qkv.UsageError, match="task: expected one of translation, lm, .*, found 'lmm'"):
        qkv.train("lmm", train=corpus, out=tmp_path / "m")
    with pytest.raises(OSError, match="none.txt"):
        qkv.train("lm", train=tmp_path / "none.txt", out=tmp_path / "m", max_steps=1)
    assert "train.max_steps" in qkv.training_settings("lm")


def test_ctrl_c_saves_a_run(corpus, tmp_path):
    program = f"""
import qkv
begun = []
def on_step(report):
    if not begun:
        print("ready", flush=True)
    begun.append(report["step"])
try:
    qkv.train("lm", train={str(corpus)!r}, out={str(tmp_path / "m")!r}, settings={SMALL!r}, on_step=on_step, **{dict(OPTIONS, max_steps=1000000)!r})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - began < 10
    assert (tmp_path / "m" / "checkpoints").is_dir() and (tmp_path / "m" / "model.safetensors").is_file()
