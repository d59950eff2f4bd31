"""Writes tests/pipelines/golden/{bart,nllb,mbart,mbart50,m2m_100,pegasus}: small encoder-decoder folders saved by transformers, and its results.

    python tests/golden/language_folders.py [NAME...]   # needs torch, transformers (5.24 made the committed files) and sentencepiece

The weights are random. expected.json has, for some texts and languages, their ids, and the results of greedy and beam search with
the folder's own options. mbart50 and m2m_100 have the SentencePiece model alone, as on the hub, the others a tokenizer.json.
"""

import json
import os
import shutil
import sys
import warnings
from pathlib import Path

import sentencepiece
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

warnings.filterwarnings("ignore")
ROOT = Path("tests/pipelines/golden")
ENGLISH = "one two three four five six seven eight nine ten".split()
GERMAN = "eins zwei drei vier fünf sechs sieben acht neun zehn".split()
LINES = [f"{a} {b} {c}" for words in (ENGLISH, GERMAN) for a in words for b in words for c in words[:4]]
TEXTS = ["one two three", "fünf sechs, acht", "  nine  Ten ?", "x² ﬁve 人", "seven</s> <mask> one", "a"]
SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>"]  # fairseq's order


def byte_pairs(pre_tokenizer, symbols, **how):
    """(vocabulary, merges) of a trained tokenizer."""
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(special_tokens=symbols, show_progress=False, **how))
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def bart(folder):
    vocabulary, merges = byte_pairs(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
                                    vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    hf.BartTokenizer(vocab=vocabulary, merges=merges).save_pretrained(folder)


def nllb(folder, **how):
    vocabulary, merges = byte_pairs(pre_tokenizers.Metaspace(), SYMBOLS, vocab_size=70)
    hf.NllbTokenizer(vocab=vocabulary, merges=merges, extra_special_tokens=["eng_Latn", "deu_Latn"], **how).save_pretrained(folder)


def pieces(folder):
    """SentencePiece's model as sentencepiece.bpe.model, and its pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    text, prefix = folder / "text", folder / "sentencepiece.bpe"
    text.write_text("\n".join(LINES))
    sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(prefix), vocab_size=40, num_threads=1, minloglevel=2)
    text.unlink()
    (folder / "sentencepiece.bpe.vocab").unlink()
    model = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    return [(model.id_to_piece(i), model.get_score(i)) for i in range(len(model))]


def mbart(folder):
    vocabulary = [(symbol, 0.0) for symbol in SYMBOLS] + pieces(folder)[3:]
    vocabulary += [(code, 0.0) for code in hf.models.mbart.tokenization_mbart.FAIRSEQ_LANGUAGE_CODES] + [("<mask>", 0.0)]
    (folder / "sentencepiece.bpe.model").unlink()
    hf.MBartTokenizer(vocab=vocabulary, src_lang="de_DE").save_pretrained(folder)


def pegasus(folder):
    symbols = ["<pad>", "</s>", "<mask_1>", "<mask_2>"] + [f"<unk_{i}>" for i in range(2, 103)] + ["<unk>"]
    vocabulary = [(symbol, 0.0) for symbol in symbols] + pieces(folder)[3:]
    (folder / "sentencepiece.bpe.model").unlink()
    hf.PegasusTokenizer(vocab=vocabulary).save_pretrained(folder)


def write_config(folder, codes, **config):
    """The tokenizer's settings as on the hub, where special_tokens_map.json has the languages."""
    named = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>", "cls_token": "<s>"}
    if config["tokenizer_class"] != "M2M100Tokenizer":
        named["mask_token"] = {"content": "<mask>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": True}
    (folder / "special_tokens_map.json").write_text(json.dumps(named | {"additional_special_tokens": codes}, indent=1) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(named | config, indent=1) + "\n")


def mbart50(folder):
    pieces(folder)
    write_config(folder, hf.models.mbart50.tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES, tokenizer_class="MBart50Tokenizer",
                 src_lang="de_DE", tgt_lang=None, language_codes="ML50")


def m2m_100(folder):
    names = SYMBOLS + [piece for piece, _ in pieces(folder)[3:]]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}, ensure_ascii=False) + "\n")
    codes = hf.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    write_config(folder, [f"__{code}__" for code in codes], tokenizer_class="M2M100Tokenizer", src_lang=None, tgt_lang=None)


# The class of the model, the tokenizer's writer, options of its generation, and pairs of languages (None: the folder's).
OWN = (None, None)
FOLDERS = {
    "bart": ("Bart", bart, {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True, "min_length": 7, "no_repeat_ngram_size": 2,
                            "forced_bos_token_id": 0, "forced_eos_token_id": 2, "max_length": 22}, [OWN]),
    "nllb": ("M2M100", nllb, {"num_beams": 3, "length_penalty": 0.8, "max_length": 20, "no_repeat_ngram_size": 2},
             [OWN, ("eng_Latn", "deu_Latn"), ("deu_Latn", "eng_Latn"), (None, "eng_Latn")]),
    "mbart": ("MBart", mbart, {"num_beams": 3, "max_length": 18, "forced_eos_token_id": 2, "early_stopping": "never", "no_repeat_ngram_size": 2},
              [OWN, ("en_XX", "ro_RO")]),
    "mbart50": ("MBart", mbart50, {"num_beams": 5, "max_length": 18, "forced_eos_token_id": 2, "early_stopping": True, "min_length": 4,
                                    "no_repeat_ngram_size": 2},
                [OWN, ("en_XX", "de_DE")]),
    "pegasus": ("Pegasus", pegasus, {"num_beams": 4, "length_penalty": 0.8, "max_length": 20, "forced_eos_token_id": 1,
                                     "no_repeat_ngram_size": 2}, [OWN]),
    "m2m_100": ("M2M100", m2m_100, {"num_beams": 2, "max_length": 18, "no_repeat_ngram_size": 2, "encoder_no_repeat_ngram_size": 2}, [OWN, ("de", "en")]),
}


def make_model(folder, family, tokenizer, generation):
    torch.manual_seed({"nllb": 3, "mbart": 7}.get(folder.name, 11))
    # A few more than tokens, as on the hub.
    rows = 3 + (len(tokenizer) if folder.name != "m2m_100" else tokenizer.get_lang_id("zu"))
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    start = {"mbart": tokenizer.convert_tokens_to_ids("ro_RO"), "pegasus": pad}.get(folder.name, eos)
    config = getattr(hf, f"{family}Config")(
        vocab_size=rows, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=40, pad_token_id=pad, bos_token_id=0, eos_token_id=eos,
        decoder_start_token_id=start, scale_embedding=family != "Bart", activation_function="relu")
    model = getattr(hf, f"{family}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:  # Pegasus's sinusoids
                continue
            gain = "norm" in name
            parameter.copy_(torch.randn_like(parameter) * (0.2 if gain else 0.35) + (1 if gain and name.endswith("weight") else 0))
        model.model.shared.weight.mul_(0.5)
        if family != "Bart":
            others = slice(105) if folder.name == "pegasus" else slice(72 if folder.name == "nllb" else 41, None)
            model.model.shared.weight[others].mul_(0.2)  # rather pieces than symbols
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias[0, eos] = 1.0 if family == "Bart" else 0.2  # some outputs end before the limit
    model.generation_config = hf.GenerationConfig(bad_words_ids=[[pad]], decoder_start_token_id=start, pad_token_id=pad, bos_token_id=0,
                                                  eos_token_id=eos, **generation)
    model.save_pretrained(folder)
    return model


@torch.no_grad()
def expect(model, tokenizer, text, source, target):
    usual = tokenizer.src_lang if hasattr(tokenizer, "src_lang") else None
    if source:
        tokenizer.src_lang = source
    ids = tokenizer([text], return_tensors="pt")["input_ids"]
    if source:
        tokenizer.src_lang = usual
    first = {}
    if target and model.config.decoder_start_token_id == 2:
        first = {"forced_bos_token_id": tokenizer.get_lang_id(target) if hasattr(tokenizer, "get_lang_id")
                 else tokenizer.convert_tokens_to_ids(target)}
    beam, greedy = model.generate(ids, **first)[0].tolist(), model.generate(ids, num_beams=1, **first)[0].tolist()
    return {"source": text, "source_language": source or "", "target_language": target or "", "source_ids": ids[0].tolist(),
            "greedy_ids": greedy[1:], "beam_ids": beam[1:], "beam_text": tokenizer.decode(beam, skip_special_tokens=True)}


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or FOLDERS:
        family, write_tokenizer, generation, languages = FOLDERS[name]
        folder = ROOT / name
        shutil.rmtree(folder, ignore_errors=True)
        write_tokenizer(folder)
        tokenizer = getattr(hf, json.loads((folder / "tokenizer_config.json").read_text())["tokenizer_class"]).from_pretrained(folder)
        model = make_model(folder, family, tokenizer, generation)
        cases = [expect(model, tokenizer, text, *pair) for pair in languages for text in TEXTS]
        (folder / "expected.json").write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")
        print(name, len(tokenizer), "tokens;", sum(tokenizer.eos_token_id in case["greedy_ids"] for case in cases), "of", len(cases), "end;",
              cases[0]["source_ids"], repr(cases[0]["beam_text"]))
        for file in os.listdir(folder):
            os.chmod(folder / file, 0o644)


main()
