"""Compares `qkv tokenize` with PyPI's `tokenizers` on random and adversarial texts: ids, offsets, type ids, masks and decoded
texts must be equal.

    python tests/interop/compare_tokenizers.py --qkv build/release/bin/qkv --count 100000 tests/text/golden/*.json \
        ../shared/tokenizers/bert_uncased ../shared/tokenizers/gpt2

    python tests/interop/compare_tokenizers.py --qkv build/release/bin/qkv --xlm-roberta ../shared/data/multi30k/train.de

--xlm-roberta trains a SentencePiece model on a text and compares the tokenizer.json that XLM-R's classes make of it: transformers
5's, and transformers 4's converter's.

Arguments are tokenizer.json files, or folders that transformers opens (a BERT vocab.txt; a GPT-2 vocab.json with merges.txt).
Texts consist of words, parts of other texts, emoji, combining marks, CJK, Arabic, control characters, special tokens, and
invalid UTF-8 (U+FFFD on both sides). Characters for which the reference's tables (Unicode 8 to 17) and utf8proc's (Unicode 15)
differ are omitted; --tables lists them.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

WORDS = ("the of and to in is was he for it with as his on be at by I this had not are but from or have an they which one you "
         "were her all she there would their we him been has when who will more no if out so said what up its about into than "
         "them can only other new some could time these two may then do first any my now such like our over man me even most "
         "made after also did many before must through back years where much your way well down should because each just those "
         "people how too little state good very make world still own see men work long get here between both life being under "
         "unbelievable tokenization Straße naïve coöperate don't I'll we've they'd HELLO CamelCase snake_case 3.14 1,000 a@b.c "
         "http://x.org/?q=1&r=2 [MASK] [SEP] [CLS] [PAD] [UNK] <s> </s> <mask> <pad> <unk> <|endoftext|> <|begin|> <0x41> ## Ġ ▁").split()
SPACES = [" "] * 12 + ["  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2003", "\u2028", "\u200b", "\ufeff", "   ", ""]
BLOCKS = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x530, 0x700), (0x900, 0xE80), (0x1100, 0x1200),
          (0x1E00, 0x2000), (0x2000, 0x2070), (0x2070, 0x2700), (0x3040, 0x3200), (0x3200, 0x3400), (0x4E00, 0x5200),
          (0xAC00, 0xAD00), (0xE000, 0xE010), (0xF900, 0xFB00), (0xFB00, 0xFE00), (0xFE00, 0xFF00), (0xFF00, 0x10000),
          (0x1D400, 0x1D800), (0x1F300, 0x1F700), (0x1F900, 0x1FA00), (0x20000, 0x20100), (0, 0x20), (0x7F, 0xA0)]
EMOJI = ["👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "❤️", "☺", "🫠", "1️⃣"]
MARKS = [chr(c) for c in (0x300, 0x301, 0x308, 0x323, 0x327, 0x345, 0x5B0, 0x64B, 0x93C, 0x94D, 0xE38, 0x20DD, 0x3099, 0xFE0F)]
BROKEN = [b"\xff", b"\xc3", b"\xe4\xb8", b"\xf0\x9f\x91", b"\xed\xa0\x80", b"\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"]


def characters():
    return (chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def differing_characters():
    """Characters for which the tables of the two sides differ, or the reference's tables contradict each other."""
    differing = set()
    accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    marks, lower = normalizers.StripAccents(), normalizers.Lowercase()
    punctuation, digits = pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)
    classes = {name: pre_tokenizers.Split(Regex(expression), "isolated") for name, expression in
               (("L", r"\p{L}"), ("N", r"\p{N}"), ("s", r"\s"), ("w", r"\w"))}
    forms = {"NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(), "NFKD": normalizers.NFKD()}
    ascii_signs = set("$+<=>^`|~")
    for c in characters():
        category = unicodedata.category(c)
        if category == "Cn":
            differing.add(c)  # not assigned in Python's Unicode; newer tables may have it
            continue
        inside = "\x01" + c + "\x01"
        parts = {name: len(split.pre_tokenize_str(inside)) > 1 for name, split in classes.items()}
        is_punctuation = category[0] == "P" or c in ascii_signs
        # Compares current Unicode properties with the reference.
        said = [(category == "Mn", accents.normalize_str(c) == ""), (category[0] == "M", marks.normalize_str(c) == ""),
                (is_punctuation, len(punctuation.pre_tokenize_str("a" + c + "a")) > 1),
                (category[0] == "N", len(digits.pre_tokenize_str("a" + c + "a")) > 1),
                (category in ("Cc", "Cf", "Co") and c not in "\t\n\r" or c == "\ufffd", clean.normalize_str("a" + c + "a") == "aa"),
                (c.lower(), lower.normalize_str(c)), (category[0] == "L", parts["L"]), (category[0] == "N", parts["N"])]
        said += [(unicodedata.normalize(form, c), normalizer.normalize_str(c)) for form, normalizer in forms.items()]
        if any(expected != found for expected, found in said):
            # A difference due to decomposition alone does not count.
            if said[0][0] != said[0][1] and unicodedata.normalize("NFD", c) != c and said[1:] == [(a, a) for a, _ in said[1:]]:
                continue
            differing.add(c)
    return differing


def random_text(rng, allowed):
    parts = []
    for _ in range(rng.choice((0, 1, 2, 4, 8, 16, 30))):
        kind = rng.random()
        if kind < 0.5:
            parts.append(rng.choice(WORDS).encode())
        elif kind < 0.6:
            low, high = rng.choice(BLOCKS)
            parts.append("".join(chr(c) for c in (rng.randrange(low, high) for _ in range(rng.randrange(1, 6)))
                                 if not 0xD800 <= c < 0xE000).encode())
        elif kind < 0.68:
            parts.append("".join(rng.choice("aeionuAEO ") + rng.choice(MARKS) * rng.randrange(1, 3) for _ in range(3)).encode())
        elif kind < 0.73:
            parts.append(rng.choice(EMOJI).encode())
        elif kind < 0.78:
            parts.append("".join(rng.choice(allowed) for _ in range(rng.randrange(1, 5))).encode())
        elif kind < 0.80:
            parts.append(rng.choice(BROKEN))
        elif kind < 0.83:
            parts.append((rng.choice(WORDS)[0] * rng.randrange(1, 200)).encode())
        if rng.random() < 0.8:
            parts.append(rng.choice(SPACES).encode())
    return b"".join(parts).replace(b"\0", b"\1")  # a zero byte separates texts


def byte_positions(raw, decoded):
    """The byte position of each decoded character."""
    positions, at = [], 0
    for character in decoded:
        positions.append(at)
        size = len(character.encode())
        if character == "\ufffd" and raw[at:at + 3] != b"\xef\xbf\xbd":
            size = 1
            while raw[at:at + size + 1].decode("utf-8", "replace") == "\ufffd" and at + size < len(raw):
                size += 1
        at += size
    return positions + [at]


def run(qkv, arguments, texts):
    result = subprocess.run([qkv, "tokenize", *arguments, "--json", "--null"], input=b"".join(t + b"\0" for t in texts),
                            capture_output=True)
    if result.returncode != 0:
        sys.exit(result.stderr.decode())
    return [json.loads(line) for line in result.stdout.splitlines()]


def load(path):
    if path.is_file():
        tokenizer = Tokenizer.from_file(str(path))
    else:
        import transformers
        kind = "BertTokenizer" if (path / "vocab.txt").exists() else "GPT2Tokenizer"
        tokenizer = getattr(transformers, kind).from_pretrained(path).backend_tokenizer
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def trained_xlm_roberta(text, folder):
    """Two tokenizer.json of XLM-R's kind, of 4,000 pieces and the characters of NFKC."""
    import sentencepiece
    from transformers import XLMRobertaTokenizer
    from transformers.utils import sentencepiece_model_pb2_new as proto
    sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(folder / "sentencepiece"), vocab_size=4000,
                                             normalization_rule_name="nmt_nfkc", minloglevel=2)
    parsed = proto.ModelProto.FromString((folder / "sentencepiece.model").read_bytes())
    pieces = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces += [(piece.piece, piece.score) for piece in parsed.pieces[3:]] + [("<mask>", 0.0)]
    charsmap = parsed.normalizer_spec.precompiled_charsmap
    paths = [folder / "xlm_roberta.json", folder / "xlm_roberta_converted.json"]
    tokenizer = XLMRobertaTokenizer(vocab=pieces, _spm_precompiled_charsmap=charsmap).backend_tokenizer
    tokenizer.save(str(paths[0]))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.save(str(paths[1]))
    return paths


def compare(path, texts, qkv):
    tokenizer = load(path)
    found = run(qkv, [str(path)], texts)
    decoded_texts = [text.decode("utf-8", "replace") for text in texts]
    expected = tokenizer.encode_batch(decoded_texts)
    reference_text = tokenizer.decode_batch([e.ids for e in expected])
    own_text = run(qkv, [str(path), "--decode"], [" ".join(map(str, e.ids)).encode() for e in expected])
    differences, tokens = 0, 0
    for raw, decoded, one, other, text, own in zip(texts, decoded_texts, found, expected, reference_text, own_text):
        places = byte_positions(raw, decoded)
        offsets = [[places[b], places[e]] if s is not None else [0, 0]
                   for (b, e), s in zip(other.offsets, other.sequence_ids)]
        tokens += len(other.ids)
        for what, a, b in (("ids", one["ids"], other.ids), ("offsets", one["offsets"], offsets),
                           ("type ids", one["type_ids"], other.type_ids),
                           ("special mask", one["special_mask"], other.special_tokens_mask), ("text", own["text"], text)):
            if a != b:
                differences += 1
                if differences <= 5:
                    print(f"{path}: {what} of {raw!r}\n  qkv       {a}\n  reference {b}", file=sys.stderr)
                break
    return differences, tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizers", nargs="*", type=Path)
    parser.add_argument("--xlm-roberta", type=Path, metavar="TEXT")
    parser.add_argument("--qkv")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", action="store_true", help="list the assigned characters that are omitted")
    arguments = parser.parse_args()
    differing = differing_characters()
    if arguments.tables:
        assigned = sorted(c for c in differing if unicodedata.category(c) != "Cn")
        print(len(assigned), " ".join(f"{ord(c):X}" for c in assigned))
        return
    allowed = [c for c in characters() if c not in differing and c != "\0"]
    rng = random.Random(arguments.seed)
    table = str.maketrans(dict.fromkeys(differing, "?"))
    texts = []
    for _ in range(arguments.count):
        raw = random_text(rng, allowed)
        # Some generators also draw omitted characters.
        texts.append(raw.decode("utf-8", "surrogateescape").translate(table).encode("utf-8", "surrogateescape"))
    worst = 0
    print("| tokenizer | texts | tokens | differences |\n| --- | --- | --- | --- |")
    scratch = tempfile.TemporaryDirectory()
    trained = trained_xlm_roberta(arguments.xlm_roberta, Path(scratch.name)) if arguments.xlm_roberta else []
    for path in arguments.tokenizers + trained:
        differences, tokens = compare(path, texts, arguments.qkv)
        worst = max(worst, differences)
        print(f"| {path.stem} | {len(texts)} | {tokens} | {differences} |", flush=True)
    sys.exit(worst > 0)


if __name__ == "__main__":
    main()
