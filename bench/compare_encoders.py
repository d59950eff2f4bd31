"""Vectors of the same texts from qkv, ONNX Runtime and PyTorch, alternating.

    python bench/compare_encoders.py --vocabulary DIR --text FILE --qkv build/release/bin/qkv --lines 150

Needs torch, transformers, tokenizers, onnxruntime, onnx and onnxscript from PyPI. DIR has BERT's vocab.txt. The model is
BERT-base with random weights (random_models.py), exported with torch.onnx and fused by onnxruntime.transformers.optimizer, and
converted to other dtypes with qkv quantize. The texts are passages of FILE of 8 to 256 tokens, as many of 8 to 16 as of 128 to
256. The work is to convert lines of text to the mean of each text's last hidden states, including tokenizing (the peers use
PyPI's tokenizers) and pooling:

  qkv      qkv embed, from first to last byte minus its start-up time for one line, including printing 768 numbers per line
  peers    texts sorted by length, in padded batches of --batch; torch with inference_mode and scaled_dot_product_attention, in
           f32; ONNX Runtime in f32 and with quantize_dynamic's int8, one intra-op pool of --threads

First the vectors are compared: f32 to 1e-4, int8 by cosine. Prints medians of --rounds. The latency is that of one text of 128
tokens, repeated: milliseconds from the line to its vector. The load time is from starting the process (qkv) or from creating
the model or session (peers, with Python and libraries loaded) to the first vector of a short line. Peak memory is the process's
resident set, for the peers minus that of Python and its libraries before the model is loaded.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from measured import LineProcess, percentile, reset_peak, resident_mb, row, run_measured, run_worker, table
from random_models import write_model

SHORT = "a man sleeps"


def tokenizer_of(model):
    from tokenizers import BertWordPieceTokenizer
    return BertWordPieceTokenizer(str(Path(model) / "vocab.txt"), lowercase=True)


def texts_of(arguments):
    """Passages of log-uniformly drawn numbers of tokens, and one of 128 tokens."""
    tokenizer = tokenizer_of(arguments.model)
    draw = random.Random(1)
    words = Path(arguments.text).read_text(encoding="utf-8").split()[:400 * arguments.lines]

    def piece(tokens):
        begin = draw.randrange(len(words) - 2 * tokens)
        end = begin + tokens
        while len(tokenizer.encode(" ".join(words[begin:end])).ids) > tokens:
            end -= 1
        return " ".join(words[begin:max(end, begin + 1)])

    return [piece(round(8 * 32 ** draw.random())) for _ in range(arguments.lines)], piece(128)


# --- The peers, each in a separate process ------------------------------------------------------------------------------


class Torch:
    def __init__(self, model, threads, _):
        import torch
        import transformers
        torch.set_num_threads(threads)
        self.torch, self.make = torch, lambda: transformers.BertModel.from_pretrained(
            model, attn_implementation="sdpa", dtype=torch.float32, add_pooling_layer=False).eval()

    def load(self):
        self.model = self.make()

    def hidden(self, ids, mask):
        with self.torch.inference_mode():
            return self.model(input_ids=self.torch.from_numpy(ids),
                              attention_mask=self.torch.from_numpy(mask)).last_hidden_state.numpy()


class OnnxRuntime:
    def __init__(self, _, threads, file):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self.make = lambda: onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def load(self):
        self.session = self.make()
        self.inputs = {one.name for one in self.session.get_inputs()}

    def hidden(self, ids, mask):
        return self.session.run(None, {name: value for name, value in (("input_ids", ids), ("attention_mask", mask))
                                       if name in self.inputs})[0]


def worker(file):
    import numpy
    job = json.loads(Path(file).read_text())
    tokenizer = tokenizer_of(job["model"])
    peer = (Torch if job["peer"] == "torch" else OnnxRuntime)(job["model"], job["threads"], job["file"])

    def vectors(lines):
        ids = [one.ids for one in tokenizer.encode_batch(lines)]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        result = [None] * len(ids)
        for first in range(0, len(order), job["batch"]):
            batch = order[first:first + job["batch"]]
            longest = max(len(ids[i]) for i in batch)
            padded = numpy.zeros((len(batch), longest), numpy.int64)
            mask = numpy.zeros((len(batch), longest), numpy.int64)
            for row, i in enumerate(batch):
                padded[row, :len(ids[i])] = ids[i]
                mask[row, :len(ids[i])] = 1
            hidden = peer.hidden(padded, mask)
            means = (hidden * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]
            for row, i in enumerate(batch):
                result[i] = means[row]
        return numpy.stack(result)

    idle = reset_peak()
    began = time.perf_counter()
    peer.load()
    vectors([SHORT])
    result = {"load_ms": 1000 * (time.perf_counter() - began)}
    if job["repeat"]:
        latencies = []
        for _ in range(job["repeat"] + 3):
            began = time.perf_counter()
            vectors(job["lines"])
            latencies.append(1000 * (time.perf_counter() - began))
        result["latencies"] = latencies[3:]
    else:
        vectors(job["lines"][:job["batch"]])  # warm-up: memory and threads
        began = time.perf_counter()
        found = vectors(job["lines"])
        result["seconds"] = time.perf_counter() - began
        numpy.save(job["vectors"], found)
    result["peak_mb"] = resident_mb("VmHWM") - idle
    print(json.dumps(result))


def peer_run(arguments, side, threads, lines, repeat=0):
    job = {"model": arguments.model, "peer": side["peer"], "file": side.get("file"), "threads": threads, "batch": arguments.batch,
           "lines": lines, "repeat": repeat, "vectors": str(arguments.scratch / "vectors.npy")}
    return run_worker(__file__, job)


def export(arguments):
    """The model as ONNX, with ONNX Runtime's fused operators, and in int8."""
    import onnx
    import torch
    import transformers
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    files = {form: str(arguments.scratch / f"{form}.onnx") for form in ("plain", "f32", "int8")}
    if Path(files["int8"]).exists():
        return files
    model = transformers.BertModel.from_pretrained(arguments.model, attn_implementation="eager", add_pooling_layer=False).eval()

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    ids = torch.randint(999, 9999, (2, 9))
    axes = {0: "texts", 1: "tokens"}
    torch.onnx.export(Hidden().eval(), (ids, torch.ones_like(ids)), files["plain"], dynamo=False, opset_version=17,
                      input_names=["input_ids", "attention_mask"], output_names=["hidden"],
                      dynamic_axes={"input_ids": axes, "attention_mask": axes, "hidden": axes})
    fused = optimizer.optimize_model(files["plain"], model_type="bert", num_heads=12, hidden_size=768, opt_level=1)
    print("ONNX Runtime's fused operators:", {name: count for name, count in fused.get_fused_operator_statistics().items()
                                              if count}, file=sys.stderr)
    fused.save_model_to_file(files["f32"])
    quantize_dynamic(files["f32"], files["int8"], weight_type=QuantType.QInt8,
                     extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
    return files


# --- qkv ----------------------------------------------------------------------------------------------------------------


def quantized(arguments, form):
    """The folder with weights of this dtype, written unless it exists."""
    folder = arguments.scratch / f"bert-base-{form}"
    if not folder.exists():
        subprocess.run([arguments.qkv, "quantize", arguments.model, "--dtype", form, "--out", folder], capture_output=True,
                       check=True)
    return str(folder)


def qkv_timed(command, lines):
    """Seconds, output and peak memory."""
    began = time.perf_counter()
    output, peak = run_measured(command, lines)
    return time.perf_counter() - began, output, peak


def qkv_run(arguments, side, threads, lines, repeat=0):
    import numpy
    command = [arguments.qkv, "embed", side["model"], "--threads", threads]
    start = min(qkv_timed(command, [SHORT])[0] for _ in range(3))
    if repeat:
        process = LineProcess([*command, "--chunk-lines", 1])
        _, latencies = process.timed(lines[:1] * (repeat + 3))
        process.end()
        return {"latencies": latencies[3:], "load_ms": 1000 * start}
    seconds, output, peak = qkv_timed(command, lines)
    numpy.save(arguments.scratch / "vectors.npy", numpy.array([line.split() for line in output.splitlines()], numpy.float32))
    return {"seconds": seconds - start, "load_ms": 1000 * start, "peak_mb": peak}


# --- Both ---------------------------------------------------------------------------------------------------------------


def differences(found, expected):
    import numpy
    cosines = (found * expected).sum(1) / numpy.linalg.norm(found, axis=1) / numpy.linalg.norm(expected, axis=1)
    return abs(found - expected).max(), cosines.min()


def compare(arguments):
    import numpy
    arguments.scratch = Path(arguments.scratch)
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    arguments.model = str(write_model("bert-base", arguments.vocabulary, arguments.scratch / "bert-base"))
    files = export(arguments)
    lines, one = texts_of(arguments)
    tokens = sum(len(encoding.ids) for encoding in tokenizer_of(arguments.model).encode_batch(lines))
    sides = {"qkv f32": {"model": arguments.model}, "ONNX Runtime f32": {"peer": "onnx", "file": files["f32"]},
             "PyTorch f32": {"peer": "torch"}, "qkv bf16": {"model": quantized(arguments, "bf16")},
             "qkv int8": {"model": quantized(arguments, "int8")}, "ONNX Runtime int8": {"peer": "onnx", "file": files["int8"]}}
    sides = {name: side for name, side in sides.items() if name in arguments.sides}
    table(f"{len(lines)} texts, {tokens} tokens; medians of {arguments.rounds}",
          ["program", "threads", "texts/s", "tokens/s", "128 tokens, ms, median", "95 %", "load ms", "peak MB", "largest difference",
           "minimum cosine"])
    rates = {}
    for threads in arguments.thread_counts:
        runs, latencies, vectors = ({name: [] for name in sides} for _ in range(3))
        for _ in range(arguments.rounds):
            for name, side in sides.items():
                run = peer_run if "peer" in side else qkv_run
                runs[name].append(run(arguments, side, threads, lines))
                vectors[name] = numpy.load(arguments.scratch / "vectors.npy")
                latencies[name] += run(arguments, side, threads, [one], arguments.repeat)["latencies"]
        expected = next(found for name, found in vectors.items() if name.endswith("f32"))
        for name, found in vectors.items():
            largest, cosine = differences(found, expected)
            if name.endswith("f32") and largest > 1e-4:
                sys.exit(f"{name}: the vectors differ by {largest:.1e}, so the work is not the same")
            seconds, load, peak = (statistics.median(run[key] for run in runs[name]) for key in ("seconds", "load_ms", "peak_mb"))
            rates[name, threads] = len(lines) / seconds, percentile(latencies[name], 0.5), load
            row(name, threads, f"{len(lines) / seconds:.1f}", f"{tokens / seconds:.0f}",
                *(f"{percentile(latencies[name], part):.1f}" for part in (0.5, 0.95)), f"{load:.0f}", f"{peak:.0f}",
                f"{largest:.1e}", f"{cosine:.5f}")
    table("Ratios of the medians", ["programs", "threads", "rate", "latency", "loading"])
    for ours, theirs in (("qkv f32", "ONNX Runtime f32"), ("qkv f32", "PyTorch f32"), ("qkv int8", "ONNX Runtime int8")):
        for threads in arguments.thread_counts:
            if (ours, threads) in rates and (theirs, threads) in rates:
                a, b = rates[ours, threads], rates[theirs, threads]
                row(f"{ours}, {theirs}", threads, f"{a[0] / b[0]:.2f}", f"{b[1] / a[1]:.2f}", f"{b[2] / a[2]:.1f}")


def main():
    sides = ["qkv f32", "ONNX Runtime f32", "PyTorch f32", "qkv bf16", "qkv int8", "ONNX Runtime int8"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", help="a folder with BERT's vocab.txt")
    parser.add_argument("--text", help="a file of English text")
    parser.add_argument("--qkv", default="build/release/bin/qkv", help="the program (default: %(default)s)")
    parser.add_argument("--scratch", default="build/compare_encoders",
                        help="folder for the models, which later runs reuse (default: %(default)s)")
    parser.add_argument("--lines", type=int, default=1000, help="(default: %(default)s)")
    parser.add_argument("--batch", type=int, default=32, help="texts per padded batch (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=30, help="repetitions of the latency measurement (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--thread-counts", type=int, nargs="+", default=[1, 2], help="(default: 1 2)")
    parser.add_argument("--sides", nargs="+", choices=sides, default=sides, help="(default: all)")
    compare(parser.parse_args())


if __name__ == "__main__":
    worker(sys.argv[2]) if sys.argv[1:2] == ["--worker"] else main()
