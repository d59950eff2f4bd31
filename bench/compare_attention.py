"""Attention alone: qkv's kernel and PyTorch's F.scaled_dot_product_attention, alternating, shape by shape.

    python bench/compare_attention.py --qkv build/release/bench/bench_attention_turns --lengths 128 512 2048 --threads 2

Needs torch from PyPI. float32, no dropout, about 4,096 tokens in equal sequences, or one sequence with fewer heads if it is
longer. Inputs have each side's preferred layout: PyTorch contiguous [batch, heads, length, d], qkv columns of a fused
projection. Medians of at least half a second and three calls, or two seconds. GFLOP/s counts the products that attention
requires: two forward, four more backward, half of each if causal. Recomputed scores do not count.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

from measured import row, table


def median_seconds(call):
    call()
    seconds = []
    while sum(seconds) < 0.5 or (len(seconds) < 3 and sum(seconds) < 2):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def torch_seconds(length, sequences, heads, d, causal, backward):
    import torch
    from torch.nn import functional as F
    torch.manual_seed(1)
    shape = (sequences, heads, length, d)
    q, k, v, upstream = (torch.rand(shape) * 2 - 1 for _ in range(4))
    if not backward:
        with torch.no_grad():
            return median_seconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
    for x in (q, k, v):
        x.requires_grad_()

    def both():
        q.grad = k.grad = v.grad = None
        F.scaled_dot_product_attention(q, k, v, is_causal=causal).backward(upstream)

    return median_seconds(both)


def shape_of(length, d):
    """Sequences and heads: 4,096 tokens of 512 features, and less where the square of the length would take too long."""
    heads = 512 // d
    return max(1, 4096 // length), max(1, heads * 4096 // max(length, 4096))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", default="build/release/bench/bench_attention_turns", help="(default: %(default)s)")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 2048, 4096, 16384])
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128], help="features of a head")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--what", nargs="+", choices=("forward", "both"), default=["forward", "both"])
    parser.add_argument("--causal", type=int, nargs="+", choices=(0, 1), default=[0, 1])
    arguments = parser.parse_args()
    import torch

    ours = subprocess.Popen([arguments.qkv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    table(f"Attention, PyTorch {torch.__version__}", ["threads", "d", "length", "mask", "direction", "qkv ms", "GFLOP/s", "of peak",
                                                      "PyTorch ms", "PyTorch's time / qkv's"])
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for d in arguments.widths:
            for what in arguments.what:
                for causal in arguments.causal:
                    for length in arguments.lengths:
                        sequences, heads = shape_of(length, d)
                        backward = what == "both"
                        print(length, sequences, heads, d, causal, int(backward), threads, file=ours.stdin, flush=True)
                        answer = ours.stdout.readline()
                        if not answer:
                            sys.exit(f"{arguments.qkv}: ended")
                        answer = json.loads(answer)
                        theirs = torch_seconds(length, sequences, heads, d, bool(causal), backward)
                        pairs = sequences * heads * length * ((length + 1) / 2 if causal else length)
                        gflops = 2e-9 * pairs * d * (6 if backward else 2) / answer["seconds"]
                        row(threads, d, length, "causal" if causal else "", "forward + backward" if backward else "forward",
                            f"{1e3 * answer['seconds']:.2f}", f"{gflops:.0f}",
                            f"{100 * gflops / (threads * answer['peak_gflops']):.0f} %", f"{1e3 * theirs:.2f}",
                            f"{theirs / answer['seconds']:.2f}")
    ours.stdin.close()
    ours.wait()


if __name__ == "__main__":
    main()
