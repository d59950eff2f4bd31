"""The stubs, as a type checker sees them; the documentation of options."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import qkv
from qkv import nn

FITS = """
import qkv
from qkv import nn, search

language = qkv.open("model", batch_tokens=512, dtype="q8_0")
assert isinstance(language, qkv.LanguageModel)
class Nothing(search.Constraint): ...
stream: qkv.Stream = language.generate("a", beam=2, temperature=0.5, length_penalty_type="gnmt", constraints=[Nothing()])
assert isinstance(model := qkv.open("model"), qkv.TranslationModel)
one: str = model.translate("a", beam=4, truncate=True)
several: list[str] = model.translate(["a"], sample=True)
assert isinstance(encoder := qkv.open("model"), qkv.TextEncoder)
encoder.encode(["a"], pooling="cls", dimensions=8)
assert isinstance(speech := qkv.open("model"), qkv.SpeechModel)
talk: qkv.Transcription = speech.transcribe("a.mp3", language="de", words=True, temperatures=[0, 0.5], beam=2)
pair: qkv.Transcription = speech.transcribe((0, 16000))
talks: list[qkv.Transcription] = speech.transcribe([b"", ("samples", 16000)])
word: qkv.TranscribedWord = [segment for segment in speech.stream(b"", key=2)][0].words[0]
srt: str = talk.to_srt()
layer: int = nn.LayerOptions(d_model=32, dropout=0.5, norm="pre").heads
"""
DOES_NOT = {  # and what the error names
    'import qkv\nqkv.open("m", batch_token=1)': "batch_token",
    'import qkv\nqkv.open("m", batch_tokens="1")': "batch_tokens",
    'import qkv\ndef f(m: qkv.LanguageModel) -> None: m.generate("a", length_penalty_type="gnm")': "length_penalty_type",
    'import qkv\ndef f(m: qkv.TranslationModel) -> None: m.translate("a", beam=0.5)': "beam|overload",
    'import qkv\ndef f(m: qkv.SpeechModel) -> None: m.transcribe("a", temperature=0.5)': "temperature|overload",
    'import qkv\ndef f(m: qkv.SpeechModel) -> None: m.transcribe("a").lines': "lines",
    'import qkv\ndef f(m: qkv.TextEncoder) -> None: m.encode("a", pooling="clz")': "pooling",
    'from qkv import nn\nnn.LayerOptions(d_modell=3)': "d_modell",
    'from qkv import nn\nnn.LayerOptions(heads="3")': "heads",
}


def test_a_type_checker_knows_the_options(tmp_path):
    pytest.importorskip("mypy", reason="scripts/packages-pypi-python.txt")
    for index, code in enumerate([FITS, *DOES_NOT]):
        (tmp_path / f"case{index}.py").write_text(code)
    package = Path(qkv.__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), "."],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": "" if package.name == "site-packages" else str(package)},
        capture_output=True, text=True,
    )
    assert not run.stderr, run.stderr
    errors = [line for line in run.stdout.splitlines() if ": error: " in line]
    assert not [line for line in errors if not line.startswith("case")], run.stdout
    assert not [line for line in errors if line.startswith("case0.py")], run.stdout
    for index, words in enumerate(DOES_NOT.values(), 1):
        mine = [line for line in errors if line.startswith(f"case{index}.py")]
        assert mine and any(word in line for word in words.split("|") for line in mine), (words, run.stdout)


def test_help_names_all_options_of_a_search():
    for method in (qkv.LanguageModel.generate, qkv.TranslationModel.translate):
        for option in ("beam: int. Hypotheses kept at each step", "temperature: float.", 'length_penalty_type: Literal["transformers", "gnmt"].'):
            assert option in method.__doc__
    assert "batch_tokens: int." in qkv.open.__doc__ and "OPTIONS" not in qkv.open.__doc__
    assert "heads=1" in nn.LayerOptions.__doc__
