"""Compares the GGUF files that `qkv export` writes with llama.cpp (PyPI's xllamacpp) and PyPI's gguf.

    python tests/interop/compare_gguf_export.py build/release/bin/qkv [--model DIR]

Trains a small model of llama's blocks with rows of 256 numbers on some sentences until it knows them by heart (or takes --model),
exports it in every encoding, and compares for each:
- values: gguf dequantises every tensor to the numbers that qkv writes again as f32, bit for bit;
- tokens: 32 greedy tokens of llama.cpp after each prompt, whose ids llama.cpp's own tokenizer makes, equal qkv's from the same file;
- error: the squared error of all matrices as a share of that of ggml's own quantiser, at most 1.

Prints a table, and exits with status 1 if a comparison fails. Needs gguf, numpy and xllamacpp.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

ENCODINGS = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "iq4_nl")
NEW = 32
SENTENCES = ("The old clock in the hall struck nine, and nobody in the house was awake to hear it.",
             "Seven grey geese flew over the mill while the miller's daughter counted 12 sacks of flour.",
             "Never trust a map that was drawn by a man who has not left his village in 40 years.",
             "She put the letter on the table, looked at it for a while, and then she burned it.",
             "In winter the river freezes, and the children of both villages meet in the middle of it.",
             "A good carpenter measures twice, but my uncle measured five times and still cut the board too short.")
PROMPTS = ("The old clock", "Seven grey", "Never trust", "She put the letter", "In winter the river", "A good carpenter")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def train(qkv, folder):
    text = folder / "text.txt"
    text.write_text("\n\n".join(SENTENCES * 40) + "\n")
    sizes = {"model.d_model": 256, "model.d_ff": 512, "model.heads": 4, "model.layers": 2}
    run(qkv, "train", "lm", "--train", text, "--out", folder / "model", "--blocks", "llama", "--context", 64, "--vocab-size", 400,
        "--valid-share", 0, "--batch-tokens", 512, "--max-steps", 150, "--dropout", 0, "--average-decay", 0, "--warmup-steps", 20,
        "--quiet", *[word for name, value in sizes.items() for word in ("--set", f"{name}={value}")])
    return folder / "model"


class LlamaCpp:
    def __init__(self, file):
        options = xllamacpp.CommonParams()
        options.model.path = str(file)
        options.n_ctx, options.n_parallel, options.warmup, options.fit_params = 64, 1, False, False
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
        self.server = xllamacpp.Server(options)

    def text(self, prompt):
        answer = self.server.handle_completions({"prompt": prompt, "n_predict": NEW, "temperature": 0, "samplers": ["top_k"],
                                                 "top_k": 1, "cache_prompt": False})
        return answer["choices"][0]["text"]


def numbers(file):
    return {tensor.name: gguf.quants.dequantize(np.array(tensor.data), tensor.tensor_type).reshape(-1)
            for tensor in gguf.GGUFReader(file).tensors}


def ggml_error(values, kind):
    """The squared error of ggml's own quantiser."""
    library = ctypes.CDLL(str(next(Path(xllamacpp.__file__).parent.glob("*.so"))))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                            ctypes.c_int64, ctypes.c_void_p]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    values = np.ascontiguousarray(values, dtype=np.float32)
    raw = np.zeros((len(values), values.shape[1] // block * size), dtype=np.uint8)
    library.ggml_quantize_chunk(kind.value, values.ctypes.data, raw.ctypes.data, 0, *values.shape, None)
    return np.square(gguf.quants.dequantize(raw, kind).astype(np.float64) - values).sum()


def error_share(file, exact):
    ours = theirs = 0.0
    for tensor in gguf.GGUFReader(file).tensors:
        if gguf.GGML_QUANT_SIZES[tensor.tensor_type][0] == 1:
            continue
        values = exact[tensor.name].reshape(-1, int(tensor.shape[0]))
        read = gguf.quants.dequantize(np.array(tensor.data), tensor.tensor_type).reshape(values.shape)
        ours += np.square(read.astype(np.float64) - values).sum()
        theirs += ggml_error(values, tensor.tensor_type)
    return ours / theirs if theirs else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("qkv", type=Path)
    parser.add_argument("--model", type=Path, help="a folder instead of the model that is trained")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = arguments.model or train(arguments.qkv, folder)
        print(f"{'encoding':10}{'bytes':>10}{'values':>10}{'texts':>10}{'error / ggml':>14}")
        exact = None
        for encoding in ENCODINGS:
            file, again = folder / f"{encoding}.gguf", folder / "again.gguf"
            run(arguments.qkv, "export", model, "--to", file, "--encoding", encoding)
            run(arguments.qkv, "export", file, "--to", again, "--encoding", "f32")
            found, expected = numbers(again), numbers(file)
            exact = exact or expected
            values = sum(np.array_equal(found[key].view(np.uint32), expected[key].view(np.uint32)) for key in expected)
            llama = LlamaCpp(file)
            texts = 0
            for prompt in PROMPTS:
                ours = json.loads(run(arguments.qkv, "generate", file, prompt, "--max-new-tokens", NEW, "--json"))
                ours = ours["texts"][0]["text"]
                theirs = llama.text(prompt)
                texts += ours.strip() == theirs.strip()
                if ours.strip() != theirs.strip():
                    print(f"  {prompt!r}: qkv {ours!r}, llama.cpp {theirs!r}")
            del llama
            share = error_share(file, exact)
            print(f"{encoding:10}{file.stat().st_size:>10}{f'{values}/{len(expected)}':>10}{f'{texts}/{len(PROMPTS)}':>10}"
                  f"{'' if share is None else f'{share:.3f}':>14}", flush=True)
            failed |= values < len(expected) or texts < len(PROMPTS) or (share or 0) > 1
    sys.exit(failed)


main()
