"""Tokenizing with qkv and with PyPI's `tokenizers`, one thread each, alternating.

    python bench/compare_tokenizers.py --qkv build/release/bin/qkv --text train.en --text book.txt DIR [DIR...]

Needs tokenizers and transformers. A DIR has a BERT vocab.txt, a GPT-2 vocab.json with merges.txt, or a tokenizer.json. Every
line of the texts is encoded. qkv's time is that of the process `qkv tokenize DIR --ids` from first byte to last id, minus its
time for one line (start-up, vocabulary); the reference's is encode_batch of all lines in a process with RAYON_NUM_THREADS=1, and
encode_batch_fast, which omits offsets. Ids must be equal. Prints medians of --rounds.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from measured import spread, row, table

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def load(path):
    if (path / "tokenizer.json").exists():
        from tokenizers import Tokenizer
        return Tokenizer.from_file(str(path / "tokenizer.json"))
    import transformers
    kind = "BertTokenizer" if (path / "vocab.txt").exists() else "GPT2Tokenizer"
    return getattr(transformers, kind).from_pretrained(path).backend_tokenizer


def timed(action):
    began = time.perf_counter()
    result = action()
    return time.perf_counter() - began, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--qkv", required=True)
    parser.add_argument("--text", action="append", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    lines = [line.rstrip("\r") for path in arguments.text
             for line in Path(path).read_bytes().decode().split("\n")]
    content = "".join(line + "\n" for line in lines).encode()
    megabytes = len(content) / 1e6
    table(f"{len(lines)} lines, {megabytes:.1f} MB",
          ["vocabulary", "qkv, MB/s", "tokenizers, MB/s", "without offsets", "ratio", "ratio without offsets"])
    for folder in arguments.folders:
        tokenizer = load(folder)
        command = [arguments.qkv, "tokenize", str(folder), "--ids"]
        own, peer, fast = [], [], []
        for _ in range(arguments.rounds):
            start, _ = timed(lambda: subprocess.run(command, input=b"x\n", capture_output=True, check=True))
            seconds, result = timed(lambda: subprocess.run(command, input=content, capture_output=True, check=True))
            own.append(seconds - start)
            seconds, encodings = timed(lambda: tokenizer.encode_batch(lines))
            peer.append(seconds)
            expected = [e.ids for e in encodings]
            del encodings
            seconds, encodings = timed(lambda: tokenizer.encode_batch_fast(lines))
            fast.append(seconds)
            del encodings
            if [list(map(int, line.split())) for line in result.stdout.decode().splitlines()] != expected:
                sys.exit(f"{folder}: the ids differ")
        row(folder.name, *(f"{megabytes / statistics.median(times):.1f}" for times in (own, peer, fast)),
            *(spread([theirs / ours for ours, theirs in zip(own, times)]) for times in (peer, fast)))


if __name__ == "__main__":
    main()
