"""Two builds of qkv on the same work, alternating: what a change costs or gains.

    python3 bench/compare_builds.py BEFORE/qkv AFTER/qkv --data ../shared/data/multi30k --translation MODEL --encoder MODEL

Needs only Python. Each round runs every job with both builds, in an order that alternates between rounds, so that drifts of the
machine's speed affect both. Prints Markdown: medians, and the median of the rounds' ratios.

MODEL folders are opened unchanged; int8 copies are made with the first build's `quantize`.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import spread, table


def run(command, stdin=None):
    began = time.perf_counter()
    done = subprocess.run([str(word) for word in command], stdin=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return time.perf_counter() - began, done.stdout


def lines_of(path, count, folder):
    text = path.read_text().splitlines()
    result = folder / f"{path.name}.{count}"
    result.write_text("\n".join((text * (count // len(text) + 1))[:count]) + "\n")
    return result


class Job:
    """One figure: name, unit, and how to measure it with a build."""

    def __init__(self, name, measure):
        self.name, self.measure = name, measure
        self.figures = ([], [])


def training(args, preset, steps, tokens, folder):
    def measure(build):
        with tempfile.TemporaryDirectory(dir=folder) as out:
            command = [build, "train", "translation", "--src", args.data / "val.en", "--tgt", args.data / "val.de",
                       "--out", Path(out) / "model", "--preset", preset, "--vocab-size", 2000, "--batch-tokens", tokens,
                       "--threads", args.threads, "--checkpoint-minutes", 0, "--quiet", "--json"]
            if preset == "small":
                command += ["--set", f"{'model.' if args.after == build else ''}d_ff=512"]
            # Both measurements include the vocabulary, the token store and the first step's page faults.
            few = json.loads(run(command + ["--max-steps", 1])[1])["seconds"]
            many = json.loads(run(command + ["--max-steps", steps + 1, "--overwrite"])[1])["seconds"]
            return (many - few) / steps
    return measure


def whole_program(arguments, text):
    def measure(build):
        with open(text) as stdin:
            return run([build] + arguments, stdin)[0]
    return measure


def kernels(args):
    """The geometric mean of the times of all kernels that both builds measure."""
    def measure(build):
        found = json.loads(run([build, "bench", "--threads", args.threads, "--json"])[1])["kernels"]
        return {(one["kernel"], one["shape"]): one["seconds"] for one in found}
    return measure


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder with val.en, val.de, test_2016_flickr.en")
    parser.add_argument("--translation", type=Path, required=True, help="a trained translation model")
    parser.add_argument("--encoder", type=Path, required=True, help="a BERT-like model with a tokenizer")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", nargs="*", help="only jobs whose name contains one of these")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = lines_of(args.data / "test_2016_flickr.en", 1000, folder)
        run([args.before, "quantize", args.translation, "--out", folder / "int8", args_form(args.before), "int8"])
        translate = lambda model, beam: whole_program(["translate", model, "--beam", str(beam), "--threads", str(args.threads)], text)
        jobs = [Job("training step, base, 1,024 tokens, s", training(args, "base", 8, 1024, folder)),
                Job("training step, small, 2,048 tokens, s", training(args, "small", 60, 2048, folder)),
                Job("translate 1,000 lines, f32, beam 4, s", translate(args.translation, 4)),
                Job("translate 1,000 lines, int8, beam 4, s", translate(folder / "int8", 4)),
                Job("translate 1,000 lines, f32, beam 1, s", translate(args.translation, 1)),
                Job("embed 1,000 lines, f32, s", whole_program(["embed", args.encoder, "--threads", str(args.threads)], text)),
                Job("kernels of qkv bench, geometric mean, s", kernels(args))]
        if args.jobs:
            jobs = [job for job in jobs if any(word in job.name for word in args.jobs)]
        for turn in range(args.rounds + 1):  # the first warms up the caches and is not counted
            for job in jobs:
                order = [0, 1] if turn % 2 == 0 else [1, 0]
                seen = [0.0, 0.0]
                for side in order:
                    seen[side] = job.measure([args.before, args.after][side])
                if isinstance(seen[0], dict):
                    both = seen[0].keys() & seen[1].keys()
                    seen = [statistics.geometric_mean(side[kernel] for kernel in both) for side in seen]
                if turn > 0:
                    for side in (0, 1):
                        job.figures[side].append(seen[side])
            print(f"round {turn} of {args.rounds}", file=sys.stderr)

        table("Two builds", ["work", "before", "after", "after / before"],
              ((job.name, *(f"{statistics.median(side):.4g}" for side in job.figures),
                spread([after / before for before, after in zip(*job.figures)], 3)) for job in jobs))


def args_form(build):
    """The name of the option for the weights' dtype."""
    return "--dtype" if re.search(r"--dtype\b", run([build, "quantize", "--help"])[1]) else "--weights"


if __name__ == "__main__":
    main()
