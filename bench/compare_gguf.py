"""The same GGUF files in qkv and in llama.cpp, alternating: one text, eight texts and a prompt.

    python bench/compare_gguf.py FILE.gguf... --qkv build/release/bin/qkv

Needs xllamacpp from PyPI. Greedy, the end token forbidden, no prompt kept from before; tokens/s:

  one text      64 new tokens after a prompt of 32, prompt included
  eight texts   eight such texts at once: qkv reads eight lines, llama.cpp has eight slots
  prompt        a prompt of 512 tokens, up to its first new token

Prints medians of --rounds, and the peak memory of each process in the run of one text (llama.cpp: minus that of Python and its
libraries before the model is loaded; qkv: of `qkv version`).
"""

import argparse
import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measured import LineProcess, reset_peak, resident_mb, row, run_measured, run_worker

PROMPT, NEW, LONG, TEXTS = 32, 64, 512, 8
WORK = {"one text": (1, PROMPT, NEW), "eight texts": (TEXTS, PROMPT, NEW), "prompt": (1, LONG, 1)}


COMMON = "time year people way day man thing woman life child world school state family student group country problem hand part".split()


def prompts(qkv, file, work):
    """Texts of common words, and the ids of exactly that many tokens."""
    texts, tokens, _ = WORK[work]
    lines = [" ".join(COMMON[(i + 7 * j + j // 20) % 20] for j in range(tokens)) for i in range(texts)]
    ids = [[int(one) for one in line.split()] for line in run_measured([qkv, "tokenize", file, "--ids"], lines)[0].splitlines()]
    if any(len(own) not in (tokens, tokens + 1) for own in ids):
        raise SystemExit(f"{file}: expected prompts of {tokens} tokens, found {[len(own) for own in ids]}")
    return lines, ids


def rate(work, seconds):
    texts, prompt, new = WORK[work]
    return (prompt if new == 1 else texts * new) / seconds


def peer_worker(file):
    job = json.loads(Path(file).read_text())
    import xllamacpp
    idle = reset_peak()
    options = xllamacpp.CommonParams()
    options.model.path = job["file"]
    options.n_ctx, options.n_parallel, options.warmup, options.fit_params = TEXTS * 1024, TEXTS, False, False
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = job["threads"]
    if job["work"] != "eight texts":
        options.n_ctx, options.n_parallel = 1024, 1
    server = xllamacpp.Server(options)

    def run(ids, new):
        answer = server.handle_completions({"prompt": ids, "n_predict": new, "temperature": 0, "samplers": ["top_k"], "top_k": 1,
                                            "ignore_eos": True, "cache_prompt": False})
        if answer.get("usage", {}).get("completion_tokens") != new:
            raise SystemExit(f"llama.cpp: expected {new} tokens, found {str(answer)[:500]}")

    run(job["ids"][0][:4], 2)
    texts, _, new = WORK[job["work"]]
    with ThreadPoolExecutor(texts) as pool:
        began = time.perf_counter()
        list(pool.map(lambda ids: run(ids, new), job["ids"]))
        seconds = time.perf_counter() - began
    print(json.dumps({"rate": rate(job["work"], seconds), "memory": resident_mb("VmHWM") - idle}))


def qkv_round(arguments, file, lines, work):
    texts, _, new = WORK[work]
    _, idle = run_measured([arguments.qkv, "version"], [])
    process = LineProcess([arguments.qkv, "generate", file, "--json", "--threads", str(arguments.threads), "--max-new-tokens", str(new),
                           "--min-new-tokens", str(new), "--chunk-lines", str(texts), "--batch-tokens", "0"])
    process.timed_together(["a b"] * texts)
    answers, seconds = process.timed_together(lines)
    if any(len(json.loads(answer)["texts"][0]["ids"]) != new for answer in answers):
        raise SystemExit(f"qkv: expected {new} tokens a text, found {answers}")
    return {"rate": rate(work, seconds), "memory": process.end() - idle}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--qkv", default="build/release/bin/qkv")
    arguments = parser.parse_args()
    row("file", "work", "qkv, tokens/s", "llama.cpp", "ratio", "memory, MB", "llama.cpp")
    row(*["---"] * 7)
    for file in arguments.files:
        for work in arguments.work:
            lines, ids = prompts(arguments.qkv, file, work)
            found = {"qkv": [], "llama.cpp": []}
            for _ in range(arguments.rounds):
                found["qkv"].append(qkv_round(arguments, file, lines, work))
                found["llama.cpp"].append(run_worker(__file__, {"file": file, "threads": arguments.threads, "ids": ids, "work": work}))
            own, peer = ({key: statistics.median(one[key] for one in found[name]) for key in ("rate", "memory")} for name in found)
            row(Path(file).name, work, f"{own['rate']:.1f}", f"{peer['rate']:.1f}", f"{own['rate'] / peer['rate']:.2f}",
                f"{own['memory']:.0f}", f"{peer['memory']:.0f}")


if __name__ == "__main__":
    peer_worker(sys.argv[2]) if sys.argv[1:2] == ["--worker"] else main()
