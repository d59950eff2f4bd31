"""`qkv transcribe` beside transformers and CTranslate2, for a Whisper folder (bench/random_whisper.py).

    python bench/compare_transcription.py --qkv build/release/bin/qkv FOLDER

Files of 30 seconds, one and eight together, each to 100 tokens without timestamps, by greedy search. The program's time includes its
start, the opening of the model and of the files; the peers' begins with the samples. The ids of transformers are compared first.
Prints a JSON line a round: seconds, and the ratios to qkv in the same dtype.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import ctranslate2
import numpy as np
import soundfile
import torch
import transformers

from measured import folder_arguments

NEW, RATE, SECONDS = 100, 16000, 30


def voice(seed):
    random = np.random.default_rng(seed)
    t = np.arange(RATE * SECONDS) / RATE
    pitch = np.cumsum(120 + 50 * np.sin(2 * np.pi * (0.3 + 0.1 * seed) * t)) / RATE
    samples = 0.2 * sum(np.sin(2 * np.pi * k * pitch) / k for k in (1, 2, 3, 5)) * np.clip(np.sin(4 * np.pi * t), 0, 1)
    return samples + 0.01 * random.standard_normal(t.size)


def main():
    arguments = folder_arguments(__doc__)
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(arguments.folder, dtype=torch.float32, attn_implementation="sdpa").eval()
    extract = transformers.WhisperFeatureExtractor.from_pretrained(arguments.folder)
    known = model.generation_config
    start = [known.decoder_start_token_id, known.lang_to_id["<|en|>"], known.task_to_id["transcribe"], known.no_timestamps_token_id]
    with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
        files, audios = [], []
        for i in range(8):
            files.append(str(Path(scratch) / f"{i}.wav"))
            soundfile.write(files[-1], voice(i).astype(np.float32), RATE, subtype="PCM_16")
            audios.append(soundfile.read(files[-1], dtype="float32")[0])
        folders = {"f32": arguments.folder, "int8": str(Path(scratch) / "int8")}
        subprocess.run([arguments.qkv, "quantize", arguments.folder, "--dtype", "int8", "--out", folders["int8"]], check=True,
                       capture_output=True)
        converted = str(Path(scratch) / "ct2")
        ctranslate2.converters.TransformersConverter(arguments.folder).convert(converted)
        peers = {name: ctranslate2.models.Whisper(converted, compute_type=kind, inter_threads=1, intra_threads=threads)
                 for name, kind in (("f32", "float32"), ("int8", "int8_float32"))}

        def own(dtype, count):
            began = time.perf_counter()
            lines = subprocess.run(
                [arguments.qkv, "transcribe", folders[dtype], *files[:count], "--threads", str(threads), "--json", "--language", "en",
                 "--no-timestamps", "--temperatures", "0", "--max-new-tokens", str(NEW), "--min-new-tokens", str(NEW)],
                capture_output=True, text=True, check=True).stdout.splitlines()
            return time.perf_counter() - began, [json.loads(line)["text"] for line in lines]

        def features(count):
            return extract(audios[:count], sampling_rate=RATE, return_tensors="pt").input_features

        def with_transformers(count):
            began = time.perf_counter()
            ids = model.generate(features(count), language="en", task="transcribe", max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
            return time.perf_counter() - began, ids.tolist()

        def with_ctranslate2(dtype, count):
            began = time.perf_counter()
            given = ctranslate2.StorageView.from_array(np.ascontiguousarray(features(count).numpy()))
            found = peers[dtype].generate(given, [start] * count, beam_size=1, max_length=NEW + len(start),
                                          suppress_tokens=[known.eos_token_id])
            return time.perf_counter() - began, [one.sequences_ids[0] for one in found]

        tokens = transformers.PreTrainedTokenizerFast(tokenizer_file=str(Path(arguments.folder) / "tokenizer.json"))
        first = [id for id in with_transformers(1)[1][0] if id < known.eos_token_id]
        found, expected = own("f32", 1)[1][0], tokens.decode(first).strip()
        if found != expected:
            raise SystemExit(f"other text: {found}, transformers {expected}")
        for _ in range(arguments.rounds):
            row = {}
            for count in (1, 8):
                own_times = {dtype: own(dtype, count)[0] for dtype in folders}
                times = {"transformers f32": with_transformers(count)[0],
                         **{f"CTranslate2 {dtype}": with_ctranslate2(dtype, count)[0] for dtype in peers}}
                row[f"{count} files"] = {**{f"qkv {dtype}": round(seconds, 2) for dtype, seconds in own_times.items()},
                                         **{name: round(seconds, 2) for name, seconds in times.items()},
                                         **{f"times {name}": round(seconds / own_times[name.split()[-1]], 2)
                                            for name, seconds in times.items()}}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
