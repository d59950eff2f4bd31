"""Writes tests/text/golden/folders.json: small tokenizer folders with the files of older versions of transformers, and
transformers' ids and decoded texts.

Run from the repository root, after text_tokenizers.py:

    python tests/golden/token_folders.py   # transformers 5.24 made the committed file
"""

import json
import tempfile
from pathlib import Path

from transformers import AutoTokenizer

GOLDEN = Path("tests/text/golden")
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat ##s ' s m n't . , ! a <e1> is it".split()
BERT = {"config.json": {"model_type": "bert"}}
MERGES = "#version: 0.2\nc a\nca t\n"
GPT2 = {"config.json": {"model_type": "gpt2"}, "merges.txt": MERGES,
        "vocab.json": {token: i for i, token in enumerate([*"abctĠ[]<>PAD", "ca", "cat", "<|endoftext|>"])}}


def vocab(*more, last="\n", end="\n"):
    return end.join([*VOCABULARY, *more]) + last


def bert(lines=None, tokenizer_config=None, **files):
    return {**BERT, "vocab.txt": lines or vocab(), "tokenizer_config.json": {"tokenizer_class": "BertTokenizer",
                                                                             **(tokenizer_config or {})}, **files}


def unigram(config):
    return {"tokenizer.json": (GOLDEN / "unigram.json").read_text(),
            "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **config}}


TEXTS = ["the <e1>cat's", "The [MASK] dog . It isn't a cat !"]
PADS = ["a[PAD]b", "cat<|endoftext|>at", "a<e1>b"]
FOLDERS = {
    "additional_special_tokens": (bert(tokenizer_config={"additional_special_tokens": ["<e1>"]}), TEXTS),
    "extra_special_tokens": (bert(tokenizer_config={"extra_special_tokens": {"first_token": "<e1>", "other_token": "[e2]"}}),
                             [*TEXTS, "cat[e2]a"]),
    "additional tokens of the map": (bert(**{"special_tokens_map.json": {"additional_special_tokens": ["<e1>"]}}), TEXTS),
    "added tokens of BERT": (bert(**{"added_tokens.json": {"Dog": 19, "<E2>": 20},
                                     "special_tokens_map.json": {"pad_token": "<E2>"}}),
                             ["the Dog <E2> <e2> dog"]),
    "special tokens beyond the vocabulary": (bert(vocab().replace("[MASK]", "[mask]"), {"additional_special_tokens": ["<e3>"]}),
                                             ["the [MASK]<e3>cat"]),
    "white space at the ends of lines": (bert(vocab("dog \t", "", "bird\u2003", " fish", end="\n")), [*TEXTS, "dog bird fish"]),
    "carriage returns": (bert(vocab("dog", end="\r\n")), [*TEXTS, "dog"]),
    "no line break at the end": (bert(vocab("dog", last="")), ["the dog"]),
    "added tokens of GPT-2": ({**GPT2, "added_tokens.json": {"[PAD]": 15}, "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"},
                               "special_tokens_map.json": {"pad_token": "[PAD]", "eos_token": "<|endoftext|>"}}, PADS),
    "a special token without an id": ({**GPT2, "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer",
                                                                          "additional_special_tokens": ["<e1>"]},
                                       "special_tokens_map.json": {"pad_token": "[PAD]"}}, PADS),
    "clean up": (unigram({"clean_up_tokenization_spaces": True}), ["it 's a ' dog ' , is n't it ? the dog 've 'm .", "a  ' 's house"]),
    "no clean up": (unigram({"clean_up_tokenization_spaces": False}), ["it 's a ' dog ' , is n't it ?"]),
    "a pad token that tokenizer.json lacks": (unigram({"pad_token": "[PAD]"}), ["the[PAD]dog"]),
    "clean up of WordPiece": (bert(tokenizer_config={"clean_up_tokenization_spaces": True}), ["the ' cat ' s , a ' m"]),
    "clean up of byte pairs": ({**GPT2, "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer",
                                                                  "clean_up_tokenization_spaces": True}}, ["a . b"]),
}


def record(name, files, texts):
    with tempfile.TemporaryDirectory() as folder:
        for file, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (Path(folder) / file).write_bytes(text.encode())
        tokenizer = AutoTokenizer.from_pretrained(folder)
        ids = [tokenizer(text)["input_ids"] for text in texts]
    if files.get("tokenizer.json"):
        files = {**files, "tokenizer.json": "unigram.json"}  # a file beside this one
    return {"name": name, "files": files, "texts": texts, "ids": ids,
            "decoded": [tokenizer.decode(one, skip_special_tokens=True) for one in ids],
            "all": [tokenizer.decode(one) for one in ids]}


(GOLDEN / "folders.json").write_text(json.dumps([record(name, *folder) for name, folder in FOLDERS.items()],
                                                ensure_ascii=False, indent=1) + "\n")
