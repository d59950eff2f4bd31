"""The perplexity of a language model's weights in blocks: rounded by qkv, by ggml, and calibrated.

    python bench/compare_rounding.py MODEL --text valid.txt --calibration train.txt --qkv build/release/bin/qkv

MODEL is a LLaMA folder, the text one that it was not trained on; the calibration text is read as `qkv quantize --calibrate` reads
it. ggml's files are written by PyPI's gguf from `qkv export --encoding f32` and evaluated by qkv as well, so that the weights alone
differ. Token tables have 8 bits everywhere. Needs gguf from PyPI.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from gguf_forms import write_form
from measured import row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--text", required=True)
    parser.add_argument("--calibration", required=True)
    parser.add_argument("--dtypes", nargs="+", default=["int8", "q8_0", "q4_0", "q4_k"])
    parser.add_argument("--qkv", default="build/release/bin/qkv")
    arguments = parser.parse_args()

    def qkv(*command):
        return subprocess.run([arguments.qkv, *map(str, command)], capture_output=True, text=True, check=True).stdout

    def perplexity(model):
        return json.loads(qkv("evaluate", "lm", model, "--test", arguments.text, "--json"))["perplexity"]

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        qkv("export", arguments.model, "--to", folder / "f32.gguf", "--encoding", "f32")
        exact = perplexity(arguments.model)
        row("weights", "by", "perplexity", "more than f32")
        row("---", "---", "---", "---")
        row("f32", "", f"{exact:.3f}", "")

        def show(dtype, by, model):
            found = perplexity(model)
            row(dtype, by, f"{found:.3f}", f"{100 * (found / exact - 1):.2f} %")

        for dtype in arguments.dtypes:
            qkv("quantize", arguments.model, "--dtype", dtype, "--out", folder / dtype)
            show(dtype, "qkv", folder / dtype)
            form = {"q8_0": "int8", "q4_0": "q4_0"}.get(dtype)
            if form:
                show(dtype, "ggml", write_form(folder / "f32.gguf", form, folder / f"{dtype}.gguf", tables="int8"))
            if dtype not in ("int8", "q8_0"):
                out = folder / f"{dtype}-calibrated"
                qkv("quantize", arguments.model, "--dtype", dtype, "--calibrate", arguments.calibration, "--out", out)
                show(dtype, "qkv, calibrated", out)


if __name__ == "__main__":
    main()
