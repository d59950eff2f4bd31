"""Training tokenizers with qkv and with PyPI's `tokenizers` on the same text: equal words, time and memory.

    python bench/compare_tokenizer_training.py --qkv build/release/bin/qkv --vocab-size 8000 book.txt [train.en train.de ...]

Needs tokenizers and transformers. All files together are one corpus. Prints for each kind

- the share of the corpus' words that both tokenize alike, of all words and of distinct ones: equal ids for bpe, equal pieces for
  wordpiece. PyPI's WordPieceTrainer numbers the characters within words (##a) by the order of a hash map, which changes from run to
  run, and chooses among equally frequent pairs by these numbers; so two of its own runs are compared too, several times;
- the time of the whole process, and its peak memory;
- for each file that qkv writes, whether PyPI's tokenizers and transformers give the same ids as `qkv tokenize` on every line.
"""

import argparse
import collections
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import row, run_measured, table

TRAIN = """
import json, sys
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
kind, size, frequency, lowercase, out, *files = json.loads(sys.argv[1])
if kind == "bpe":
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=frequency, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
else:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=size, min_frequency=frequency, show_progress=False,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
tokenizer.train(files, trainer)
tokenizer.save(out)
"""


def measured(command):
    """Seconds and peak MB of a process."""
    began = time.perf_counter()
    _, megabytes = run_measured(command)
    return time.perf_counter() - began, megabytes


def by_peer(kind, options, out, files):
    told = [kind, options.vocab_size, options.min_frequency, not options.cased, str(out), *files]
    return measured([sys.executable, "-c", TRAIN, json.dumps(told)])


def by_qkv(kind, options, out, files):
    command = [options.qkv, "train-tokenizer", "--kind", kind, "--quiet", "--overwrite", "--out", str(out), *files]
    if kind != "chars":
        command += ["--vocab-size", str(options.vocab_size)]
    if kind in ("wordpiece", "bpe"):
        command += ["--min-frequency", str(options.min_frequency)]
    if kind == "wordpiece" and options.cased:
        command.append("--cased")
    return measured(command)


def counted_words(tokenizer, lines):
    counts = collections.Counter()
    for line in lines:
        text = tokenizer.normalizer.normalize_str(line) if tokenizer.normalizer else line
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    return counts


def shares(kind, one, other, counts):
    """Shares of words tokenized alike: of all, of distinct ones; and the first words with a difference."""
    def of(tokenizer, word):
        tokens = tokenizer.model.tokenize(word)
        return [token.id for token in tokens] if kind == "bpe" else [token.value for token in tokens]
    equal = distinct = 0
    different = []
    for word, count in counts.most_common():
        if of(one, word) == of(other, word):
            equal += count
            distinct += 1
        else:
            different.append(word)
    return equal / counts.total(), distinct / len(counts), different[:3]


def check_ids(options, folder, lines):
    """Whether tokenizers, transformers and qkv give the same ids."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer
    content = "".join(line + "\n" for line in lines)
    result = subprocess.run([options.qkv, "tokenize", str(folder), "--ids"], input=content.encode(), capture_output=True, check=True)
    own = [list(map(int, line.split())) for line in result.stdout.decode().splitlines()]
    peer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pypi = [encoding.ids for encoding in peer.encode_batch(lines)]
    transformers = AutoTokenizer.from_pretrained(folder)(lines)["input_ids"]
    return sum(a == b for a, b in zip(own, pypi)), sum(a == b for a, b in zip(own, transformers)), len(lines)


def main():
    from tokenizers import Tokenizer
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--qkv", required=True)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--min-frequency", type=int, default=2)
    parser.add_argument("--cased", action="store_true")
    parser.add_argument("--runs", type=int, default=3, help="PyPI's runs of wordpiece")
    options = parser.parse_args()
    content = [Path(file).read_bytes().decode() for file in options.files]
    lines = [line for text in content for line in text.split("\n")]
    ended = [line + "\n" for line in lines]
    size = f"{len(lines)} lines, {sum(len(text.encode()) for text in content) / 1e6:.1f} MB, vocabulary {options.vocab_size}"
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        table(size, ["kind", "qkv, s", "PyPI, s", "qkv, MB", "PyPI, MB", "equal words", "equal distinct words", "PyPI with itself"])
        for kind in ("wordpiece", "bpe"):
            seconds, megabytes = by_qkv(kind, options, scratch / kind, options.files)
            own = Tokenizer.from_file(str(scratch / kind / "tokenizer.json"))
            counts = counted_words(own, ended)
            found, peers, measures = [], [], []
            for run in range(options.runs if kind == "wordpiece" else 1):
                measures.append(by_peer(kind, options, scratch / "peer.json", options.files))
                peers.append(Tokenizer.from_file(str(scratch / "peer.json")))
                found.append(shares(kind, own, peers[-1], counts))
            itself = [shares(kind, a, b, counts) for a, b in zip(peers, peers[1:])]
            span = lambda values: " ".join(sorted({f"{100 * value:.3f} %" for value in values})) or "-"
            best_seconds, best_megabytes = map(min, zip(*measures))
            row(kind, f"{seconds:.2f}", f"{best_seconds:.2f}", f"{megabytes:.0f}", f"{best_megabytes:.0f}", span(f[0] for f in found),
                span(f[1] for f in found), span(f[0] for f in itself))
            for word in found[0][2]:
                print(f"  different: {word!r}: {[t.value for t in own.model.tokenize(word)]} "
                      f"{[t.value for t in peers[0].model.tokenize(word)]}", file=sys.stderr)
        table(size, ["kind", "tokens", "qkv, s", "lines with the ids of tokenizers", "of transformers", "lines"])
        for kind in ("wordpiece", "bpe", "unigram", "chars"):
            seconds, _ = by_qkv(kind, options, scratch / kind, options.files)
            tokens = Tokenizer.from_file(str(scratch / kind / "tokenizer.json")).get_vocab_size()
            pypi, transformers, total = check_ids(options, scratch / kind, [line.rstrip("\r") for line in lines])
            row(kind, tokens, f"{seconds:.2f}", pypi, transformers, total)


if __name__ == "__main__":
    main()
