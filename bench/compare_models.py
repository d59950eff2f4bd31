"""Training steps of models shaped like BERT-base and GPT-2 small, in qkv and in PyTorch, alternating.

    python bench/compare_models.py --qkv build/release/bench/bench_model_step --models bert:8:128 bert:2:512 gpt:1:1024

Needs torch and safetensors from PyPI. Both sides have the same weights and random tokens, in sequences of equal length, so that
there is no padding. First the losses of two steps without dropout are compared; then both are timed with dropout 0.1 after the
layers, in separate processes.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from measured import row, run_measured, table

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", default="build/release/bench/bench_model_step", help="(default: %(default)s)")
    parser.add_argument("--models", nargs="+", default=["bert:8:128", "bert:2:512", "gpt:1:1024"],
                        help="shape:sequences:length (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="timed steps, after one warm-up step (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--no-check", action="store_true", help="skip the comparison of losses")
    parser.add_argument("--peers", nargs="+", choices=("eager", "compile"), default=["eager"], help="(default: eager)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    arguments = parser.parse_args()

    table("Shapes of BERT and GPT", ["shape", "tokens", "program", "tokens/s", "ms/step", "peak MB", "its time / qkv's"])
    for model in arguments.models:
        shape, batch, length = model.split(":")
        with tempfile.TemporaryDirectory() as folder:
            def steps_of(name, steps, dropout):
                common = ["--shape", shape, "--batch", batch, "--length", length, "--steps", steps, "--threads",
                          arguments.threads, "--dropout", dropout, "--save", folder]
                if name == "qkv":
                    out, memory = run_measured([arguments.qkv, *common])
                else:
                    out, memory = run_measured([sys.executable, HERE / "torch_model_step.py", *common,
                                                *(["--compile"] if name == "compile" else [])])
                return [json.loads(line) for line in out.splitlines()], memory

            if not arguments.no_check:
                losses = [[line["loss"] for line in steps_of(name, 2, 0)[0]] for name in ("qkv", "eager")]
                worst = max(abs(one - other) for one, other in zip(*losses, strict=True))
                print(f"{model}: losses {losses[0]} and {losses[1]}", file=sys.stderr)
                if worst > 1e-4:
                    sys.exit(f"{model}: the losses differ by {worst:.1e}, so the work is not the same")
            results = {name: [] for name in ("qkv", *arguments.peers)}
            for _ in range(arguments.rounds):
                for name, runs in results.items():
                    lines, memory = steps_of(name, 1 + arguments.steps, 0.1)
                    runs.append((statistics.median(line["seconds"] for line in lines[1:]), memory))
            ours = statistics.median(run[0] for run in results["qkv"])
            names = {"qkv": "qkv", "eager": "PyTorch, eager", "compile": "PyTorch, torch.compile"}
            tokens = int(batch) * int(length)
            for name, runs in results.items():
                seconds, memory = (statistics.median(column) for column in zip(*runs))
                ratio = "" if name == "qkv" else f"{seconds / ours:.2f}"
                row(shape, f"{batch} x {length}", names[name], f"{tokens / seconds:.0f}", f"{1000 * seconds:.0f}", f"{memory:.0f}", ratio)


if __name__ == "__main__":
    main()
