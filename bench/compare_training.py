"""Training steps of `qkv train` and of PyTorch, alternating: equal work, compared in time and memory.

    python bench/compare_training.py translation -- --src train.en --tgt train.de --preset small --set sort_window=8192
    python bench/compare_training.py pretrain-bert -- --train books.txt --batch-tokens 2048
    python bench/compare_training.py lm --dropout 0 -- --train play.txt --tokenizer chars --preset characters
    python bench/compare_training.py classify -- --train train.txt --from all-MiniLM-L6-v2
    python bench/compare_training.py lm --precision bf16 --peers eager eager-bf16 -- --train play.txt --tokenizer chars
    python bench/compare_training.py image --dropout 0 -- --train train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz

Needs torch, transformers, safetensors and tensorboard from PyPI. What follows `--` are options of `qkv train TASK`. Both sides start
from the same weights (a folder that qkv writes) and use the same examples in the same batches (written by qkv): qkv concatenates them,
PyTorch pads them. For translation, `--set sort_window=8192` sorts 8,192 pairs by length together, for PyTorch's sake; qkv gains nothing.
Adam, clipping and the moving average of the weights are equal. The peers (bench/torch_tasks.py) are transformers' models, and for
translation bench/torch_transformer.py, with scaled_dot_product_attention and PyTorch's fused Adam, with and without torch.compile
and torch.autocast.
Crops and flips of images are off, as both sides must see the same pixels.

First, losses without dropout, in f32, must agree. Then runs with dropout alternate, in separate processes, after warm-up steps. Peak
memory is the process's resident set; the share of PyTorch's libraries before the first step is printed too.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from measured import row, run_measured, spread, table

HERE = Path(__file__).resolve().parent


def count(*lists):
    return lambda row: sum(len(ids) for name in lists for ids in row[name])


# The unit in which a task's speed is reported, and their number in a line of --save-batches.
UNITS = {"translation": ("target tokens", count("target")), "pretrain-bert": ("tokens", count("inputs")),
         "lm": ("tokens", count("sequences")), "classify": ("tokens", count("texts")), "tag": ("tokens", count("texts")),
         "embed": ("tokens", count("first", "second")), "image": ("images", lambda row: len(row["images"]))}
SMOOTHED = ("translation", "classify", "tag", "image")  # the tasks with label smoothing


class Comparison:
    """A folder with the common initial state, and the runs from it."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = Path(arguments.folder)
        self.start, self.batches = self.folder / "start", self.folder / "batches.jsonl"
        self.unit, self.units_of = UNITS[arguments.task]

    def qkv(self, folder, steps, rate, warmup, dropout, *more):
        a = self.arguments
        options = ["--dropout", dropout]
        if a.task == "translation":
            options += ["--set", f"embedding_dropout={dropout}", "--set", f"attention_dropout={self.attention_dropout(dropout)}"]
        elif a.task != "embed":  # whose --dropout is that of attention too
            options += ["--set", f"model.attention_dropout={self.attention_dropout(dropout)}"]
        if a.task in SMOOTHED:
            options += ["--label-smoothing", a.label_smoothing]
        if a.task == "image":
            options += ["--crop-padding", 0, "--flip", 0]
        return run_measured([
            a.qkv, "train", a.task, *a.options, *options, "--out", folder, "--overwrite", "--max-steps", steps, "--schedule",
            "constant", "--learning-rate", rate, "--warmup-steps", warmup, "--average-decay", 0.999, "--set", "adam.beta2=0.98",
            "--set", "adam.epsilon=1e-9", "--set", "adam.weight_decay=0", "--checkpoint-minutes", 0, "--threads", a.threads,
            "--quiet", *more])

    def attention_dropout(self, dropout):
        """Of a run with this rate of dropout after the sublayers: none in a run without any."""
        return self.arguments.attention_dropout if dropout > 0 else 0

    def prepare(self):
        """Writes the vocabulary, the initial weights and the batches. A learning rate of 1e-38 leaves all weights unchanged."""
        a = self.arguments
        self.qkv(self.start, max(a.check, a.warmup + a.steps), 1e-38, 0, 0, "--save-batches", self.batches)

    def qkv_run(self, steps, dropout, rate, warmup, precision="f32"):
        """Times and losses of the steps, and peak memory. The first step's time is unknown."""
        folder, own = self.folder / "qkv", self.folder / "own_batches.jsonl"
        _, memory = self.qkv(folder, steps, rate, warmup, dropout, "--set", "train.log_every=1", "--save-batches", own,
                             *([] if precision == "f32" else ["--precision", precision]))
        if own.read_text().splitlines()[:steps] != self.batches.read_text().splitlines()[:steps]:
            sys.exit(f"{self.batches}: differs from the batches that qkv trained on; was the folder written with other options?")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        events = EventAccumulator(str(folder / "runs"), size_guidance={"scalars": 0})
        events.Reload()
        losses = events.Scalars("train/loss")
        times = [event.wall_time for event in losses]
        return {"losses": [event.value for event in losses], "peak_mb": memory,
                "seconds": [None] + [after - before for before, after in zip(times, times[1:])]}

    def torch_run(self, steps, dropout, rate, warmup, compiled=False, autocast=False):
        a = self.arguments
        out, memory = run_measured([
            sys.executable, HERE / "torch_training.py", a.task, "--model", self.start, "--batches", self.batches, "--steps", steps,
            "--threads", a.threads, "--dropout", dropout, "--attention-dropout",
            dropout if a.task == "embed" else self.attention_dropout(dropout), "--label-smoothing", a.label_smoothing,
            "--learning-rate", rate, "--warmup-steps", warmup, *(["--images", self.images()] if a.task == "image" else []),
            *(["--compile"] if compiled else []), *(["--autocast"] if autocast else [])])
        *lines, last = [json.loads(line) for line in out.splitlines()]
        return {"losses": [line["loss"] for line in lines], "seconds": [line["seconds"] for line in lines],
                "peak_mb": memory, "idle_mb": last["idle_mb"]}

    def images(self):
        options = self.arguments.options
        return options[options.index("--train") + 1]

    def check(self):
        """Compares losses, at a rate at which the loss changes, so that it depends on gradients and optimizer. (At ten times
        this rate, rounding differences grow to 1e-3 in twelve layers within 20 steps: Adam normalises gradients that are
        pure rounding noise, such as those of the keys' biases.)"""
        a = self.arguments
        rate, warmup = 1e-5, 10
        ours = self.qkv_run(a.check, 0, rate, warmup)["losses"]
        theirs = self.torch_run(a.check, 0, rate, warmup)["losses"]
        table(f"Losses without dropout, the same {a.check} batches from the same weights", ["step", "qkv", "PyTorch", "difference"],
              ((step, f"{one:.6f}", f"{other:.6f}", f"{one - other:+.1e}")
               for step, (one, other) in enumerate(zip(ours, theirs, strict=True), start=1)))
        worst = max(abs(one - other) for one, other in zip(ours, theirs))
        moved = ours[0] - ours[-1]
        print(f"\nLargest difference {worst:.1e}, while the loss fell by {moved:.3f}.", flush=True)
        if worst > 1e-4:
            sys.exit("the losses differ by more than 1e-4, so the work is not the same")

    def time(self):
        a = self.arguments
        rows = [json.loads(line) for line in self.batches.read_text().splitlines()][a.warmup:a.warmup + a.steps]
        units = sum(map(self.units_of, rows))
        names = {"qkv": "qkv" if a.precision == "f32" else f"qkv, {a.precision}", "eager": "PyTorch, eager",
                 "compile": "PyTorch, torch.compile", "eager-bf16": "PyTorch, eager, autocast to bf16",
                 "compile-bf16": "PyTorch, torch.compile, autocast to bf16"}
        results = {name: [] for name in names if name == "qkv" or name in a.peers}
        for round_ in range(a.rounds):
            for name, runs in results.items():
                steps = a.warmup + a.steps
                runs.append(self.qkv_run(steps, a.dropout, 1e-3, 1000, a.precision) if name == "qkv" else
                            self.torch_run(steps, a.dropout, 1e-3, 1000, compiled=name.startswith("compile"),
                                           autocast=name.endswith("bf16")))
                runs[-1]["total"] = sum(runs[-1]["seconds"][a.warmup:])
                print(f"round {round_ + 1} {name}: {units / runs[-1]['total']:.0f} {self.unit}/s", file=sys.stderr)

        def median(name, key):
            return statistics.median(run[key] for run in results[name])

        table(f"`{a.task}`, {a.threads} threads, dropout {a.dropout}, medians of {a.rounds} rounds of {a.steps} steps after {a.warmup}, "
              f"{units / a.steps:.0f} {self.unit} per step",
              ["program", f"{self.unit}/s", "ms/step", "peak MB", "its time / qkv's", "qkv's memory / its"])
        for name in results:
            seconds, memory = median(name, "total"), median(name, "peak_mb")
            ratios = [other["total"] / own["total"] for own, other in zip(results["qkv"], results[name])]
            speed = "" if name == "qkv" else spread(ratios)
            share = "" if name == "qkv" else f"{median('qkv', 'peak_mb') / memory:.2f}"
            row(names[name], f"{units / seconds:.0f}", f"{1000 * seconds / a.steps:.0f}", f"{memory:.0f}", speed, share)
        for name in results:
            if name != "qkv":
                print(f"\n{names[name]}: the process held {median(name, 'idle_mb'):.0f} MB before its first step.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage="%(prog)s TASK [options] -- OPTIONS OF QKV TRAIN")
    parser.add_argument("task", choices=UNITS)
    parser.add_argument("--qkv", default="build/release/bin/qkv", help="the program (default: %(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="of the timed runs (default: %(default)s)")
    parser.add_argument("--attention-dropout", type=float, default=0, help="of the attention weights in these runs, not for "
                                                                           "translation (default: %(default)s)")
    parser.add_argument("--label-smoothing", type=float, default=0, help="(default: %(default)s)")
    parser.add_argument("--check", type=int, default=20, help="steps whose losses are compared; 0: none (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="timed steps per round; 0: none (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=5, help="warm-up steps before them (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32", help="of qkv's timed runs (default: %(default)s)")
    parser.add_argument("--peers", nargs="+", choices=("eager", "compile", "eager-bf16", "compile-bf16"), default=["eager"],
                        help="(default: eager)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--folder", help="folder for the prepared weights and batches, which later runs reuse "
                                         "(default: a temporary folder)")
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    arguments = parser.parse_args(own)
    arguments.options = sys.argv[len(own) + 2:]
    if arguments.task == "translation" and arguments.attention_dropout:
        parser.error("--attention-dropout: expected 0 for translation, whose peer has none")
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
