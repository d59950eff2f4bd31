"""Small tokenizers in the file formats of hub folders: the same kinds, steps and special tokens, but few words."""

import json

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = "the a man dog house sleep runs red blue in of and paris france".split()
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
CLIP_SPLIT = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                r"|\s+(?!\S)|\s+")


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def special(content, **how):
    return AddedToken(content, normalized=False, special=True, **how)


def bert(folder, cased=False, fast=True, truncation=None):
    """vocab.txt, and tokenizer.json where `fast`. truncation: as sentence-transformers writes it."""
    words = [*WORDS, "Paris", "France", "London"] if cased else WORDS
    letters = [*LETTERS, *(letter.upper() for letter in LETTERS), "é", "É"] if cased else LETTERS
    vocabulary = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,'?!", *"12", "中", *letters,
                  *(f"##{letter}" for letter in letters), *words, "##s", "##ing"]
    vocabulary = list(dict.fromkeys(vocabulary))
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    ids = {token: i for i, token in enumerate(vocabulary)}
    if fast:
        tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
        tokenizer.add_special_tokens([special(t) for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")])
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])])
        if truncation:
            tokenizer.enable_truncation(truncation)
            tokenizer.enable_padding(length=truncation, pad_id=0, pad_token="[PAD]")
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return len(vocabulary)


def merges_of(words, end=""):
    """Merges that build each word letter by letter, and all intermediate tokens. end: a suffix of each word's last letter."""
    merges, tokens = [], []
    for word in words:
        made, *letters = [*word[:-1], word[-1] + end]
        for letter in letters:
            if (made, letter) not in merges:
                merges.append((made, letter))
                tokens.append(made + letter)
            made += letter
    return merges, tokens


def byte_level(folder, begin, end, fast=None):
    """vocab.json and merges.txt; fast(tokenizer) completes tokenizer.json."""
    merges, tokens = merges_of([*(f"Ġ{word}" for word in WORDS), "the", "Paris"])
    vocabulary = {token: i for i, token in enumerate([*begin, *BYTES, *dict.fromkeys(tokens), *end])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    if fast:
        tokenizer = Tokenizer(models.BPE(vocabulary, merges))
        fast(tokenizer, vocabulary)
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return len(vocabulary)


def roberta(folder, fast=True):
    def finish(tokenizer, vocabulary):
        tokenizer.add_special_tokens([special(t) for t in ("<s>", "<pad>", "</s>", "<unk>")])
        tokenizer.add_special_tokens([special("<mask>", lstrip=True)])
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", vocabulary["</s>"]), ("<s>", vocabulary["<s>"]), trim_offsets=True, add_prefix_space=False)

    return byte_level(folder, ["<s>", "<pad>", "</s>", "<unk>"], ["<mask>"], finish if fast else None)


def clip(folder, fast=True):
    merges, tokens = merges_of(["photo", "this", "is", "cat", *WORDS], end="</w>")
    vocabulary = [*BYTES, *(byte + "</w>" for byte in BYTES), *dict.fromkeys(tokens), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {token: i for i, token in enumerate(vocabulary)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    if fast:
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix="</w>",
                                         fuse_unk=False, unk_token="<|endoftext|>"))
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(CLIP_SPLIT), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False)])
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens([special("<|startoftext|>"), special("<|endoftext|>")])
        tokenizer.post_processor = processors.RobertaProcessing(
            ("<|endoftext|>", vocabulary["<|endoftext|>"]), ("<|startoftext|>", vocabulary["<|startoftext|>"]),
            trim_offsets=False, add_prefix_space=False)
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return len(vocabulary)


def siglip(folder):
    return len(sentencepiece_file(folder / "spiece.model", [*ENGLISH, "this is a photo of a cat"], 48, pad_id=0, eos_id=1,
                                  unk_id=2, bos_id=-1))


def siglip2(folder):
    """Gemma's kind of tokenizer, with bytes for unknown characters."""
    merges, tokens = merges_of([*(f"▁{word}" for word in ["photo", "this", "is", "cat", *WORDS])])
    vocabulary = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *LETTERS, *",.",
                  *dict.fromkeys(tokens)]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([special(t) for t in ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <eos>", pair="$A <eos> $B <eos>",
                                                             special_tokens=[("<eos>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return len(vocabulary)


def gpt2(folder):
    def finish(tokenizer, vocabulary):
        tokenizer.add_special_tokens([special("<|endoftext|>")])
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)

    return byte_level(folder, [], ["<|endoftext|>"], finish)


def llama3(folder):
    def finish(tokenizer, vocabulary):
        tokenizer.add_special_tokens([special(t) for t in list(vocabulary)[-3:]])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tokenizer.decoder = decoders.ByteLevel()
        begin = "<|begin_of_text|>"
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1",
                                          special_tokens=[(begin, vocabulary[begin])])])

    size = byte_level(folder, [], ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], finish)
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    file = json.loads((folder / "tokenizer.json").read_text())
    file["model"]["ignore_merges"] = True
    (folder / "tokenizer.json").write_text(json.dumps(file, ensure_ascii=False))
    return size


def smollm(folder, more=()):
    def finish(tokenizer, vocabulary):
        tokenizer.add_special_tokens([special(t) for t in (*list(vocabulary)[:3], *more)])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        tokenizer.decoder = decoders.ByteLevel()

    return byte_level(folder, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], [], finish) + len(more)


def llama2(folder, more=()):
    merges, tokens = merges_of([f"▁{word}" for word in WORDS])
    letters = ["▁", *LETTERS, ".", ","]
    vocabulary = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *tokens]
    ids = {token: i for i, token in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.add_special_tokens([special(t) for t in ("<unk>", "<s>", "</s>", *more)])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", ids["<s>"])])
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return len(ids) + len(more)


def gemma(folder, more=()):
    """A space is a part of the word after it, and none is added."""
    merges, tokens = merges_of([*(f"▁{word}" for word in WORDS), *WORDS])
    vocabulary = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "\n", "\n\n", "▁", *LETTERS,
                  ".", ",", *tokens]
    ids = {token: i for i, token in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.BPE(ids, [("\n", "\n"), *merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.add_special_tokens([special(t) for t in ("<pad>", "<eos>", "<bos>", "<unk>", *more)])
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", ids["<bos>"])])
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return len(ids) + len(more)


def sentencepiece_file(path, lines, size, **how):
    text = path.with_suffix(".text")
    text.write_text("\n".join(lines))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(path.with_suffix("")), vocab_size=size, model_type="unigram",
        hard_vocab_limit=False, normalization_rule_name="identity", num_threads=1, minloglevel=2, **how)
    text.unlink()
    path.with_suffix(".vocab").unlink()
    if path.suffix != ".model":
        path.with_suffix(".model").rename(path)
    return sentencepiece.SentencePieceProcessor(str(path))


ENGLISH = [f"{a} {b} {c}." for a in ("the", "a") for b in ("man", "dog", "house") for c in ("sleeps", "runs", "is red")]
GERMAN = [f"{a} {b} {c}." for a in ("der", "ein") for b in ("Mann", "Hund") for c in ("schläft", "läuft", "ist rot")]


def t5(folder, extra=100):
    """spiece.model and tokenizer.json, with sentinels after the pieces."""
    pieces = sentencepiece_file(folder / "spiece.model", [*ENGLISH, "translate English to German: x"], 48, pad_id=0,
                                eos_id=1, unk_id=2, bos_id=-1)
    scored = [(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(len(pieces))]
    scored += [(f"<extra_id_{k}>", 0.0) for k in reversed(range(extra))]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=2, byte_fallback=False))
    tokenizer.add_special_tokens([special(t) for t in ("<pad>", "</s>", "<unk>")])
    tokenizer.add_special_tokens([special(f"<extra_id_{k}>") for k in range(extra)])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return len(scored)


def deberta(folder):
    """spm.model alone, whose first pieces are the special tokens, but for [MASK]."""
    model = sentencepiece_file(folder / "spm.model", [*ENGLISH, "Paris and France"], 48, pad_id=0, bos_id=1, eos_id=2, unk_id=3,
                               pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]")
    return len(model) + 1


def marian(folder, codes=()):
    """source.spm, target.spm and a joint vocab.json with codes of target languages."""
    pieces = []
    for name, lines in (("source.spm", ENGLISH), ("target.spm", GERMAN)):
        model = sentencepiece_file(folder / name, lines, 40)
        pieces += [model.id_to_piece(i) for i in range(len(model)) if not model.is_control(i) and not model.is_unknown(i)]
    vocabulary = ["</s>", "<unk>", *codes, *dict.fromkeys(pieces), "<pad>"]
    write_json(folder / "vocab.json", {piece: i for i, piece in enumerate(vocabulary)})
    return len(vocabulary)
