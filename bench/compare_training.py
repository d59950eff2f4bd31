"""Training steps of `qkv train translation` and of PyTorch, alternating: equal work, compared in time and memory.

    python bench/compare_training.py --src train.en --tgt train.de --qkv build/release/bin/qkv --preset small --threads 2

Needs torch, safetensors and tensorboard from PyPI. Both sides start from the same weights (a qkv model folder) and use the same
sentences in the same batches (written by qkv), sorted by length: qkv concatenates them, PyTorch pads them. Label smoothing,
Adam, clipping and the moving average of the weights are equal. The peer (bench/torch_transformer.py) uses
scaled_dot_product_attention, a fused projection of queries, keys and values, and PyTorch's fused Adam, with and without
torch.compile.

First, losses without dropout must agree. Then runs with dropout alternate, in separate processes, after warm-up steps. Peak
memory is the process's resident set; the share of PyTorch's libraries before the first step is printed too.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from measured import run_measured

HERE = Path(__file__).resolve().parent


class Comparison:
    """A folder with the common initial state, and the runs from it."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = Path(arguments.folder)
        self.start, self.batches = self.folder / "start", self.folder / "batches.jsonl"

    def qkv(self, folder, preset, steps, *more):
        a = self.arguments
        return run_measured([
            a.qkv, "train", "translation", "--src", a.src, "--tgt", a.tgt, "--out", folder, "--overwrite", "--preset",
            preset, "--batch-tokens", a.batch_tokens, "--max-steps", steps, "--schedule", "constant", "--label-smoothing",
            a.label_smoothing, "--set", f"sort_window={a.sort_window}", "--checkpoint-minutes", 0, "--threads", a.threads,
            "--quiet", *more])

    def learning_rate(self, rate, warmup):
        return ["--learning-rate", rate, "--warmup-steps", warmup]

    def prepare(self):
        """Writes the vocabulary, the initial weights and the batches. The batches do not depend on the model, so a tiny one
        writes them. A learning rate of 1e-38 leaves all weights unchanged."""
        a = self.arguments
        self.qkv(self.start, a.preset, 1, "--vocab-size", a.vocab_size, *self.learning_rate(1e-38, 0))
        self.qkv(self.folder / "tiny", "tiny", max(a.check, a.warmup + a.steps), "--vocab", self.start / "source.spm",
                 "--save-batches", self.batches, "--set", "d_model=16", "--set", "d_ff=16")

    def qkv_run(self, steps, dropout, rate, warmup):
        """Times and losses of the steps, and peak memory. The first step's time is unknown."""
        folder, own = self.folder / "qkv", self.folder / "own_batches.jsonl"
        _, memory = self.qkv(folder, self.arguments.preset, steps, "--vocab", self.start / "source.spm",
                             "--set", "log_every=1", "--dropout", dropout, "--set", f"embedding_dropout={dropout}",
                             "--save-batches", own, *self.learning_rate(rate, warmup))
        if own.read_text().splitlines()[:steps] != self.batches.read_text().splitlines()[:steps]:
            sys.exit(f"{self.batches}: differs from the batches that qkv trained on; was the folder written by another version?")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        events = EventAccumulator(str(folder / "runs"), size_guidance={"scalars": 0})
        events.Reload()
        losses = events.Scalars("train/loss")
        times = [event.wall_time for event in losses]
        return {"losses": [event.value for event in losses], "peak_mb": memory,
                "seconds": [None] + [after - before for before, after in zip(times, times[1:])]}

    def torch_run(self, steps, dropout, rate, warmup, compiled=False):
        a = self.arguments
        out, memory = run_measured([
            sys.executable, HERE / "torch_training.py", "--model", self.start, "--batches", self.batches, "--steps", steps,
            "--threads", a.threads, "--dropout", dropout, "--label-smoothing", a.label_smoothing, "--learning-rate", rate,
            "--warmup-steps", warmup, *(["--compile"] if compiled else [])])
        *lines, last = [json.loads(line) for line in out.splitlines()]
        return {"losses": [line["loss"] for line in lines], "seconds": [line["seconds"] for line in lines],
                "peak_mb": memory, "idle_mb": last["idle_mb"]}

    def check(self):
        """Compares losses, at a rate at which the loss changes, so that it depends on gradients and optimizer. (At ten times
        this rate, rounding differences grow to 1e-3 in twelve layers within 20 steps: Adam normalises gradients that are
        pure rounding noise, such as those of the keys' biases.)"""
        a = self.arguments
        rate, warmup = 1e-5, 10
        ours = self.qkv_run(a.check, 0, rate, warmup)["losses"]
        theirs = self.torch_run(a.check, 0, rate, warmup)["losses"]
        print(f"\nLosses without dropout, the same {a.check} batches from the same weights:\n")
        print("| step | qkv | PyTorch | difference |\n| --- | --- | --- | --- |")
        for step, (one, other) in enumerate(zip(ours, theirs, strict=True), start=1):
            print(f"| {step} | {one:.6f} | {other:.6f} | {one - other:+.1e} |")
        worst = max(abs(one - other) for one, other in zip(ours, theirs))
        moved = ours[0] - ours[-1]
        print(f"\nLargest difference {worst:.1e}, while the loss fell by {moved:.3f}.", flush=True)
        if worst > 1e-4:
            sys.exit("the losses differ by more than 1e-4, so the work is not the same")

    def time(self):
        a = self.arguments
        rows = [json.loads(line) for line in self.batches.read_text().splitlines()][a.warmup:a.warmup + a.steps]
        sentences = sum(len(row["target"]) for row in rows)
        tokens = sum(len(ids) for row in rows for ids in row["target"])
        names = {"qkv": "qkv", "eager": "PyTorch, eager", "compile": "PyTorch, torch.compile"}
        results = {name: [] for name in names if name == "qkv" or name in a.peers}
        for round_ in range(a.rounds):
            for name, runs in results.items():
                steps = a.warmup + a.steps
                runs.append(self.qkv_run(steps, a.dropout, 1e-3, 1000) if name == "qkv" else
                            self.torch_run(steps, a.dropout, 1e-3, 1000, compiled=name == "compile"))
                runs[-1]["total"] = sum(runs[-1]["seconds"][a.warmup:])
                print(f"round {round_ + 1} {name}: {tokens / runs[-1]['total']:.0f} target tokens/s", file=sys.stderr)

        def median(name, key):
            return statistics.median(run[key] for run in results[name])

        print(f"\n{a.preset}, {a.batch_tokens} tokens per batch, {a.threads} threads, dropout {a.dropout}, medians of {a.rounds} "
              f"rounds of {a.steps} steps after {a.warmup}:\n")
        print("| | sentences/s | target tokens/s | ms/step | peak MB | qkv's speed | qkv's memory |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name in results:
            seconds, memory = median(name, "total"), median(name, "peak_mb")
            ratios = [other["total"] / own["total"] for own, other in zip(results["qkv"], results[name])]
            speed = "" if name == "qkv" else (f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to "
                                              f"{max(ratios):.2f})")
            share = "" if name == "qkv" else f"{median('qkv', 'peak_mb') / memory:.2f} of it"
            print(f"| {names[name]} | {sentences / seconds:.1f} | {tokens / seconds:.0f} | {1000 * seconds / a.steps:.0f} | "
                  f"{memory:.0f} | {speed} | {share} |")
        for name in results:
            if name != "qkv":
                print(f"\n{names[name]}: the process held {median(name, 'idle_mb'):.0f} MB before its first step.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", required=True, help="training text, one sentence per line")
    parser.add_argument("--tgt", required=True, help="its translation")
    parser.add_argument("--qkv", default="build/release/bin/qkv", help="the program (default: %(default)s)")
    parser.add_argument("--preset", default="small", help="(default: %(default)s)")
    parser.add_argument("--vocab-size", type=int, default=8000, help="(default: %(default)s)")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="source and target (default: %(default)s)")
    parser.add_argument("--sort-window", type=int, default=8192, help="pairs that are sorted by length together, for "
                                                                      "PyTorch's sake; qkv gains nothing (default: %(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="of the timed runs (default: %(default)s)")
    parser.add_argument("--label-smoothing", type=float, default=0.1, help="(default: %(default)s)")
    parser.add_argument("--check", type=int, default=20, help="steps whose losses are compared; 0: none (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="timed steps per round; 0: none (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=5, help="warm-up steps before them (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--peers", nargs="+", choices=("eager", "compile"), default=["eager"], help="(default: eager)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--folder", help="folder for the prepared weights and batches, which later runs reuse "
                                         "(default: a temporary folder)")
    arguments = parser.parse_args()
    if arguments.warmup < 1:
        parser.error(f"--warmup: expected at least 1, found {arguments.warmup}")
    with tempfile.TemporaryDirectory() as scratch:
        arguments.folder = arguments.folder or scratch
        comparison = Comparison(arguments)
        needed = max(arguments.check, arguments.warmup + arguments.steps)
        if not comparison.batches.exists() or len(comparison.batches.read_text().splitlines()) < needed:
            comparison.prepare()
        if arguments.check:
            comparison.check()
        if arguments.steps:
            comparison.time()


if __name__ == "__main__":
    main()
