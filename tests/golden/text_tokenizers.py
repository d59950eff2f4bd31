"""Writes tests/text/golden/: small tokenizers of every kind, trained on this project's documents, and the results of PyPI's
`tokenizers` with them and with the vocabularies of BERT and GPT-2. tests/text/test_tokenizer_golden.cc compares
qkv::text::Tokenizer with them.

    python tests/golden/text_tokenizers.py --shared ../shared/data/tokenizers

Run from the repository root, with tokenizers, transformers and sentencepiece installed; --shared has bert_uncased/vocab.txt and
gpt2/{vocab.json,merges.txt}. A <name>.json is a tokenizer, <name>.cases.jsonl has one case per line. Offsets are bytes.
"""

import argparse
import io
import json
from pathlib import Path

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

FOLDER = Path("tests/text/golden")
CORPUS = [line for path in ("README.md", "CONTRIBUTING.md", "docs/architecture.md")
          for line in Path(path).read_text(encoding="utf-8").splitlines()]

TEXTS = [
    "", " ", "  ", "\n", "a", "A", ".", "Hello, world!", " Hello", "Hello ", "  two  spaces  ", "tabs\tand\nlines\r\nand more",
    "The quick brown fox jumps over the lazy dog.", "I'll say it's what we've had; they'd've, don't, CAN'T, y'all're",
    "unbelievably internationalization antidisestablishmentarianism", "supercalifragilisticexpialidocious" * 4,
    "naïve café Ångström ÉCOLE straße İstanbul", "e\u0301 a\u0323\u0302 q\u0307\u0323 \u1e9b\u0323 \ufb01 \u2460 \u00bd \u33a5",
    "o\u0323\u0307o\u0307\u0323 a\u05b0\u0591b \u0344 \u1100\u1161\u11a8 \uac01 \u0f73 \u0958",
    "人工智能 和 机器学习。日本語のテキスト、한국어 텍스트", "中a文b", "Привет, мир! Καλημέρα κόσμε ΣΊΣΥΦΟΣ",
    "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया क्षत्रिय", "สวัสดีชาวโลก",
    "👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 ❤️ ☺", "a\u200bb\u200dc\u00add\ufeffe", "no\u00a0break\u2003em\u3000wide\u2028line\u180evowel\u0085next",
    "nul\x00and\x01controls\x1f\x7f\x9f", "\ufffd \ufffe \uffff \U0010ffff \ue000", "x" * 300, "1234567890 3.14 1,000,000 ١٢٣ Ⅳ ²",
    "a_b-c/d\\e@f#g$h%i^j&k*l(m)n+o=p[q]r{s}t|u;v:w\"x'y<z>~`!?", "don't [MASK] me [SEP] [CLS]here[MASK] <s> </s> <mask>  <mask> <unk>",
    "<|endoftext|>x<|endoftext|>", "Wort für Wort", "def f(x):\n    return x ** 2  # squared\n\n\n", "\t\t  mixed \t  white\n \n space   ",
    "a\u0300\u0301\u0302\u0303\u0304", "\u0300leading mark", "ﬃ ﷺ ㋾ ｱﾞ ＡＢＣ", "▁metaspace▁here ▁ ▁▁", "Ġ Ċ letters of bytes",
    "<0x0A> <0xE5>", "ǅ ẞ K Å Ω", "ab\u0345c Ⓐ 🄰 \u16ee \u200c\u200d", " n't . , ? ! do not 've",
]
PAIRS = [("How old are you?", "I'm 6 years old."), ("", "second only"), ("first only", ""), ("[SEP] x", " y [MASK]"), ("é", "中文")]
DECODES = [[], [0], [5, 6, 7, 8], [300, 10, 301], [2, 2, 40, 41, 3], [99, 12, 57, 203, 204, 61, 33]]


def byte_positions(text):
    positions = [0]
    for character in text:
        positions.append(positions[-1] + len(character.encode()))
    return positions


def case(tokenizer, first, second=None, special=True, truncation=None):
    tokenizer.no_truncation()
    record = {"text": first, "special_tokens": special}
    if second is not None:
        record["pair"] = second
    if truncation:
        tokenizer.enable_truncation(**truncation)
        record["truncation"] = truncation
    encoding = tokenizer.encode(first, second, add_special_tokens=special)
    places = [byte_positions(first), byte_positions(second or "")]
    # Special tokens belong to no text.
    offsets = [[places[i][begin], places[i][end]] if i is not None else [0, 0]
               for (begin, end), i in zip(encoding.offsets, encoding.sequence_ids)]
    record |= {"ids": encoding.ids, "offsets": offsets, "type_ids": encoding.type_ids,
               "special_mask": encoding.special_tokens_mask, "decoded": tokenizer.decode(encoding.ids),
               "decoded_special": tokenizer.decode(encoding.ids, skip_special_tokens=False)}
    tokenizer.no_truncation()
    return record


def write_cases(name, tokenizer):
    records = [case(tokenizer, text) for text in TEXTS]
    records += [case(tokenizer, text, special=False) for text in TEXTS[:24:3]]
    records += [case(tokenizer, *pair) for pair in PAIRS] + [case(tokenizer, *pair, special=False) for pair in PAIRS]
    long, short = "one two three four five six seven eight nine", "eins zwei drei"
    for truncation in ({"max_length": 8}, {"max_length": 8, "direction": "left"}):
        records.append(case(tokenizer, long, truncation=truncation))
    for length in (7, 10, 11, 16, 30):
        for texts in ((long, short), (short, long)):
            records.append(case(tokenizer, *texts, truncation={"max_length": length}))
    records.append(case(tokenizer, long, short, truncation={"max_length": 22, "strategy": "only_first"}))
    records.append(case(tokenizer, short, long, truncation={"max_length": 22, "strategy": "only_second", "direction": "left"}))
    size = tokenizer.get_vocab_size()
    for ids in DECODES:
        ids = [i % size for i in ids]
        records.append({"decode": ids, "decoded": tokenizer.decode(ids),
                        "decoded_special": tokenizer.decode(ids, skip_special_tokens=False)})
    with open(FOLDER / f"{name}.cases.jsonl", "w", encoding="utf-8", newline="\n") as out:
        for record in records:
            out.write(json.dumps(record, separators=(",", ":")) + "\n")
    print(f"{name}: {len(records)} cases")


def write(name, tokenizer):
    (FOLDER / f"{name}.json").write_text(tokenizer.to_str(), encoding="utf-8")
    write_cases(name, tokenizer)


def wordpiece():
    """BERT's steps."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_tokens([AddedToken("Hello", single_word=True), AddedToken("fox", normalized=True), AddedToken("café")])
    return tokenizer


def wordpiece_cased():
    """BERT's steps without lower case, and its own post-processor."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return tokenizer


def byte_level():
    """RoBERTa's steps; all bytes are in the vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_level_few():
    """GPT-2's steps; some bytes are not in the vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>"], show_progress=False))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def split_pattern():
    """The steps of newer byte-level vocabularies: NFC, a longer pattern, pieces in the vocabulary are not split."""
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=500, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens(["<|begin|>", "<|endoftext|>"])
    begin = tokenizer.token_to_id("<|begin|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A <|begin|>:1 $B:1",
                                      special_tokens=[("<|begin|>", begin)])])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_fallback():
    """LLaMA's steps: no cuts, spaces are characters, unknown ones are bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)],
                                  show_progress=False, max_token_length=12)
    tokenizer.train_from_iterator([" ".join(CORPUS[i:i + 2]) for i in range(0, len(CORPUS), 2)], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    # In the file, bytes are plain tokens of the model; three tokens are special.
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = content["added_tokens"][:3]
    return Tokenizer.from_str(json.dumps(content))


def word_suffix():
    """The original byte-pair encoding: an end-of-word suffix, unknown characters are tokens."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>"], show_progress=False,
                                                             end_of_word_suffix="</w>"))
    tokenizer.decoder = decoders.BPEDecoder()
    return tokenizer


def train_sentencepiece(**options):
    """A SentencePiece model with a small character map."""
    rules = FOLDER / "rules.tsv"
    pairs = [("ﬁ", "fi"), ("Ａ", "A"), ("…", "..."), ("\u200b", ""), ("e\u0301", "é"), ("½", "1/2"), ("\u00a0", " "), ("\t", " "),
             ("ǆ", "dž"), ("中a", "x")]
    rules.write_text("".join("{}\t{}\n".format(*(" ".join(f"{ord(c):X}" for c in side) for side in pair)) for pair in pairs))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(line for line in CORPUS if line), model_writer=model,
                                             normalization_rule_tsv=str(rules), minloglevel=2, num_threads=1,
                                             character_coverage=0.99, hard_vocab_limit=False, **options)
    rules.unlink()
    return model.getvalue()


def write_sentencepiece(name, **options):
    """Ids, offsets and texts of the sentencepiece library."""
    model = train_sentencepiece(**options)
    (FOLDER / f"{name}.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    records = []
    for text in TEXTS:
        pieces = processor.encode(text, return_type="proto").pieces
        ids = [piece.id for piece in pieces]
        decoded = processor.decode(ids)
        records.append({"text": text, "special_tokens": True, "ids": ids,
                        "offsets": [[piece.begin, piece.end] for piece in pieces], "type_ids": [0] * len(ids),
                        "special_mask": [0] * len(ids), "decoded": decoded, "decoded_special": decoded})
    with open(FOLDER / f"{name}.cases.jsonl", "w", encoding="utf-8", newline="\n") as out:
        for record in records:
            out.write(json.dumps(record, separators=(",", ":")) + "\n")
    print(f"{name}: {len(records)} cases")


def small_charsmap():
    from transformers.utils import sentencepiece_model_pb2_new as proto
    parsed = proto.ModelProto()
    parsed.ParseFromString(train_sentencepiece(vocab_size=200))
    return parsed.normalizer_spec.precompiled_charsmap


def unigram():
    """The steps of T5 and XLM-RoBERTa."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(small_charsmap()),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(CORPUS, trainers.UnigramTrainer(
        vocab_size=500, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def unigram_bytes():
    """Unigram with byte fallback; NFKD, accents and surrounding white space removed."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                       pre_tokenizers.Metaspace(prepend_scheme="first")])
    tokenizer.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>"], unk_token="<unk>",
                                                                  show_progress=False))
    content = json.loads(tokenizer.to_str())
    content["model"]["byte_fallback"] = True
    content["model"]["vocab"] += [[f"<0x{i:02X}>", -20.0] for i in range(256)]
    content["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "▁",
                                                                                    "prepend_scheme": "always", "split": True}]}
    return Tokenizer.from_str(json.dumps(content))


def word_level():
    """Whole words, with all remaining ways of splitting."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\d{4,}"), "#"),
                                                 normalizers.NFD()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Punctuation("contiguous"),
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split(Regex("[aeiou]+"), "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"\w+|\s"), "removed", invert=True)])
    tokenizer.train_from_iterator(CORPUS, trainers.WordLevelTrainer(vocab_size=300, special_tokens=["<unk>"], show_progress=False))
    return tokenizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shared", required=True)
    shared = Path(parser.parse_args().shared)
    FOLDER.mkdir(exist_ok=True)
    for make in (wordpiece, wordpiece_cased, byte_level, byte_level_few, split_pattern, byte_fallback, word_suffix, unigram,
                 unigram_bytes, word_level):
        write(make.__name__, make())
    write_sentencepiece("sentencepiece_unigram", vocab_size=300, pad_id=3)
    write_sentencepiece("sentencepiece_bpe", vocab_size=500, model_type="bpe", byte_fallback=True)
    for name, kind in (("bert_uncased", "BertTokenizer"), ("gpt2", "GPT2Tokenizer")):
        import transformers
        write_cases(name, getattr(transformers, kind).from_pretrained(shared / name).backend_tokenizer)


if __name__ == "__main__":
    main()
