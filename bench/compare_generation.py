"""Text generation and translation by qkv and by peers, alternating.

    python bench/compare_generation.py --vocabulary DIR --text FILE --qkv build/release/bin/qkv
    python bench/compare_generation.py --what texts --model DIR --gguf FILE --text FILE
    python bench/compare_generation.py --what translations --marian MODEL --text test.en --qkv build/release/bin/qkv

Needs torch and transformers from PyPI, and for llama.cpp xllamacpp and gguf (not with --no-llama). Three comparisons:

  texts         GPT-2 small with random weights (random_models.py) and the vocabulary in DIR: greedy, one text at a time, a prompt
                of 32 tokens from FILE and 128 new tokens, the end token forbidden. The rate is 128 tokens over the time from the
                prompt to the last token, including prefill: transformers' generate() in f32 with sdpa, llama.cpp's completions
                of token ids (its int8 is Q8_0), qkv generate with a line on its stdin. "the same" is the number of leading
                tokens equal to qkv's in f32: with random weights, likely tokens are so close that rounding to bf16 or int8 soon
                changes one. --model uses a folder with trained weights, and --gguf the same model as a GGUF file, which both
                run unchanged and as Q8_0, and llama.cpp also converted to the dtypes above.
  lengths       one text of somewhat more than --longest tokens by a LLaMA-shaped model with 8 layers of width 512 and rotary
                positions, sampled with --top-k 40: milliseconds per token by number of preceding tokens, from the times at
                which the text arrives
  translations  transformers' generate() and qkv translate with one Marian folder, by beam: line by line, and batched
                (transformers: 32 lines, padded, sorted by length; qkv: its default). Both from text to text.

Prints medians of --rounds. The load time is from starting the process (qkv) or from creating the model (peers, with Python and
libraries loaded) to the first token of another prompt. Peak memory is the process's resident set, for the peers minus that of
Python and its libraries before the model is loaded.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from gguf_forms import write_form
from gguf_gpt2 import write_gguf
from measured import LineProcess, reset_peak, resident_mb, row, run_measured, run_worker, spread, table
from random_models import write_model

PROMPT, NEW = 32, 128
FORMS = ("f32", "bf16", "int8")


def tokenizer_of(folder):
    from tokenizers import ByteLevelBPETokenizer, Tokenizer
    if (Path(folder) / "tokenizer.json").exists():
        return Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    return ByteLevelBPETokenizer(str(Path(folder) / "vocab.json"), str(Path(folder) / "merges.txt"))


# --- The peers, each in a separate process ------------------------------------------------------------------------------


class Transformers:
    """Continues a list of ids."""

    def __init__(self, job):
        import torch
        import transformers
        torch.set_num_threads(job["threads"])
        self.torch, self.transformers, self.job = torch, transformers, job

    def load(self):
        self.model = self.transformers.AutoModelForCausalLM.from_pretrained(
            self.job["model"], dtype=self.torch.float32, attn_implementation="sdpa").eval()

    def run(self, ids, count):
        with self.torch.inference_mode():
            found = self.model.generate(self.torch.tensor([ids]), attention_mask=self.torch.ones(1, len(ids), dtype=self.torch.long),
                                        do_sample=False, min_new_tokens=count, max_new_tokens=count, pad_token_id=0)
        return found[0, len(ids):].tolist()


class LlamaCpp:
    def __init__(self, job):
        import xllamacpp
        self.xllamacpp, self.job = xllamacpp, job

    def load(self):
        options = self.xllamacpp.CommonParams()
        options.model.path = self.job["file"]
        options.n_ctx, options.n_parallel, options.warmup, options.fit_params = 1024, 1, False, False
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = self.job["threads"]
        self.server = self.xllamacpp.Server(options)

    def run(self, ids, count, **more):
        answer = self.server.handle_completions({"prompt": ids, "n_predict": count, "temperature": 0, "samplers": ["top_k"], "top_k": 1,
                                                 "ignore_eos": True, "cache_prompt": False, **more})
        if answer.get("usage", {}).get("completion_tokens") != count:
            sys.exit(f"llama.cpp: expected {count} tokens, found {str(answer)[:500]}")
        return answer

    def tokens(self, ids, count):
        """The generated tokens, which are only reported with their probabilities."""
        return [token["id"] for token in self.run(ids, count, logprobs=1)["choices"][0]["logprobs"]["content"]]


class Marian:
    """Translates lines, at most `batch` at a time."""

    def __init__(self, job):
        import torch
        import transformers
        torch.set_num_threads(job["threads"])
        self.torch, self.transformers, self.job = torch, transformers, job

    def load(self):
        self.model = self.transformers.MarianMTModel.from_pretrained(self.job["model"], attn_implementation="sdpa").eval()
        self.tokenizer = self.transformers.AutoTokenizer.from_pretrained(self.job["model"])

    def run(self, lines, batch):
        texts = [""] * len(lines)
        order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
        for first in range(0, len(order), batch):
            some = order[first:first + batch]
            read = self.tokenizer([lines[i] for i in some], return_tensors="pt", padding=True)
            with self.torch.inference_mode():
                found = self.model.generate(**read, num_beams=self.job["beam"])
            for i, text in zip(some, self.tokenizer.batch_decode(found, skip_special_tokens=True)):
                texts[i] = text
        return texts


PEERS = {"transformers": Transformers, "llama.cpp": LlamaCpp, "marian": Marian}


def worker(file):
    job = json.loads(Path(file).read_text())
    peer = PEERS[job["peer"]](job)
    idle = reset_peak()
    began = time.perf_counter()
    peer.load()
    peer.run(*job["first"])
    result = {"load_ms": 1000 * (time.perf_counter() - began)}
    peer.run(*job["warm"])
    began = time.perf_counter()
    found = peer.run(*job["work"])
    result["seconds"] = time.perf_counter() - began
    result["peak_mb"] = resident_mb("VmHWM") - idle
    result["found"] = peer.tokens(*job["work"]) if job["peer"] == "llama.cpp" else found
    print("\n" + json.dumps(result))


# --- qkv ----------------------------------------------------------------------------------------------------------------


def qkv_generate(arguments, model, form, threads, prompts, new):
    def generating(count):
        dtype = ["--dtype", form] if form else []
        process = LineProcess([arguments.qkv, "generate", model, *dtype, "--threads", threads, "--json", "--max-new-tokens", count,
                               "--min-new-tokens", count, "--chunk-lines", 1])
        process.ask(prompts[0])
        return process

    first = generating(1)
    result = {"load_ms": first.first_ms}
    first.end()
    process = generating(new)
    began = time.perf_counter()
    answer = json.loads(process.ask(prompts[1]))
    result |= {"seconds": time.perf_counter() - began, "found": answer["texts"][0]["ids"]}
    if answer["prompt_tokens"] != PROMPT or len(result["found"]) != new:
        sys.exit(f"qkv: {answer['prompt_tokens']} tokens and {len(result['found'])}, expected {PROMPT} and {new}")
    return result | {"peak_mb": process.end()}


def qkv_translate(arguments, beam, threads, lines, batch):
    command = [arguments.qkv, "translate", arguments.marian, "--beam", beam, "--threads", threads]
    process = LineProcess([*command, "--chunk-lines", 1])
    process.ask(lines[0])
    result = {"load_ms": process.first_ms}
    if batch == 1:
        process.ask(lines[1])
        found, latencies = process.timed(lines)
        return result | {"seconds": sum(latencies) / 1000, "found": found, "peak_mb": process.end()}
    process.end()
    began = time.perf_counter()
    output, peak = run_measured(command, lines)
    seconds = time.perf_counter() - began - result["load_ms"] / 1000
    return result | {"seconds": seconds, "found": output.splitlines(), "peak_mb": peak}


# --- The comparisons ----------------------------------------------------------------------------------------------------


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def first_equal(found, expected):
    return next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))


def prompts_of(arguments, model):
    """Two texts of exactly the prompt's length that begin with a word: (texts, ids)."""
    tokenizer = tokenizer_of(model)
    texts = []
    for line in Path(arguments.text).read_text(encoding="utf-8").splitlines():
        for cut in range(len(line), 0, -1):
            if len(tokenizer.encode(line[:cut]).ids) == PROMPT and line.isascii():
                texts.append(line[:cut])
                break
        if len(texts) == 2:
            return texts, [tokenizer.encode(text).ids for text in texts]
    sys.exit(f"{arguments.text}: expected two lines of {PROMPT} tokens or more, found {len(texts)}")


def compare_texts(arguments):
    model = arguments.model or str(write_model("gpt2-small", arguments.vocabulary, arguments.scratch / "gpt2-small"))
    base = Path(model).resolve().name
    texts, ids = prompts_of(arguments, model)

    def ours(form):
        return lambda threads: qkv_generate(arguments, model, form, threads, texts, NEW)

    def gguf_of(form):
        if form not in FORMS:
            return arguments.gguf
        file = arguments.scratch / f"{base}-{form}.gguf"
        return str(write_form(arguments.gguf, form, file) if arguments.gguf else write_gguf(model, form, file))

    def theirs(peer, form):
        file = gguf_of(form) if peer == "llama.cpp" else None
        return lambda threads: run_worker(__file__, {"peer": peer, "model": model, "file": file, "threads": threads,
                                                     "first": (ids[0], 1), "warm": (ids[0], NEW), "work": (ids[1], NEW)})

    sides = {"qkv f32": ours("f32"), "transformers f32": theirs("transformers", "f32"), "qkv bf16": ours("bf16"), "qkv int8": ours("int8")}
    if not arguments.no_llama and (arguments.gguf or not arguments.model):
        forms = (*FORMS, "as it is") if arguments.gguf else FORMS
        sides |= {f"llama.cpp {form}": theirs("llama.cpp", form) for form in forms}
        # qkv reads the files too: weights in blocks, without a conversion.
        for form in ("q8_0", "as it is") if arguments.gguf else ():
            file = gguf_of("int8" if form == "q8_0" else form)
            sides[f"qkv {form}"] = lambda threads, file=file: qkv_generate(arguments, file, None, threads, texts, NEW)
    table("Generation", ["program", "threads", "tokens/s", "ms/token", "load ms", "peak MB", "the same"])
    rates = {}
    for threads in arguments.thread_counts:
        runs = {name: [] for name in sides}
        for _ in range(arguments.rounds):
            for name, run in sides.items():
                runs[name].append(run(threads))
        expected = runs["qkv f32"][0]["found"]
        for name, of_name in runs.items():
            rates[name, threads] = NEW / median(of_name, "seconds")
            same = f"{first_equal(of_name[0]['found'], expected)} of {NEW}" if name != "qkv f32" else ""
            row(name, threads, f"{rates[name, threads]:.1f}", f"{1000 / rates[name, threads]:.2f}",
                f"{median(of_name, 'load_ms'):.0f}", f"{median(of_name, 'peak_mb'):.0f}", same)
    table("Ratios of the medians", ["programs", "threads", "rate"])
    for name in sides:
        form = name.split()[-1]
        for threads in arguments.thread_counts:
            if name.startswith("qkv"):
                continue
            pairs = {"int8": ("int8", "q8_0"), "is": ("as it is",)}.get(form, (form,))
            for own in (pair for pair in pairs if (f"qkv {pair}", threads) in rates):
                row(f"qkv {own}, {name}", threads, f"{rates[f'qkv {own}', threads] / rates[name, threads]:.2f}")


def compare_lengths(arguments):
    model = str(write_model("llama-small", arguments.vocabulary, arguments.scratch / "llama-small"))
    window = 64
    prompt, new = " ".join(["a"] * PROMPT), arguments.longest + window - PROMPT
    columns = []
    for form in arguments.forms:
        command = [arguments.qkv, "generate", model, "--dtype", form, "--threads", max(arguments.thread_counts), prompt,
                   "--sample", "--top-k", 40, "--max-new-tokens", new, "--min-new-tokens", new]
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)
        times = []
        while os.read(process.stdout.fileno(), 65536):
            times.append(time.perf_counter())
        if process.wait() != 0:
            sys.exit(f"qkv: exit status {process.returncode}")
        times = times[1:]  # the prompt
        # Incomplete characters are held back, so there are slightly fewer pieces than tokens.
        pieces = len(times) / new
        milliseconds = {}
        for before in (2 ** power for power in range(5, arguments.longest.bit_length())):
            first = int((before - PROMPT) * pieces)
            last = min(first + int(window * pieces), len(times) - 1)
            milliseconds[before] = 1000 * (times[last] - times[first]) / (last - first) * pieces
        columns.append(milliseconds)
    table("Time by number of preceding tokens", ["tokens before", *(f"{form}, ms/token" for form in arguments.forms)],
          ((before, *(f"{column[before]:.2f}" for column in columns)) for before in columns[0]))


def compare_translations(arguments):
    lines = Path(arguments.text).read_text(encoding="utf-8").splitlines()[:arguments.lines]
    table(f"Translation of {len(lines)} lines", ["beam", "threads", "mode", "program", "lines/s", "load ms", "peak MB", "equal texts"])
    for beam in (1, 4):
        for threads in arguments.thread_counts:
            for batch in (1, 32):
                runs = {"qkv": [], "transformers": []}
                for _ in range(arguments.rounds):
                    runs["qkv"].append(qkv_translate(arguments, beam, threads, lines, batch))
                    runs["transformers"].append(run_worker(__file__, {
                        "peer": "marian", "model": arguments.marian, "threads": threads, "beam": beam, "first": (lines[:1], 1),
                        "warm": (lines[1:2], 1), "work": (lines, batch)}))
                what = beam, threads, "one line" if batch == 1 else "batched"
                for name, of_name in runs.items():
                    row(*what, name, f"{len(lines) / median(of_name, 'seconds'):.1f}", f"{median(of_name, 'load_ms'):.0f}",
                        f"{median(of_name, 'peak_mb'):.0f}", "")
                equal = sum(a == b for a, b in zip(runs["qkv"][0]["found"], runs["transformers"][0]["found"]))
                ratios = [theirs["seconds"] / ours["seconds"] for ours, theirs in zip(runs["qkv"], runs["transformers"])]
                row(*what, "ratio", spread(ratios), "", "", f"{equal} of {len(lines)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", nargs="+", choices=("texts", "lengths", "translations"), default=["texts", "lengths"],
                        help="(default: texts lengths)")
    parser.add_argument("--vocabulary", help="a folder with GPT-2's vocab.json and merges.txt")
    parser.add_argument("--model", help="a language model folder instead of the random one")
    parser.add_argument("--gguf", help="the same model for llama.cpp")
    parser.add_argument("--text", help="a file of English text, one sentence per line")
    parser.add_argument("--marian", help="a Marian folder, for translations")
    parser.add_argument("--lines", type=int, default=100, help="number of lines to translate (default: %(default)s)")
    parser.add_argument("--qkv", default="build/release/bin/qkv", help="the program (default: %(default)s)")
    parser.add_argument("--scratch", default="build/compare_generation",
                        help="folder for the models, which later runs reuse (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--thread-counts", type=int, nargs="+", default=[1, 2], help="(default: 1 2)")
    parser.add_argument("--forms", nargs="+", default=["f32", "int8"], choices=FORMS,
                        help="weight dtypes of the lengths comparison (default: f32 int8)")
    parser.add_argument("--longest", type=int, default=4096, help="maximum context length (default: %(default)s)")
    parser.add_argument("--no-llama", action="store_true", help="skip llama.cpp")
    arguments = parser.parse_args()
    arguments.scratch = Path(arguments.scratch)
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    for what in arguments.what:
        {"texts": compare_texts, "lengths": compare_lengths, "translations": compare_translations}[what](arguments)


if __name__ == "__main__":
    worker(sys.argv[2]) if sys.argv[1:2] == ["--worker"] else main()
