"""Writes tests/pipelines/golden/marian: a small Marian folder saved by transformers, and transformers' results.

    python tests/golden/marian_folder.py   # needs torch, transformers (5.23 made the committed files) and sentencepiece

The weights are random, biases and gains included. expected.json has, for some sentences, their ids, the logits of their
translation's first tokens (of its greedy one, fed back; in double precision) and the greedy and beam translations as ids and text.
"""

import json
import os
import warnings
from pathlib import Path

import sentencepiece
import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

warnings.filterwarnings("ignore")
FOLDER = Path("tests/pipelines/golden/marian")
UNITS = "one two three four five six seven eight nine".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
EINS = "ein zwei drei vier fünf sechs sieben acht neun".split()
ZIG = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
SENTENCES = ["twenty-one", "three hundred and fifty-four", "Ninety - NINE ??", "sixty  two thousand",
             "x² ist vierundzwanzig", "one", "eighty-five thousand, four hundred and thirty-two"]
BEAM = {"num_beams": 4, "length_penalty": 0.6, "early_stopping": False}


def make_tokenizer():
    lines = [f"{t}-{u}" for t in TENS for u in UNITS] + [f"{e}und{z}" for z in ZIG for e in EINS]
    lines += [f"{u} hundred and {t}" for t in TENS for u in UNITS] + [f"{e}hundert{z}" for z in ZIG for e in EINS]
    text = FOLDER / "text"
    text.write_text("\n".join(lines))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(FOLDER / "source"), vocab_size=60, model_type="unigram",
        normalization_rule_name="identity", num_threads=1, minloglevel=2)
    text.unlink()
    (FOLDER / "source.vocab").unlink()
    (FOLDER / "source.model").rename(FOLDER / "source.spm")
    (FOLDER / "target.spm").write_bytes((FOLDER / "source.spm").read_bytes())
    pieces = sentencepiece.SentencePieceProcessor(str(FOLDER / "source.spm"))
    named = [pieces.id_to_piece(i) for i in range(len(pieces))]
    vocabulary = ["</s>", "<unk>"] + [p for p in named if p not in ("<s>", "</s>", "<unk>")] + ["<pad>"]
    (FOLDER / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(vocabulary)}, ensure_ascii=False))
    files = [str(FOLDER / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = MarianTokenizer(*files, source_lang="en", target_lang="de")
    tokenizer.save_pretrained(FOLDER)
    return tokenizer


def make_model(vocabulary):
    pad = vocabulary - 1
    config = MarianConfig(
        vocab_size=vocabulary, max_position_embeddings=64, encoder_layers=2, decoder_layers=1, encoder_ffn_dim=24,
        decoder_ffn_dim=24, encoder_attention_heads=2, decoder_attention_heads=2, d_model=16,
        activation_function="swish", scale_embedding=True, pad_token_id=pad, decoder_start_token_id=pad,
        eos_token_id=0, forced_eos_token_id=0, dropout=0.1)
    torch.manual_seed(1)
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                gain = "norm" in name and name.endswith("weight")
                # Large matrices and small vectors, so that predictions vary and a token does not predict itself. But large scores
                # would turn the last bits of queries and keys into the fifth digit of a weight.
                small = any(part in name for part in ("shared", "q_proj", "k_proj"))
                size = 0.2 if parameter.dim() < 2 else 0.5 if small else 1.0
                parameter.copy_(torch.randn_like(parameter) * size + (1 if gain else 0))
        model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias) * 0.3)
        model.final_logits_bias[0, 0] = 2.0  # some outputs end before the limit
    model.generation_config = GenerationConfig(
        max_length=24, bad_words_ids=[[pad]], decoder_start_token_id=pad, pad_token_id=pad, eos_token_id=0,
        forced_eos_token_id=0, **BEAM)
    model.save_pretrained(FOLDER)
    return model


@torch.no_grad()
def expect(model, exact, tokenizer, sentence):
    ids = tokenizer([sentence], return_tensors="pt")
    beam = model.generate(**ids)[0].tolist()
    greedy = model.generate(**ids, num_beams=1)[0]
    logits = exact(**ids, decoder_input_ids=greedy[None, :4]).logits[0]
    error = (model(**ids, decoder_input_ids=greedy[None, :4]).logits[0] - logits).abs().max().item()
    assert error < 1e-5, f"{sentence}: float32 cannot know these logits better than {error}"
    return {
        "source": sentence,
        "source_ids": ids["input_ids"][0].tolist(),
        "start_and_target_ids": greedy[:4].tolist(),
        "logits": [[round(x, 6) for x in row] for row in logits.tolist()],
        "greedy_ids": greedy[1:].tolist(),
        "beam_ids": beam[1:],
        "beam_text": tokenizer.decode(beam, skip_special_tokens=True),
    }


def main():
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer.get_vocab()))
    exact = MarianMTModel.from_pretrained(FOLDER).double().eval()
    cases = [expect(model, exact, tokenizer, sentence) for sentence in SENTENCES]
    (FOLDER / "expected.json").write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")
    for name in os.listdir(FOLDER):
        os.chmod(FOLDER / name, 0o644)


main()
