"""Writes tests/pipelines/golden/generation_rules.json: what generate() of transformers finds with fields of
generation_config.json, for a language model and an encoder-decoder of the other golden data.

Run from the repository root, after families.py, families_texts.py and t5_folder.py:

    python tests/golden/generation_rules.py   # transformers 5.24 made the committed file
"""

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig

LANGUAGE, PAIR = "models/golden/gpt2_untied_relu", "pipelines/golden/t5"
PROMPTS = ["the man", "a", "red dog runs in the house ."]
SOURCES = ["twenty-one", "three hundred and fifty-four", "one"]
torch.set_num_threads(1)


def run(model, tokenizer, texts, fields, begin):
    model.generation_config = GenerationConfig(pad_token_id=model.config.pad_token_id or 0,
                                               **{"eos_token_id": model.config.eos_token_id, **fields})
    results = []
    for text in texts:
        ids = tokenizer([text], return_tensors="pt")["input_ids"]
        with torch.no_grad():
            results.append(model.generate(ids)[0].tolist()[begin(ids):])
    return results


def record(folder, auto, texts, begin, common, variants):
    model = auto.from_pretrained(f"tests/{folder}").eval()
    tokenizer = AutoTokenizer.from_pretrained(f"tests/{folder}")
    plain = run(model, tokenizer, texts, common, begin)
    cases = [{"fields": common, "ids": plain}]
    for fields in variants(plain, model.config.eos_token_id):
        fields = {**common, **fields}
        ids = run(model, tokenizer, texts, fields, begin)
        same = fields.get("bad_words_ids") == [[model.config.eos_token_id]]
        assert "num_beams" in fields or (ids == plain) == same, (fields, ids, plain)
        cases.append({"fields": fields, "ids": ids})
    return {"folder": folder, "texts": texts, "cases": cases}


def token_rules(plain, eos):
    first, second, third = plain[0][:3]
    return [
        {"bad_words_ids": [[first], [second, third]]}, {"bad_words_ids": [[eos]]}, {"suppress_tokens": [first, third]},
        {"begin_suppress_tokens": [first]}, {"begin_suppress_tokens": [first], "num_beams": 3},
        {"sequence_bias": [[[first], -4.0], [[second, third], 7.5]]}, {"sequence_bias": [[[first], -2.5]], "num_beams": 3},
        {"exponential_decay_length_penalty": [1, 1.9]}, {"exponential_decay_length_penalty": [1, 1.9], "num_beams": 3},
        {"encoder_repetition_penalty": 9.0}, {"encoder_repetition_penalty": 9.0, "encoder_no_repeat_ngram_size": 2},
        {"encoder_repetition_penalty": 2.5, "num_beams": 2, "repetition_penalty": 1.5},
        {"forced_bos_token_id": third}, {"forced_bos_token_id": third, "begin_suppress_tokens": [third, plain[1][1]]},
        {"eos_token_id": [eos, third]}, {"eos_token_id": [eos, third], "num_beams": 3, "length_penalty": -1.0},
        {"num_beams": 4, "early_stopping": "never"}, {"repetition_penalty": 2.5}, {"no_repeat_ngram_size": 1},
    ]


def language_rules(plain, eos):
    ends = {"eos_token_id": [eos, plain[0][2]]}
    return token_rules(plain, eos) + [
        {**ends, "min_new_tokens": 4}, {**ends, "min_length": 7}, {"max_new_tokens": None, "max_length": 9},
        {"forced_eos_token_id": eos}, {"num_beams": 3, "forced_eos_token_id": eos, "length_penalty": 2.0},
    ]


def pair_rules(plain, eos):
    ends = {"eos_token_id": [eos, plain[0][2]]}
    return token_rules(plain, eos) + [
        {**ends, "min_new_tokens": 4}, {**ends, "min_length": 5}, {"max_length": None, "max_new_tokens": 5},
        {"decoder_start_token_id": plain[0][0]}, {"forced_eos_token_id": None},
        {"num_beams": 3, "forced_eos_token_id": None, "length_penalty": 1.5},
    ]


results = [
    record(LANGUAGE, AutoModelForCausalLM, PROMPTS, lambda ids: ids.shape[1], {"max_new_tokens": 8}, language_rules),
    record(PAIR, AutoModelForSeq2SeqLM, SOURCES, lambda ids: 1,
           {"max_length": 12, "forced_eos_token_id": 1, "decoder_start_token_id": 0, "suppress_tokens": [0]}, pair_rules)]
path = Path("tests/pipelines/golden/generation_rules.json")
path.write_text(json.dumps(results, indent=1).replace("\n      ", "").replace("\n     ]", "]") + "\n")
