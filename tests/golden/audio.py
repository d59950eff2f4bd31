"""Writes small sound files, their samples as libsndfile decodes them, and Whisper's features of them.

    tests/data/golden/audio        sound files of each format, of one synthetic voice-like signal, and
      expected.safetensors         their mean channels (of file NAME: NAME), as soundfile reads them
      features.safetensors         1.1 seconds of it at 16 kHz (signal), and transformers' features of them by NumPy with 80 and
                                   128 bins (features.80, ...), a row per frame; likewise of the signal's first 2999 samples
                                   (short.80), in which the window beyond the ends is a large part
    tests/models/golden/audio      preprocessor_config.json and processor_config.json files as transformers writes them

Run from the repository root with torch, transformers, safetensors and soundfile installed:

    python tests/golden/audio.py

Tags of other files, damaged and truncated files are made by the tests from these.
"""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from safetensors.numpy import save_file
from transformers import WhisperFeatureExtractor, WhisperProcessor, WhisperTokenizer

AUDIO = Path("tests/data/golden/audio")
MODELS = Path("tests/models/golden/audio")


def voice(seconds, rate, seed=1):
    """A gliding fundamental with harmonics under a moving envelope, a chirp, and noise."""
    random = np.random.default_rng(seed)
    t = np.arange(round(seconds * rate)) / rate
    phase = 2 * np.pi * (110 * t + 35 * np.sin(3 * t))
    harmonics = sum(np.sin(k * phase + k * k) / k for k in range(1, 20) if k * 180 < rate / 2)
    chirp = np.sin(2 * np.pi * (300 * t + rate / 5 * t * t / seconds))
    envelope = 0.55 + 0.4 * np.sin(9 * t + 1)
    return 0.18 * envelope * harmonics + 0.06 * chirp + 0.01 * random.standard_normal(len(t))


FILES = {
    # name: (rate, channels, format, subtype)
    "u8.wav": (8000, 2, "WAV", "PCM_U8"),
    "s16.wav": (16000, 1, "WAV", "PCM_16"),
    "s16_big.wav": (8000, 1, "WAV", "PCM_16"),
    "s24.wav": (11025, 2, "WAV", "PCM_24"),
    "s32_three.wav": (8000, 3, "WAVEX", "PCM_32"),
    "f32.wav": (8000, 2, "WAV", "FLOAT"),
    "f64.wav": (8000, 1, "WAV", "DOUBLE"),
    "ulaw.wav": (8000, 1, "WAV", "ULAW"),
    "adpcm.wav": (8000, 1, "WAV", "IMA_ADPCM"),
    "long_form.wav": (8000, 1, "RF64", "PCM_16"),
    "s16.aiff": (8000, 2, "AIFF", "PCM_16"),
    "s16.flac": (16000, 2, "FLAC", "PCM_16"),
    "s24.flac": (8000, 1, "FLAC", "PCM_24"),
    "vorbis.ogg": (16000, 2, "OGG", "VORBIS"),
    "opus.ogg": (16000, 1, "OGG", "OPUS"),
    "stereo.mp3": (16000, 2, "MP3", "MPEG_LAYER_III"),
    "mono.mp3": (44100, 1, "MP3", "MPEG_LAYER_III"),
}


def write_files():
    shutil.rmtree(AUDIO, ignore_errors=True)
    AUDIO.mkdir(parents=True)
    expected = {}
    for name, (rate, channels, kind, coding) in FILES.items():
        first = voice(0.2, rate)
        sound = np.stack([first, 0.4 * first + 0.2 * voice(0.2, rate, seed=2), 0.3 * voice(0.2, rate, seed=3)], 1)[:, :channels]
        soundfile.write(AUDIO / name, sound, rate, format=kind, subtype=coding, endian="BIG" if "_big" in name else None)
        read, found = soundfile.read(AUDIO / name, dtype="float32", always_2d=True)
        assert found == rate and len(read) > 1000 and np.abs(read).mean() > 0.03
        expected[name] = read.astype(np.float64).mean(1).astype(np.float32)
    save_file(expected, AUDIO / "expected.safetensors")


def features(signal, bins):
    extractor = WhisperFeatureExtractor(feature_size=bins)
    return np.ascontiguousarray(extractor._np_extract_fbank_features(signal[None], "cpu")[0].T)


def write_features():
    # 17,680 samples: 110 frames and a half.
    signal = voice(1.105, 16000, seed=4).astype(np.float32)
    signal[9000:12000] *= 1e-4  # a pause, which the floor of the features cuts
    tensors = {"signal": signal}
    for bins in 80, 128:
        tensors[f"features.{bins}"] = features(signal, bins)
    tensors["short.80"] = features(signal[:2999], 80)
    assert all(t.dtype == np.float32 and np.isfinite(t).all() for t in tensors.values())
    save_file(tensors, AUDIO / "features.safetensors")


def write_configurations():
    shutil.rmtree(MODELS, ignore_errors=True)
    MODELS.mkdir(parents=True)
    vocabulary = {"<|endoftext|>": 0, "a": 1, "b": 2}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = WhisperTokenizer(vocab=vocabulary, merges=[])
        WhisperProcessor(WhisperFeatureExtractor(feature_size=128), tokenizer).save_pretrained(folder)
        shutil.copy(Path(folder) / "processor_config.json", MODELS / "processor.json")
        WhisperFeatureExtractor().save_pretrained(folder)
        shutil.copy(Path(folder) / "preprocessor_config.json", MODELS / "tiny.json")
    # The field that files of 2022 have, in which transformers finds nothing it does not compute.
    older = json.loads((MODELS / "tiny.json").read_text())
    older["mel_filters"] = WhisperFeatureExtractor().mel_filters.T[:3].tolist()
    older["processor_class"] = "WhisperProcessor"
    (MODELS / "older.json").write_text(json.dumps(older) + "\n")


write_files()
write_features()
write_configurations()
