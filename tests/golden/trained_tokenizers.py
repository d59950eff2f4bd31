"""Writes tests/text/golden/trained_tokenizers.{txt,json}: a small generated text, and what PyPI's `tokenizers` trains on it.
tests/text/test_train_tokenizer.cc compares qkv::text::train_tokenizer with it.

    python tests/golden/trained_tokenizers.py

Run from the repository root, with tokenizers installed. WordPieceTrainer numbers the characters within words (##a) by the order
of a hash map, which changes from run to run, and with it the choice among equally frequent pairs. The vocabularies recorded here
are the same in 20 runs, apart from the numbers.
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

FOLDER = Path("tests/text/golden")
TEXT = FOLDER / "trained_tokenizers.txt"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def text():
    draw = random.Random(7)
    syllables = ["ka", "lo", "mi", "ner", "us", "tä", "ing", "pre", "o", "st", "Éa", "日", "aaa", "x1"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 5))) for _ in range(600)]
    words = [word.capitalize() if draw.random() < 0.2 else word for word in words]
    lines = []
    for _ in range(500):
        line = ""
        for _ in range(draw.randint(0, 9)):
            line += words[int(len(words) * draw.random() ** 3)] + draw.choice([" "] * 8 + [", ", "  ", "-", "'s ", ". "])
        lines.append(line + draw.choice(["", "", "", "!", "👍", "\t", " ...", "\r"]))
    return "\n".join(lines)


def bpe(vocab_size, min_frequency):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train([str(TEXT)], trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(tokenizer.to_str())["model"]
    return {"vocab_size": vocab_size, "min_frequency": min_frequency, "vocab": model["vocab"], "merges": model["merges"]}


def wordpiece(vocab_size, min_frequency, lowercase):
    found = None
    for _ in range(20):
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.train([str(TEXT)], trainers.WordPieceTrainer(
            vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=SPECIAL, show_progress=False))
        pieces = sorted(tokenizer.get_vocab())
        if found is not None and pieces != found:
            sys.exit(f"wordpiece {vocab_size} {min_frequency} {lowercase}: the vocabulary changes from run to run")
        found = pieces
    return {"vocab_size": vocab_size, "min_frequency": min_frequency, "lowercase": lowercase, "pieces": found}


def main():
    TEXT.write_bytes(text().encode())
    golden = {"bpe": [bpe(500, 2), bpe(1200, 3)],
              "wordpiece": [wordpiece(*case) for case in WORDPIECE]}
    (FOLDER / "trained_tokenizers.json").write_text(
        json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(TEXT.stat().st_size, "bytes of text;", *(len(case["merges"]) for case in golden["bpe"]), "merges;",
          *(len(case["pieces"]) for case in golden["wordpiece"]), "pieces")


WORDPIECE = [(250, 2, True), (330, 5, False)]

if __name__ == "__main__":
    main()
