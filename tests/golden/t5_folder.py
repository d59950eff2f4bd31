"""Writes tests/pipelines/golden/t5: a small T5 folder saved by transformers, and transformers' results.

    python tests/golden/t5_folder.py   # needs torch, transformers (5.23 made the committed files) and sentencepiece

The weights are random. expected.json has, for some texts, their ids, the results of greedy and beam search as ids
and text, and the mean of the encoder's vectors. As in T5, the model has a few rows more than the tokenizer has tokens.
"""

import json
import os
import warnings
from pathlib import Path

import sentencepiece
import torch
from transformers import GenerationConfig, T5Config, T5ForConditionalGeneration, T5Tokenizer

warnings.filterwarnings("ignore")
FOLDER = Path("tests/pipelines/golden/t5")
UNITS = "one two three four five six seven eight nine".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
TEXTS = ["twenty-one", "three hundred and fifty-four", "Ninety - NINE ??", "  sixty  two thousand ",
         "a <extra_id_0> is <extra_id_1>, is it?", "one", "x² ﬁve ｆｉｖｅ", "eighty-five</s> thousand"]


def make_tokenizer():
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [f"{t}-{u}" for t in TENS for u in UNITS] + [f"{u} hundred and {t}" for t in TENS for u in UNITS]
    text = FOLDER / "text"
    text.write_text("\n".join(lines))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(FOLDER / "spiece"), vocab_size=44, model_type="unigram", pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, normalization_rule_name="identity", num_threads=1, minloglevel=2)
    text.unlink()
    (FOLDER / "spiece.vocab").unlink()
    tokenizer = T5Tokenizer.from_pretrained(FOLDER)
    tokenizer.save_pretrained(FOLDER)
    return tokenizer


def make_model(vocabulary):
    torch.manual_seed(5)
    config = T5Config(vocab_size=vocabulary, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_heads=2,
                      relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=0,
                      feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    model = T5ForConditionalGeneration(config).eval()
    model.lm_head.weight = torch.nn.Parameter(torch.empty(vocabulary, 16))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            gain = "norm" in name
            parameter.copy_(torch.randn_like(parameter) * (0.2 if gain or "lm_head" in name else 0.8) + (1 if gain else 0))
        model.lm_head.weight[1] += 0.15  # some outputs end before the limit
    model.generation_config = GenerationConfig(
        max_length=24, bad_words_ids=[[0]], decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
        forced_eos_token_id=1, num_beams=3, length_penalty=0.8)
    model.save_pretrained(FOLDER)
    return model


@torch.no_grad()
def expect(model, tokenizer, text):
    ids = tokenizer([text], return_tensors="pt")["input_ids"]
    beam, greedy = model.generate(ids)[0].tolist(), model.generate(ids, num_beams=1)[0].tolist()
    return {"source": text, "source_ids": ids[0].tolist(), "greedy_ids": greedy[1:], "beam_ids": beam[1:],
            "beam_text": tokenizer.decode(beam, skip_special_tokens=True),
            "vector": [round(x, 6) for x in model.encoder(ids).last_hidden_state[0].mean(0).tolist()]}


def main():
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer) + 4)
    cases = [expect(model, tokenizer, text) for text in TEXTS]
    (FOLDER / "expected.json").write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")
    for name in os.listdir(FOLDER):
        os.chmod(FOLDER / name, 0o644)


main()
