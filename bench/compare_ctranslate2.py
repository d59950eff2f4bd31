"""The same translation model and sentences with qkv and with CTranslate2, alternating.

    python bench/compare_ctranslate2.py MODEL --source test.en --reference test.de --qkv build/release/bin/qkv

Needs ctranslate2, transformers, torch (for the conversion), sentencepiece and sacrebleu from PyPI. MODEL is a Marian folder.
CTranslate2's converter assumes that the embedding of <pad>, the start token, is zero, as in Marian, so both sides run a copy of
MODEL in which it is. Both translate lines of text to lines of text; CTranslate2's side tokenizes with sentencepiece, as its
users do. For each beam size and number of threads there are two modes:

  batched   all lines at once: qkv's process from first to last byte, minus its start-up time for one line;
            CTranslate2's translate_batch (max_batch_size=1024 tokens, sorted by length)
  one line  a line is sent when the previous translation has arrived: milliseconds per line, median and 95th percentile

With --dtypes, each dtype is compared with CTranslate2's compute type of that name (f32: float32, bf16: bfloat16, int8: int8),
both from the same f32 folder. With --fixed-tokens, both sides generate exactly that many tokens per sentence, which makes hardly
trained models comparable (a few steps of `qkv train translation --preset base` create one of that size); BLEU and equality of
texts are then not reported. The last column of "one line" with beam 1 is the share of the memory's read bandwidth (`qkv bench`)
used for the weights that a step reads: the decoder's, without the keys and values of the source, and the output projection's.

Prints medians of --rounds. Peak memory is the process's resident set minus that before the model is loaded: for CTranslate2 of
Python and its libraries, for qkv of `qkv version`. Start-up is the time from starting the process to the first translated line, including 10 ms of the
bare Python that starts it (CTranslate2: from the constructor call, without Python's start).
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import (LineProcess, percentile, reset_peak, resident_mb, row, run_measured, run_worker, spread,
                      table)

COMPUTE_TYPES = {"f32": "float32", "bf16": "bfloat16", "int8": "int8"}


def source_lines(arguments):
    return Path(arguments.source).read_text(encoding="utf-8").splitlines()[:arguments.lines]


def with_zero_start(model, copy):
    """A copy of a Marian folder in which the embedding of <pad> is zero."""
    from safetensors.torch import load_file, save_file
    shutil.copytree(model, copy, ignore=shutil.ignore_patterns("checkpoints", "snapshots", "cache", "runs"))
    weights = load_file(Path(copy) / "model.safetensors")
    pad = json.loads((Path(copy) / "config.json").read_text())["pad_token_id"]
    for name in ("model.shared.weight", "model.decoder.embed_tokens.weight"):
        if name in weights:
            weights[name][pad] = 0
    save_file(weights, Path(copy) / "model.safetensors", {"format": "pt"})


# --- CTranslate2 --------------------------------------------------------------------------------------------------------


class Peer:
    """CTranslate2 with the folder's tokenizer."""

    def __init__(self, job):
        import ctranslate2
        import sentencepiece
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(job["model"]) / "source.spm"))
        self.joiner = sentencepiece.SentencePieceProcessor(model_file=str(Path(job["model"]) / "target.spm"))
        self.idle = reset_peak()
        self.began = time.perf_counter()
        self.translator = ctranslate2.Translator(job["converted"], device="cpu", inter_threads=1, intra_threads=job["threads"],
                                                 compute_type=job["compute_type"])
        self.beam, self.alpha = job["beam"], job["length_penalty"]
        self.lengths = {"max_decoding_length": 256}
        if job["fixed_tokens"]:
            self.lengths = {"min_decoding_length": job["fixed_tokens"], "max_decoding_length": job["fixed_tokens"]}

    def translate(self, lines, **options):
        tokens = [self.pieces.encode(line, out_type=str) + ["</s>"] for line in lines]
        results = self.translator.translate_batch(tokens, beam_size=self.beam, length_penalty=self.alpha,
                                                  **self.lengths, **options)
        hypotheses = [result.hypotheses[0] for result in results]
        ends = "max_decoding_length" in self.lengths and "min_decoding_length" not in self.lengths
        return [self.joiner.decode(pieces) for pieces in hypotheses], sum(len(pieces) + ends for pieces in hypotheses)


def peer_worker(file):
    job = json.loads(Path(file).read_text())
    lines = job["lines"]
    peer = Peer(job)
    peer.translate(lines[:1])
    result = {"startup_ms": 1000 * (time.perf_counter() - peer.began)}
    if job["one_line"]:
        latencies, texts, tokens = [], [], 0
        for line in lines:
            began = time.perf_counter()
            text, count = peer.translate([line])
            latencies.append(1000 * (time.perf_counter() - began))
            texts += text
            tokens += count
        result |= {"latencies": latencies, "seconds": sum(latencies) / 1000}
    else:
        began = time.perf_counter()
        texts, tokens = peer.translate(lines, max_batch_size=1024, batch_type="tokens")
        result["seconds"] = time.perf_counter() - began
    print(json.dumps(result | {"texts": texts, "tokens": tokens, "peak_mb": resident_mb("VmHWM") - peer.idle}))


def peer_round(arguments, form, beam, threads, one_line):
    return run_worker(__file__, {
        "model": arguments.model, "converted": arguments.converted, "lines": source_lines(arguments), "beam": beam,
        "threads": threads, "compute_type": COMPUTE_TYPES[form], "length_penalty": arguments.length_penalty,
        "fixed_tokens": arguments.fixed_tokens, "one_line": one_line})


# --- qkv ----------------------------------------------------------------------------------------------------------------


def qkv_round(arguments, form, beam, threads, one_line):
    lines = source_lines(arguments)
    command = [arguments.qkv, "translate", arguments.model, "--beam", beam, "--threads", threads, "--length-penalty",
               arguments.length_penalty, "--dtype", form, "--max-new-tokens", (arguments.fixed_tokens or 257) - 1]
    if arguments.fixed_tokens:
        command += ["--min-new-tokens", arguments.fixed_tokens - 1]
    command += arguments.qkv_options.split()
    _, idle = run_measured([arguments.qkv, "version"], [])
    process = LineProcess([*command, "--chunk-lines", 1])
    process.ask(lines[0])
    result = {"startup_ms": process.first_ms}
    if one_line:
        texts, latencies = process.timed(lines)
        result |= {"latencies": latencies, "seconds": sum(latencies) / 1000, "peak_mb": process.end() - idle}
    else:
        process.end()
        began = time.perf_counter()
        output, peak = run_measured(command, lines)
        result["peak_mb"] = peak - idle
        result["seconds"] = time.perf_counter() - began - result["startup_ms"] / 1000
        texts = output.splitlines()
    if arguments.fixed_tokens:
        return result | {"texts": texts, "tokens": arguments.fixed_tokens * len(texts)}
    import sentencepiece
    joiner = sentencepiece.SentencePieceProcessor(model_file=str(Path(arguments.model) / "target.spm"))
    return result | {"texts": texts, "tokens": sum(len(joiner.encode(text)) + 1 for text in texts)}


def qkv_json(arguments, *command):
    run = subprocess.run([arguments.qkv, *map(str, command), "--json"], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def step_bytes(arguments, form):
    """Bytes of the weights that one decoding step reads."""
    parts = {part["name"]: part["weight_bytes"] for part in qkv_json(arguments, "inspect", arguments.model, "--dtype", form)["parts"]}
    # A tied table counts as output projection; the keys and values of the source are computed once per sentence.
    return (sum(parts[name] for name in ("decoder.embedding", "decoder.self_attention", "decoder.feed_forward", "output"))
            + parts["decoder.cross_attention"] / 2)


def read_bandwidth(arguments, threads):
    return 1e9 * qkv_json(arguments, "bench", "--threads", threads, "--seconds", 0.001)["read_gb_per_s"]


# --- Both ---------------------------------------------------------------------------------------------------------------


def compare(arguments):
    import ctranslate2
    import sacrebleu
    arguments.lines = len(source_lines(arguments))
    with tempfile.TemporaryDirectory() as scratch:
        arguments.converted = str(Path(scratch) / "ctranslate2")
        with_zero_start(arguments.model, Path(scratch) / "marian")
        arguments.model = str(Path(scratch) / "marian")
        ctranslate2.converters.TransformersConverter(arguments.model).convert(arguments.converted)
        table(f"{arguments.lines} lines, CTranslate2 {ctranslate2.__version__}; medians of {arguments.rounds}",
              ["weights", "beam", "threads", "mode", "program", "target tokens/s", "ms/line, median", "95 %", "peak MB", "start-up ms",
               "BLEU", "of bandwidth"])
        bandwidth = {threads: read_bandwidth(arguments, threads) for threads in arguments.thread_counts}
        for form in arguments.dtypes:
            for beam in arguments.beams:
                for threads in arguments.thread_counts:
                    for one_line in (False, True):
                        runs = {"qkv": [], "CTranslate2": []}
                        for _ in range(arguments.rounds):
                            runs["qkv"].append(qkv_round(arguments, form, beam, threads, one_line))
                            runs["CTranslate2"].append(peer_round(arguments, form, beam, threads, one_line))
                        of_bandwidth = step_bytes(arguments, form) / bandwidth[threads] if one_line and beam == 1 else 0
                        what = form, beam, threads, "one line" if one_line else "batched"
                        report(arguments, what, runs, of_bandwidth, sacrebleu)


def report(arguments, what, runs, of_bandwidth, sacrebleu):
    """`of_bandwidth`: time to read a step's weights at full bandwidth, in seconds; 0: not shown."""
    def median(name, key):
        return statistics.median(run[key] for run in runs[name])

    for name, of_name in runs.items():
        latencies = [value for run in of_name for value in run.get("latencies", [])]
        bleu = "-"
        if arguments.reference and not arguments.fixed_tokens:
            references = Path(arguments.reference).read_text(encoding="utf-8").splitlines()[:arguments.lines]
            bleu = f"{sacrebleu.corpus_bleu(of_name[0]['texts'], [references]).score:.2f}"
        rate = statistics.median(run["tokens"] / run["seconds"] for run in of_name)
        shown = [f"{percentile(latencies, part):.1f}" if latencies else "-" for part in (0.5, 0.95)]
        share = f"{100 * rate * of_bandwidth:.0f} %" if of_bandwidth else "-"
        row(*what, name, f"{rate:.0f}", *shown, f"{median(name, 'peak_mb'):.0f}", f"{median(name, 'startup_ms'):.0f}", bleu, share)
    ratios = [(a["tokens"] / a["seconds"]) / (b["tokens"] / b["seconds"]) for a, b in zip(runs["qkv"], runs["CTranslate2"])]
    equal = sum(a == b for a, b in zip(runs["qkv"][0]["texts"], runs["CTranslate2"][0]["texts"]))
    texts = "" if arguments.fixed_tokens else f"{equal} of {arguments.lines} texts equal"
    memory = median("qkv", "peak_mb") / median("CTranslate2", "peak_mb")
    row(*what, "ratio", spread(ratios), "", "", f"{memory:.2f}", "", texts, "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a Marian folder")
    parser.add_argument("--source", required=True, help="text to translate, one sentence per line")
    parser.add_argument("--reference", help="its translation, for BLEU")
    parser.add_argument("--qkv", default="build/release/bin/qkv", help="the program (default: %(default)s)")
    parser.add_argument("--qkv-options", default="", help="further options of qkv translate, as one argument")
    parser.add_argument("--dtypes", nargs="+", default=["f32", "int8"], choices=list(COMPUTE_TYPES),
                        help="dtypes to compare (default: f32 int8)")
    parser.add_argument("--fixed-tokens", type=int, default=0, help="tokens per translation (default: until the end token)")
    parser.add_argument("--lines", type=int, default=1000, help="(default: %(default)s)")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4], help="(default: 1 4)")
    parser.add_argument("--thread-counts", type=int, nargs="+", default=[1, 2], help="(default: 1 2)")
    parser.add_argument("--length-penalty", type=float, default=0.6, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    compare(parser.parse_args())


if __name__ == "__main__":
    peer_worker(sys.argv[2]) if sys.argv[1:2] == ["--worker"] else main()
