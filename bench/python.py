"""The Python package: its import, a call, vectors of sentences beside the command and sentence-transformers, and its installation.

    python bench/python.py --model all-MiniLM-L6-v2 --text FILE --qkv build/release/bin/qkv [--wheel FILE.whl] [--install]

Needs qkv, numpy and sentence-transformers in this Python (PYTHONPATH=build/release/python has the package of the build). FILE has
one sentence per line, of which the first --lines are taken. All sides have --threads threads and f32.

  import      `import qkv` in a new process, without the start of Python
  empty call  encode([]) of an open model
  command     processes from start to end: Python, which opens the model and encodes; `qkv embed`, which prints the vectors.
  peer        encode() of open models, in one process each; the vectors agree within 1e-5
  wheel       its size, with --wheel
  install     `pip install .` of a clone of this repository in a new environment, without a compiler cache, with --install
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from measured import row, run_worker, spread, table

ROOT = Path(__file__).resolve().parents[1]
IMPORT = "import time; began = time.perf_counter(); import qkv; print(time.perf_counter() - began)"
ENCODE = """import sys, qkv
qkv.set_threads(int(sys.argv[2]))
qkv.open(sys.argv[1]).encode(sys.stdin.read().splitlines())"""


def timed(command, text, threads):
    began = time.perf_counter()
    run = subprocess.run([*map(str, command)], input=text, capture_output=True, text=True, encoding="utf-8", check=True,
                         env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    return time.perf_counter() - began, run.stdout


def worker(job):
    """Opens a model and encodes the lines: seconds of each repetition, and the vectors."""
    lines = Path(job["text"]).read_text(encoding="utf-8").splitlines()[: job["lines"]]
    if job["side"] == "qkv":
        import qkv

        qkv.set_threads(job["threads"])
        model = qkv.open(job["model"])
        encode = lambda: model.encode(lines, normalize_embeddings=True)  # noqa: E731
    else:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(job["threads"])
        model = SentenceTransformer(job["model"], device="cpu")
        encode = lambda: model.encode(lines, normalize_embeddings=True)  # noqa: E731
    vectors = encode()  # the first run allocates
    seconds = []
    for _ in range(job["repeat"]):
        began = time.perf_counter()
        encode()
        seconds.append(time.perf_counter() - began)
    np.save(job["out"], vectors)
    empty = []
    if job["side"] == "qkv":
        for _ in range(200):
            began = time.perf_counter()
            for _ in range(20):
                model.encode([])
            empty.append((time.perf_counter() - began) / 20)
    return {"seconds": statistics.median(seconds), "empty": statistics.median(empty) if empty else None}


def install_seconds():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", ROOT, f"{folder}/clone"], check=True)
        subprocess.run(["/usr/bin/python3", "-m", "venv", f"{folder}/venv"], check=True)
        began = time.perf_counter()
        subprocess.run([f"{folder}/venv/bin/pip", "install", "--quiet", "."], cwd=f"{folder}/clone", check=True,
                       env={**os.environ, "CCACHE_DISABLE": "1"})
        return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--qkv", default="qkv")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--install", action="store_true")
    arguments = parser.parse_args()
    text = "".join(line + "\n" for line in arguments.text.read_text(encoding="utf-8").splitlines()[: arguments.lines])

    imports, ratios, commands, peers, rates, empty = [], [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        job = {"model": str(arguments.model), "text": str(arguments.text), "lines": arguments.lines,
               "threads": arguments.threads, "repeat": 3}
        for _ in range(arguments.rounds):
            imports.append(1000 * float(timed([sys.executable, "-c", IMPORT], "", arguments.threads)[1]))
            mine, _ = timed([sys.executable, "-c", ENCODE, arguments.model, arguments.threads], text, arguments.threads)
            command, printed = timed([arguments.qkv, "embed", arguments.model, "--threads", arguments.threads], text, arguments.threads)
            commands.append(mine)
            ratios.append(mine / command)
            found = run_worker(__file__, {**job, "side": "qkv", "out": f"{folder}/qkv.npy"})
            other = run_worker(__file__, {**job, "side": "sentence-transformers", "out": f"{folder}/other.npy"})
            peers.append(other["seconds"] / found["seconds"])
            rates.append(arguments.lines / found["seconds"])
            empty.append(1e6 * found["empty"])
        qkv_vectors, other_vectors = np.load(f"{folder}/qkv.npy"), np.load(f"{folder}/other.npy")
    shown = np.array([line.split() for line in printed.splitlines()], np.float32)
    shown /= np.linalg.norm(shown, axis=1, keepdims=True)  # if the folder does not
    difference = max(np.abs(qkv_vectors - other_vectors).max(), np.abs(qkv_vectors - shown).max())
    if not difference < 1e-5:
        sys.exit(f"expected vectors that agree within 1e-5, found {difference:.2g}")

    table(f"The Python package, {arguments.lines:,} lines, {arguments.threads} threads, {arguments.rounds} rounds",
          ["quantity", "value", "goal"])
    row("`import qkv`, ms", spread(imports, 1), "below 80")
    row("`encode([])`, us", spread(empty, 1), "below 20")
    row("process that opens and encodes: seconds", spread(commands), "")
    row("the same, divided by `qkv embed`'s", spread(ratios), "at most 1.10")
    row("`encode()`: lines/s", spread(rates, 0), "")
    row("sentence-transformers' time divided by qkv's", spread(peers), "at least 1.5")
    row("largest difference of vectors", f"{difference:.1g}", "below 1e-5")
    if arguments.wheel:
        row("wheel, MB", f"{arguments.wheel.stat().st_size / 1e6:.1f}", "below 25")
    if arguments.install:
        row("`pip install .` of a clone, without a compiler cache: minutes", f"{install_seconds() / 60:.1f}", "below 10")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        import json

        print(json.dumps(worker(json.loads(Path(sys.argv[2]).read_text()))))
    else:
        main()
