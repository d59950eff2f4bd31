"""Training steps of `qkv train translation` and of PyTorch, the same model on the same data, in turn.

    python bench/compare_training.py --src train.en --tgt train.de --qkv build/release/bin/qkv --threads 2

needs torch, transformers, sentencepiece and tensorboard from PyPI. Both train the preset's encoder-decoder (three-way
tied embeddings, dropout, label smoothing, Adam, clipping at norm 1, a moving average of the weights on both sides) from
the same vocabulary, in batches of the same token budget made of pairs of similar length. qkv runs them ragged, PyTorch
padded, as each does by nature; tokens are those of the text, padding does not count. The peers are torch.nn.Transformer
(--peer nn) and transformers' MarianMTModel (--peer marian), with PyTorch's fused Adam.

Runs alternate (qkv, PyTorch, qkv, PyTorch, ...), each in a process of its own; medians are printed. The first steps of
each run do not count. Peak memory is the process's resident set; what PyTorch's libraries and the corpus in Python's lists
hold of it before the first step is printed too.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WARMUP = 10  # steps that do not count; also qkv's log_every


def run_measured(command):
    """Runs a command; gives its standard output and its peak resident memory in MB."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        if process.returncode != 0:
            sys.exit(f"{command[0]}: exit status {process.returncode}\n{err.read().decode(errors='replace')[-2000:]}")
        return out.read().decode(), usage.ru_maxrss / 1024


# --- qkv ----------------------------------------------------------------------------------------------------------------


def qkv_command(arguments, folder, steps, *more):
    return [arguments.qkv, "train", "translation", "--src", arguments.src, "--tgt", arguments.tgt, "--out", folder,
            "--overwrite", "--preset", arguments.preset, "--batch-tokens", arguments.batch_tokens, "--max-steps", steps,
            "--set", f"log_every={WARMUP}", "--set", f"dropout={arguments.dropout}", "--checkpoint-minutes", "0",
            "--threads", arguments.threads, *more]


def qkv_round(arguments, folder):
    command = qkv_command(arguments, folder, arguments.steps + WARMUP, "--vocab",
                          arguments.vocabulary / "source.spm", "--json")
    _, memory = run_measured(command)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(folder / "runs"))
    events.Reload()
    rates = [event for event in events.Scalars("train/tokens_per_second")]
    first, last = rates[0], rates[-1]  # the first window is the warm-up
    milliseconds = 1000 * (last.wall_time - first.wall_time) / (last.step - first.step)
    return {"ms_per_step": milliseconds, "tokens_per_s": statistics.mean(event.value for event in rates[1:]),
            "peak_mb": memory}


# --- PyTorch ------------------------------------------------------------------------------------------------------------


def read_pairs(arguments):
    import sentencepiece
    folder = Path(arguments.vocabulary)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    numbers = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    unknown, eos = numbers["<unk>"], numbers["</s>"]
    sides = [[[numbers.get(piece, unknown) for piece in pieces] for pieces in
              processor.encode(Path(path).read_text(encoding="utf-8").splitlines(), out_type=str)]
             for path in (arguments.src, arguments.tgt)]
    pairs = [(source + [eos], target + [eos]) for source, target in zip(*sides) if source and target]
    return pairs, len(numbers), numbers["<pad>"]


def token_batches(pairs, budget, seed):
    """Batches of at most `budget` source and target tokens, of similar lengths, in random order, without end."""
    order = random.Random(seed)
    while True:
        shuffled = order.sample(pairs, len(pairs))
        batches = []
        for begin in range(0, len(shuffled), 8192):
            batch, tokens = [], 0
            for pair in sorted(shuffled[begin:begin + 8192], key=lambda pair: (len(pair[1]), len(pair[0]))):
                length = len(pair[0]) + len(pair[1])
                if batch and tokens + length > budget:
                    batches.append(batch)
                    batch, tokens = [], 0
                batch.append(pair)
                tokens += length
            batches.append(batch)
        order.shuffle(batches)
        yield from batches


def make_peer(arguments, config, vocabulary, pad):
    """The model as a function (source, target inputs, padded; where they are padding) -> logits."""
    import torch
    from torch import nn
    if arguments.peer == "marian":
        from transformers import MarianConfig, MarianMTModel
        model = MarianMTModel(MarianConfig(
            vocab_size=vocabulary, pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0,
            **{key: config[key] for key in
               ("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads",
                "encoder_ffn_dim", "decoder_ffn_dim", "activation_function", "scale_embedding", "dropout")}))

        def forward(source, inputs, source_pad, _):
            return model(input_ids=source, attention_mask=~source_pad, decoder_input_ids=inputs, use_cache=False).logits

        return model, forward

    d_model = config["d_model"]

    class Peer(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(vocabulary, d_model)
            nn.init.normal_(self.table.weight, std=d_model ** -0.5)
            self.dropout = nn.Dropout(config["dropout"])
            self.transformer = nn.Transformer(
                d_model, config["encoder_attention_heads"], config["encoder_layers"], config["decoder_layers"],
                config["encoder_ffn_dim"], config["dropout"], config["activation_function"], batch_first=True)
            angle = torch.arange(512)[:, None] / 10000.0 ** (torch.arange(0, d_model, 2) / d_model)
            self.register_buffer("positions", torch.cat([angle.sin(), angle.cos()], -1))

        def embed(self, ids):
            return self.dropout(self.table(ids) * d_model ** 0.5 + self.positions[:ids.shape[1]])

        def forward(self, source, inputs, source_pad, target_pad):
            causal = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1]).isinf()
            hidden = self.transformer(self.embed(source), self.embed(inputs), tgt_mask=causal, tgt_is_causal=True,
                                      src_key_padding_mask=source_pad, memory_key_padding_mask=source_pad,
                                      tgt_key_padding_mask=target_pad)
            return hidden @ self.table.weight.T

    model = Peer()
    return model, model


def torch_worker(arguments):
    import torch
    from torch.nn import functional as F
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    config = json.loads(Path(arguments.config).read_text())
    pairs, vocabulary, pad = read_pairs(arguments)
    model, forward = make_peer(arguments, config, vocabulary, pad)
    model.train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    average = [parameter.detach().clone() for parameter in parameters]
    optimizer = torch.optim.Adam(parameters, lr=1e-3, betas=(0.9, 0.98), eps=1e-9, fused=True)
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def padded(rows):
        length = max(map(len, rows))
        return torch.tensor([row + [pad] * (length - len(row)) for row in rows])

    tokens, begin = 0, None
    for step, batch in enumerate(token_batches(pairs, arguments.batch_tokens, seed=1)):
        if step == WARMUP:
            tokens, begin = 0, time.perf_counter()
        if step == WARMUP + arguments.steps:
            break
        source, labels = padded([pair[0] for pair in batch]), padded([pair[1] for pair in batch])
        inputs = torch.cat([torch.full((len(batch), 1), pad), labels[:, :-1]], 1)
        target_pad = labels == pad
        logits = forward(source, inputs, source == pad, target_pad)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=pad, label_smoothing=0.1)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch._foreach_lerp_(average, parameters, 0.001)
        tokens += sum(len(source) + len(target) for source, target in batch)
    seconds = time.perf_counter() - begin
    print(json.dumps({"ms_per_step": 1000 * seconds / arguments.steps, "tokens_per_s": tokens / seconds,
                      "idle_mb": idle, "loss": float(loss.detach())}))


def torch_round(arguments, config):
    out, memory = run_measured([sys.executable, __file__, "--worker", "--config", config, "--src", arguments.src,
                                "--tgt", arguments.tgt, "--vocabulary", arguments.vocabulary, "--peer", arguments.peer,
                                "--batch-tokens", arguments.batch_tokens, "--steps", arguments.steps,
                                "--threads", arguments.threads])
    return json.loads(out.splitlines()[-1]) | {"peak_mb": memory}


def compare(arguments):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "prepared"
        run_measured(qkv_command(arguments, folder, 1))
        arguments.vocabulary = folder
        config = folder / "config.json"
        results = {"qkv": [], arguments.peer: []}
        for round_ in range(arguments.rounds):
            results["qkv"].append(qkv_round(arguments, Path(scratch) / f"round{round_}"))
            results[arguments.peer].append(torch_round(arguments, config))
            for name, rows in results.items():
                print(f"round {round_ + 1} {name}: {rows[-1]['tokens_per_s']:.0f} tokens/s", file=sys.stderr)

    def median(name, key):
        return statistics.median(row[key] for row in results[name])

    print(f"preset {arguments.preset}, {arguments.batch_tokens} tokens a batch, {arguments.threads} threads, "
          f"{arguments.rounds} rounds of {arguments.steps} steps\n")
    print("| | tokens/s | ms/step | peak MB |\n| --- | --- | --- | --- |")
    names = {"qkv": "qkv", "nn": "PyTorch nn.Transformer", "marian": "transformers MarianMTModel"}
    for name in results:
        print(f"| {names[name]} | {median(name, 'tokens_per_s'):.0f} | {median(name, 'ms_per_step'):.0f} | "
              f"{median(name, 'peak_mb'):.0f} |")
    ratios = [a["tokens_per_s"] / b["tokens_per_s"] for a, b in zip(results["qkv"], results[arguments.peer])]
    print(f"| ratio (median of {len(ratios)}, {min(ratios):.2f} to {max(ratios):.2f}) | {statistics.median(ratios):.2f} | "
          f"{median('qkv', 'ms_per_step') / median(arguments.peer, 'ms_per_step'):.2f} | "
          f"{median('qkv', 'peak_mb') / median(arguments.peer, 'peak_mb'):.2f} |")
    print(f"\nPyTorch's process held {median(arguments.peer, 'idle_mb'):.0f} MB before its first step.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", required=True, help="training text, a sentence a line")
    parser.add_argument("--tgt", required=True, help="its translation")
    parser.add_argument("--qkv", default="build/release/bin/qkv", help="the program (default: %(default)s)")
    parser.add_argument("--preset", default="small", help="(default: %(default)s)")
    parser.add_argument("--peer", choices=("nn", "marian"), default="nn", help="(default: %(default)s)")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="source and target (default: %(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="that count, in each round; tens (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--config", help=argparse.SUPPRESS)
    parser.add_argument("--vocabulary", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.steps < WARMUP or arguments.steps % WARMUP != 0:
        parser.error(f"--steps: expected a multiple of {WARMUP}, found {arguments.steps}")
    torch_worker(arguments) if arguments.worker else compare(arguments)


if __name__ == "__main__":
    main()
