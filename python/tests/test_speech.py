"""Models that transcribe audio: results are those of transformers and of the command."""

import asyncio
import io
import json
import pickle
import re
import subprocess
import sys
import threading
import wave
from pathlib import Path

import numpy as np
import pytest
from conftest import MODELS, ROOT, expect_interrupted, expect_other_threads_run
from test_models import without_line

import qkv

WHISPER = ROOT / "tests" / "apps" / "golden" / "hub" / "whisper-tiny"
TALK = ROOT / "tests" / "apps" / "golden" / "audio" / "talk.flac"
RATE = 22050  # another than the model's


@pytest.fixture(scope="module")
def model():
    return qkv.open(WHISPER)


@pytest.fixture(scope="module")
def samples():
    """int16, of sounds that come and go."""
    t = np.arange(5 * RATE) / RATE
    voice = sum(np.sin(2 * np.pi * k * (150 + 20 * np.sin(3 * t)) * t) / k for k in (1, 2, 5))
    return np.int16(9000 * voice * np.clip(np.sin(9 * t), 0, 1))


def wav(samples):
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, 2, RATE, 0, "NONE", ""))
        out.writeframes(samples.tobytes())
    return file.getvalue()


def as_dict(transcription):
    """As `qkv transcribe --json` prints it."""
    segments = []
    for segment in transcription.segments:
        one = {**segment._asdict(), "words": [word._asdict() for word in segment.words]}
        del one["ids"]
        if not one["words"]:
            del one["words"]
        segments.append(one)
    return {**transcription._asdict(), "segments": segments}


def options_of(flags):
    """Keywords of the flags of a command."""
    options = {"temperatures": [0]}
    flags = iter(flags)
    for flag in flags:
        if flag in ("--words", "--translate"):
            options[flag[2:]] = True
        elif flag == "--temperatures":
            assert next(flags) == "0"
        else:
            value = next(flags)
            options[flag[2:]] = int(value) if flag == "--beam" else value
    return options


def test_transcriptions_are_those_of_transformers(model):
    cases = json.loads((WHISPER / "text_results.json").read_text())
    assert len(cases) >= 4
    for case in cases:
        found = model.transcribe(TALK, **options_of(case["command"][1:]))
        assert [one.text for one in found.segments] == [one["text"] for one in case["segments"]]
        for segment, expected in zip(found.segments, case["segments"]):
            assert (segment.begin, segment.end) == pytest.approx((expected["begin"], expected["end"]), abs=1e-6)
            words = expected.get("words", [])
            assert [word.text for word in segment.words] == [word["text"] for word in words]
            for word, one in zip(segment.words, words):
                assert (word.begin, word.end) == pytest.approx((one["begin"], one["end"]), abs=1e-6)
        assert found.text == "".join(one["text"] for one in case["segments"]).strip()


def test_transcriptions_are_those_of_the_command(model, command, samples, tmp_path):
    path = tmp_path / "sounds.wav"
    path.write_bytes(wav(samples))
    for flags, options in [
        ([], {}),
        (["--words", "--language", "French", "--beam", "2"], {"words": True, "language": "French", "beam": 2}),
        (["--temperatures", "0.7,1", "--seed", "5", "--samples", "2"], {"temperatures": (0.7, 1), "seed": 5, "samples": 2}),
        (["--prompt", "the man", "--previous-text", "--max-new-tokens", "9"], {"prompt": "the man", "previous_text": True, "max_new_tokens": 9}),
        (["--no-timestamps", "--forbid", "th"], {"no_timestamps": True, "forbid": ["th"]}),
    ]:
        expected = command("transcribe", WHISPER, TALK, path, "--json", *flags, as_json=True)
        expected = [{key: value for key, value in one.items() if key != "file"} for one in without_line(expected)]
        found = model.transcribe([TALK, str(path)], **options)
        assert [as_dict(one) for one in found] == expected
        assert found[0] == model.transcribe(TALK, **options)
        for one in found:
            assert one.segments and all(segment.ids for segment in one.segments)
    assert model.transcribe(TALK).language in model.languages and 0 < model.transcribe(TALK).language_probability < 1
    assert model.transcribe(TALK, language="de").language_probability == 1


def test_paths_bytes_and_arrays_are_the_same_sound(model, samples, tmp_path):
    path = tmp_path / "sounds.wav"
    path.write_bytes(wav(samples))
    expected = model.transcribe(path, temperatures=[0])
    assert expected.segments and expected.seconds == 5
    stereo = np.stack([samples, np.roll(samples, 999)], axis=1)
    floats = samples.astype(np.float32) / 32768
    for audio in [
        str(path),
        path.read_bytes(),
        bytearray(path.read_bytes()),
        memoryview(path.read_bytes()),
        (samples, RATE),
        (floats, np.int64(RATE)),
        (floats.astype(np.float64), RATE),
        (floats[:, None], RATE),
        (np.repeat(floats, 3)[::3], RATE),
        (np.tile(floats, (2, 1)).T, RATE),
        (qkv.Tensor(floats), RATE),
    ]:
        assert model.transcribe(audio, temperatures=[0]) == expected
    read_only = floats.copy()
    read_only.flags.writeable = False
    assert model.transcribe([path, (read_only, RATE)], temperatures=[0]) == [expected, expected]
    mixed = model.transcribe(wav(stereo), temperatures=[0])
    assert mixed == model.transcribe((stereo, RATE), temperatures=[0]) != expected
    assert model.transcribe((stereo.astype(np.float64) / 32768, RATE), temperatures=[0]) == mixed
    assert model.transcribe([]) == []
    assert model.transcribe((np.zeros(9, np.float32), 16000)).segments == []


def test_subtitles_are_those_of_the_command(model, command):
    found = model.transcribe(TALK, temperatures=[0])
    for name, file in (("srt", found.to_srt()), ("vtt", found.to_vtt())):
        assert file.splitlines() == command("transcribe", WHISPER, TALK, "--temperatures", "0", "--format", name)
    assert found.to_vtt().startswith("WEBVTT\n\n00:00:00.280 --> 00:00:01.280\nth\n\n")
    assert pickle.loads(pickle.dumps(found)) == found
    assert repr(found) == f"<qkv.Transcription {found.text!r}: {found.language}, 5.3 seconds, 8 segments>"
    assert "'" + "th " * 19 + "...'" in repr(found._replace(text="th " * 21))


def test_a_stream_has_the_segments_of_the_transcription(model):
    for options in ({}, {"words": True, "language": "en", "beam": 3}):
        expected = model.transcribe(TALK, **options)
        stream = model.stream(TALK, **options)
        assert stream.seconds == 5.3 and stream.seconds_done == 0 and stream.result is None
        first = next(stream)
        assert 0 < stream.seconds_done < 5.3 and stream.result is None  # a window holds two seconds
        assert [first, *stream] == expected.segments
        assert stream.seconds_done == 5.3 and stream.result == expected
        stream.close()
        assert list(stream) == []

    async def read():
        return [segment async for segment in model.stream(TALK.read_bytes())]

    async def read_all():
        return await asyncio.gather(read(), read())

    expected = model.transcribe(TALK).segments
    assert asyncio.run(read_all()) == [expected, expected]
    closed = model.stream(TALK)
    next(closed)
    closed.close()
    assert list(closed) == [] and closed.result is None
    assert model.stream(TALK, temperatures=[1], key=1).seconds == 5.3
    with pytest.raises(qkv.UsageError, match="audio: expected one for a stream, found a list of 2"):
        model.stream([TALK, TALK])


def test_threads_share_an_engine(model):
    expected = model.transcribe([TALK] * 3, temperatures=[0, 0.5])
    found = []
    unread = model.stream(TALK)
    next(unread)

    def work():
        found.append(model.transcribe([TALK] * 3, temperatures=[0, 0.5]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    unread.close()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_many_audios_are_decoded_a_few_at_a_time(model, samples):
    one = model.transcribe((samples, RATE), temperatures=[0])
    assert model.transcribe([(samples, RATE)] * 19, temperatures=[0]) == [one] * 19


def test_constraints_decide_on_the_next_tokens(model):
    class Stops(qkv.search.Constraint):
        def apply(self, context, next):
            raise ArithmeticError("no more")

    with pytest.raises(ArithmeticError, match="no more"):
        model.transcribe(TALK, constraints=[Stops()])
    stream = model.stream(TALK, constraints=[Stops()])
    with pytest.raises(ArithmeticError, match="no more"):
        next(stream)
    assert model.transcribe(TALK).segments


FLOATS = np.zeros(4000, np.float32)


@pytest.mark.parametrize(
    ("audio", "kind", "message"),
    [
        ("none.mp3", qkv.IoError, "none.mp3"),
        (b"", qkv.DataError, "bytes: expected a WAV, FLAC, MP3, Ogg or AIFF file, found"),
        (b"a text", qkv.DataError, "bytes: expected a WAV, FLAC, MP3, Ogg or AIFF file, found"),
        ((FLOATS.reshape(2, 40, 50), 16000), qkv.ShapeError, r"samples: expected \[samples\], or \[samples, channels\] .*, found \[2, 40, 50\]"),
        ((FLOATS.reshape(2, 2000), 16000), qkv.ShapeError, r"1 to 32 channels, found \[2, 2000\]"),
        ((np.zeros((9, 0), np.float32), 16000), qkv.ShapeError, r"found \[9, 0\]"),
        ((np.float32(1), 16000), qkv.ShapeError, "samples: expected"),
        ((FLOATS.astype(np.int64), 16000), qkv.ShapeError, "samples: expected an array of float32, float64 or int16, found int64"),
        ((FLOATS.astype(np.float16), 16000), qkv.ShapeError, "found float16"),
        ((FLOATS.astype(">f4"), 16000), qkv.ShapeError, "found >f4"),
        (([0.0, 0.1], 16000), qkv.ShapeError, "samples: expected an array of .*, found list"),
        ((16000, FLOATS), qkv.ShapeError, "samples: expected an array of .*, found int"),
        ((np.float32([0, np.nan]), 16000), qkv.DataError, "samples: expected samples from -1 to 1, found nan as number 1"),
        ((np.array([0, 0, -1e300]), 16000), qkv.DataError, "found -inf as number 2"),
        ((FLOATS[:0], 16000), qkv.DataError, "samples: expected sound, found no samples"),
        ((FLOATS, 10), qkv.DataError, "samples: expected a rate from 1000 to 384000 samples per second, found 10"),
        ((FLOATS, "fast"), qkv.UsageError, "rate: expected a whole number, found 'fast'"),
        ((FLOATS, 16000, 1), qkv.UsageError, r"expected \(samples, rate\), found 3 values"),
    ],
)
def test_audio_that_cannot_be_read_is_an_error_that_names_it(model, audio, kind, message):
    for run in (model.transcribe, model.stream):
        with pytest.raises(kind, match=message):
            run(audio)
    with pytest.raises(kind, match="^audio 1: .*" + message):
        model.transcribe([TALK, audio])


def test_what_is_no_audio_is_an_error(model):
    for audio, found in [(FLOATS, "an array without its rate"), (None, "None"), (3, "3")]:
        with pytest.raises(qkv.UsageError, match=rf"audio: expected a path, .* or a list of these, found {found}"):
            model.transcribe(audio)
    with pytest.raises(qkv.UsageError, match=r"audio 1: expected a path, .*, found None"):
        model.transcribe([TALK, None])
    with pytest.raises(qkv.UsageError, match=r"expected a path, .*, found 'a\\x00b'"):
        model.transcribe("a\0b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "klingon"}, "language: expected one of en, de, fr, yue, found 'klingon'"),
        ({"language": 3}, "language: expected a string, found 3"),
        ({"beams": 3}, "expected one of the options .*language.*beam.*, found 'beams'"),
        ({"temperature": 0.5}, "expected one of the options .*temperatures.*, found 'temperature'"),
        ({"beam": 0}, "beam: expected"),
        ({"nbest": 2, "beam": 2}, "expected one output of a search, found"),
        ({"temperatures": []}, "temperatures: expected at least one, found none"),
        ({"temperatures": [-1]}, "temperatures: expected 0 to below 100, found -1"),
        ({"temperatures": 0.5}, "temperatures: expected a sequence of numbers, found 0.5"),
        ({"no_speech": 2}, "no_speech: expected 0 to 1, found 2"),
        ({"words": True, "no_timestamps": True}, "words: expected timestamps, found none"),
        ({"words": 1}, "words: expected True or False, found 1"),
    ],
)
def test_options_that_do_not_fit_are_errors_that_name_them(model, options, message):
    for run in (model.transcribe, model.stream):
        with pytest.raises(qkv.UsageError, match=message):
            run(TALK, **options)


def test_a_speech_model_is_described(model):
    about = model.inspect()
    assert (about["kind"], about["family"], about["dtype"]) == ("speech", "whisper", "f32")
    assert "<qkv.SpeechModel" in repr(model) and "whisper" in repr(model)
    assert model.languages == ["en", "de", "fr", "yue"]
    assert qkv.open(WHISPER.parent / "whisper-tiny.en").languages == ["en"]
    assert (model.model.config["mel_bins"], model.model.config["source_positions"]) == (80, 100)
    found = model.transcribe(TALK)
    assert [model.decode(segment.ids) for segment in found.segments] == [segment.text for segment in found.segments]
    assert model.decode(model.tokenize("th th")["ids"]) == "th th" and len(model.tokenizer) > 300
    with pytest.raises(AttributeError, match="translate: expected an encoder-decoder, found a speech model"):
        model.translate("a")
    with pytest.raises(AttributeError, match="transcribe: expected a speech model, found a language model"):
        qkv.open(MODELS / "llama").transcribe(TALK)
    with pytest.raises(qkv.DataError, match="speech|audio"):
        qkv.open(WHISPER, kind="encoder")
    for option in ("language: str.", "temperatures", "beam: int.", "no_speech: float."):
        assert option in qkv.SpeechModel.transcribe.__doc__
    assert "nbest" not in qkv.SpeechModel.transcribe.__doc__


def test_the_documents_example_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "whisper-small").symlink_to(WHISPER)
    (tmp_path / "talk.flac").symlink_to(TALK)
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"^## Speech\n+```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.M | re.S)
    names = {"qkv": qkv, "np": np, "Path": Path}
    exec(code, names)
    talk, stream = names["talk"], qkv.open("whisper-small").transcribe("talk.flac", language="en")
    assert (tmp_path / "talk.srt").read_text(encoding="utf-8").startswith("1\n00:00:0")
    assert capsys.readouterr().out.splitlines()[-len(stream.segments) :] == [segment.text for segment in stream.segments]
    assert talk.segments[0].words and names["one"].seconds == talk.seconds and names["two"].seconds == 1


def test_other_threads_run_while_one_transcribes(model, samples):
    many = [(np.tile(samples, 4), RATE)] * 8
    expect_other_threads_run(lambda: model.transcribe(many))


def test_ctrl_c_ends_a_transcription():
    program = f"""
import qkv
model = qkv.open({str(WHISPER)!r})
print("ready", flush=True)
try:
    while True:
        model.transcribe([{str(TALK)!r}] * 5000)
except KeyboardInterrupt:
    print("interrupted", len(model.transcribe({str(TALK)!r}).segments) > 0, flush=True)
"""
    expect_interrupted(program, "interrupted True")


def test_the_interpreter_ends_without_a_warning_while_streams_are_open():
    program = f"""
import qkv
model = qkv.open({str(WHISPER)!r})
class Kept(qkv.search.Constraint):
    def apply(self, context, next): pass
streams = [model.stream({str(TALK)!r}, temperatures=[0], constraints=[Kept()]) for _ in range(2)]
print(next(streams[0]).text)
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == " th\n" and done.stderr == ""
