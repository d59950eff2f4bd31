"""Accuracy of trained weights in bf16 and int8: vectors and their neighbours, perplexity, greedy texts.

    python bench/compare_dtypes.py --text FILE --qkv build/release/bin/qkv DIR...

Needs numpy. DIR is the folder of a text encoder or a language model, converted with `qkv quantize`. FILE has one sentence per line.

  encoders          vectors of --lines lines (qkv embed): cosine to those in f32; share of lines whose nearest other line is the
                    same, and mean overlap of the ten nearest
  language models   perplexity of --pieces passages of FILE of about 1,000 characters (qkv score); number of leading tokens of
                    greedy texts equal to f32, for --pieces texts of 64 tokens after 100 characters (qkv generate)
"""

import argparse
import json
import math
import subprocess
from pathlib import Path

import numpy as np

from measured import row, table

FORMS = ("f32", "bf16", "int8")
NEW = 64


def answers(qkv, command, lines):
    run = subprocess.run([qkv, *map(str, command), "--json"], input="\n".join(lines) + "\n", capture_output=True, text=True,
                         encoding="utf-8", check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def in_form(qkv, model, form, scratch):
    """The folder with weights of this dtype, and the size of their file in MB."""
    folder = model if form == "f32" else scratch / f"{model.resolve().name}-{form}"
    if not folder.exists():
        subprocess.run([qkv, "quantize", model, "--dtype", form, "--out", folder], check=True)
    return folder, sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e6


def neighbours(vectors):
    near = vectors @ vectors.T
    np.fill_diagonal(near, -2)
    return np.argsort(-near, axis=1, kind="stable")


def compare_vectors(topic, folders, lines, qkv):
    table(topic, ["weights", "MB", "minimum cosine", "mean", "same nearest", "same among the ten nearest"])
    for form, (folder, size) in folders.items():
        vectors = np.array([answer["vector"] for answer in answers(qkv, ["embed", folder, "--normalize"], lines)])
        order = neighbours(vectors)
        if form == "f32":
            exact, expected = vectors, order
            row("f32", f"{size:.1f}", "", "", "", "")
            continue
        cosines = (vectors * exact).sum(1)
        nearest = np.mean(order[:, 0] == expected[:, 0])
        ten = np.mean([len(set(mine) & set(theirs)) for mine, theirs in zip(order[:, :10], expected[:, :10])]) / 10
        row(form, f"{size:.1f}", f"{cosines.min():.5f}", f"{cosines.mean():.5f}", f"{nearest:.1%}", f"{ten:.1%}")


def pieces_of(lines, count, length=1000):
    """Passages of consecutive lines, spread over the whole text."""
    pieces = []
    for begin in range(0, len(lines), max(1, len(lines) // count)):
        piece = ""
        for line in lines[begin:]:
            piece += (" " if piece else "") + line
            if len(piece) >= length:
                pieces.append(piece)
                break
    return pieces[:count]


def compare_texts(topic, folders, pieces, qkv):
    table(topic, ["weights", "MB", "perplexity", "tokens", "leading tokens of greedy texts equal to f32"])
    for form, (folder, size) in folders.items():
        scores = answers(qkv, ["score", folder], pieces)
        tokens = sum(len(score["tokens"]) for score in scores)
        perplexity = math.exp(-sum(score["log_probability"] for score in scores) / tokens)
        texts = [answer["texts"][0]["ids"] for answer in
                 answers(qkv, ["generate", folder, "--max-new-tokens", NEW, "--min-new-tokens", NEW], [piece[:100] for piece in pieces])]
        if form == "f32":
            expected, same = texts, ""
        else:
            equal = [next((i for i, (a, b) in enumerate(zip(*pair)) if a != b), NEW) for pair in zip(texts, expected)]
            same = f"{np.mean(equal):.1f} of {NEW}; all of them in {equal.count(NEW)} of {len(equal)} texts"
        row(form, f"{size:.1f}", f"{perplexity:.3f}", tokens, same)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--text", required=True, type=Path, help="one sentence per line")
    parser.add_argument("--qkv", default="build/release/bin/qkv", help="the program (default: %(default)s)")
    parser.add_argument("--lines", type=int, default=1000, help="(default: %(default)s)")
    parser.add_argument("--pieces", type=int, default=20, help="(default: %(default)s)")
    parser.add_argument("--scratch", default="build/compare_dtypes", type=Path, help="folder for converted models (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    lines = [line for line in arguments.text.read_text(encoding="utf-8").splitlines() if line.strip()]
    for model in arguments.models:
        folders = {form: in_form(arguments.qkv, model, form, arguments.scratch) for form in FORMS}
        if json.loads((model / "config.json").read_text())["model_type"] in ("gpt2", "llama"):
            compare_texts(model.name, folders, pieces_of(lines, arguments.pieces), arguments.qkv)
        else:
            compare_vectors(model.name, folders, lines[::max(1, len(lines) // arguments.lines)][:arguments.lines], arguments.qkv)


if __name__ == "__main__":
    main()
