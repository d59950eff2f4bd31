"""Opens a qkv model folder with Hugging Face transformers and compares: tokenizer, logits, scores and beam search.

    python tests/interop/transformers_marian.py DIR --source held_out.en --qkv build/release/bin/qkv \
        --dump build/release/tests/dump_family

Needs torch, transformers, sentencepiece and safetensors from PyPI, and the two programs (`ninja qkv_cli dump_family`).
Prints a Markdown table (as in docs/interop.md) and exits with status 1 if something differs: token ids and texts must be
equal, logits must agree to --tolerance. Without --reference, logits are compared on qkv's own translations.

Beam search uses the folder's generation_config.json in both programs. If two hypotheses differ by less than the
implementations' rounding, either may win. Such ties are identified (by transformers' scores of both texts) and counted, but are
still differences.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from compare_families import dumped

transformers.utils.logging.disable_progress_bar()


def read_lines(path, limit):
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    lines = [" ".join(line.split()) for line in lines]
    return [line for line in lines if line][:limit]


def run(command, lines):
    text = "".join(line + "\n" for line in lines)
    result = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {result.returncode}")
    return result.stdout.decode().splitlines()


def token_log_probabilities(model, source, target):
    """log P of each target token, teacher-forced: source and target are ids with </s>, one pair."""
    start = model.config.decoder_start_token_id
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[start] + target[:-1]])).logits[0]
    return logits, torch.log_softmax(logits, -1).gather(1, torch.tensor(target)[:, None])[:, 0]


def length_penalty(generation):
    return 1.0 if generation.length_penalty is None else generation.length_penalty


def length_penalised(log_probabilities, generation):
    return float(log_probabilities.sum()) / len(log_probabilities) ** length_penalty(generation)


class Comparison:
    """The rows of the table."""

    def __init__(self):
        self.rows, self.passed = [], True

    def add(self, what, found, wanted, holds):
        self.rows.append((what, found, wanted, "yes" if holds else "NO"))
        self.passed = self.passed and holds

    def markdown(self):
        header = [("what", "found", "wanted", "holds"), ("---",) * 4]
        return "\n".join("| " + " | ".join(row) + " |" for row in header + self.rows)


def compare_tokens_and_logits(arguments, model, tokenizer, sources, targets, translations, table):
    def same_tokens(what, found, wanted):
        same = sum(tokenizer.convert_tokens_to_ids(tokens) == ids for tokens, ids in zip(found, wanted, strict=True))
        table.add(f"token ids of {what}", f"{same} of {len(wanted)} equal", "all", same == len(wanted))

    source_ids, target_ids = tokenizer(sources).input_ids, tokenizer(text_target=targets).input_ids
    pairs = [f"{source}\t{target}" for source, target in zip(sources, targets, strict=True)]
    scored = [json.loads(line) for line in run([arguments.qkv, "score", arguments.model, "--json"], pairs)]
    same_tokens("sources", [translation["source_tokens"] for translation in translations], source_ids)
    same_tokens("targets", [one["tokens"] for one in scored], target_ids)

    start = model.config.decoder_start_token_id
    inputs = {"": source_ids, "target_": [[start] + ids[:-1] for ids in target_ids]}
    tensors = {prefix + name: np.array(numbers, np.int32) for prefix, texts in inputs.items()
               for name, numbers in (("ids", sum(texts, [])), ("lengths", list(map(len, texts))))}
    with tempfile.TemporaryDirectory() as folder:
        found = torch.from_numpy(dumped(arguments.dump, arguments.model, tensors, Path(folder), steps=0)["logits"])
    logits = found.split(tensors["target_lengths"].tolist())

    largest, differing_argmax, tokens = 0.0, 0, 0
    for source, target, found in zip(source_ids, target_ids, logits):
        wanted, _ = token_log_probabilities(model, source, target)
        largest = max(largest, float((found - wanted).abs().max()))
        differing_argmax += int((found.argmax(-1) != wanted.argmax(-1)).sum())
        tokens += len(target)
    table.add(f"logits, {tokens} x {logits[0].shape[1]}, largest difference", f"{largest:.2e}",
              f"{arguments.tolerance:g}", largest <= arguments.tolerance)
    table.add("most likely next token", f"{tokens - differing_argmax} of {tokens} equal", "all", differing_argmax == 0)


def compare_translations(arguments, model, tokenizer, sources, translations, table):
    generation = model.generation_config
    texts, scores = [], []
    for begin in range(0, len(sources), arguments.batch):
        batch = tokenizer(sources[begin:begin + arguments.batch], return_tensors="pt", padding=True)
        out = model.generate(**batch, output_scores=True, return_dict_in_generate=True)
        texts += tokenizer.batch_decode(out.sequences, skip_special_tokens=True)
        scores += out.sequences_scores.tolist() if getattr(out, "sequences_scores", None) is not None else []

    same, ties, score_differences, token_differences = 0, 0, [], []
    for i, (source, text, translation) in enumerate(zip(sources, texts, translations)):
        best = translation["hypotheses"][0]
        source_ids = tokenizer(source).input_ids
        ids = tokenizer.convert_tokens_to_ids(best["tokens"])
        _, wanted = token_log_probabilities(model, source_ids, ids)
        if best["complete"]:
            found = torch.tensor(best["token_log_probabilities"])
            token_differences.append(float((found - wanted).abs().max()))
        if best["text"] == text:
            same += 1
            if scores:
                score_differences.append(abs(best["score"] - scores[i]))
            continue
        tie = bool(scores) and abs(length_penalised(wanted, generation) - scores[i]) < 1e-4
        ties += tie
        print(f"line {i + 1}: {source}\n  transformers: {text}\n  qkv:          {best['text']}"
              f"{'  (a tie)' if tie else ''}", file=sys.stderr)
    how = f"beam {generation.num_beams}, length penalty {length_penalty(generation):g}"
    found = f"{same} of {len(sources)} equal" + (f", {ties} ties" if ties else "")
    table.add(f"texts, {how}", found, "all", same == len(sources))
    add_largest(arguments, table, "log-probabilities of the tokens of qkv's translations", token_differences)
    if scores:
        add_largest(arguments, table, "scores of equal texts", score_differences)


def add_largest(arguments, table, what, differences):
    largest = max(differences, default=math.inf)  # no comparison is not agreement
    table.add(f"{what}, largest difference of {len(differences)} sentences", f"{largest:.2e}",
              f"{arguments.tolerance:g}", largest <= arguments.tolerance)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="DIR", help="model folder")
    parser.add_argument("--source", required=True, help="text to translate, one sentence per line")
    parser.add_argument("--reference", help="translations to compare logits on (default: qkv's own)")
    parser.add_argument("--qkv", default="build/release/bin/qkv", help="the program (default: %(default)s)")
    parser.add_argument("--dump", default="build/release/tests/dump_family", help="(default: %(default)s)")
    parser.add_argument("--limit", type=int, default=100, help="sentences (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=10, help="sentences per batch in transformers (default: %(default)s)")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    table = Comparison()
    model, info = AutoModelForSeq2SeqLM.from_pretrained(arguments.model, output_loading_info=True)
    model.eval()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    problems = [f"{key}: {len(value)}" for key, value in info.items() if value]
    table.add(f"`AutoModelForSeq2SeqLM` opens it: {type(model).__name__}", ", ".join(problems) or "all tensors used",
              "no tensor missing or left over", not problems)

    sources = read_lines(arguments.source, arguments.limit)
    begin = time.perf_counter()
    translations = [json.loads(line) for line in
                    run([arguments.qkv, "translate", arguments.model, "--json", "--scores", "--alignments"], sources)]
    if len(translations) != len(sources):
        sys.exit(f"expected {len(sources)} translations, found {len(translations)}")
    print(f"qkv translated {len(sources)} sentences in {time.perf_counter() - begin:.1f} s", file=sys.stderr)
    targets = read_lines(arguments.reference, arguments.limit) if arguments.reference else None
    if targets is None:
        targets = [translation["translation"] for translation in translations]
    elif len(targets) != len(sources):
        sys.exit(f"expected {len(sources)} references, found {len(targets)}")

    compare_tokens_and_logits(arguments, model, tokenizer, sources, targets, translations, table)
    compare_translations(arguments, model, tokenizer, sources, translations, table)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, {len(sources)} sentences\n")
    print(table.markdown())
    sys.exit(0 if table.passed else 1)


if __name__ == "__main__":
    main()
