"""Gives some of the folders of families.py a tokenizer, and writes into their texts.json what transformers makes of
texts with both: tests/apps holds the commands to it.

Run from the repository root, after families.py:

    python tests/golden/families_texts.py
"""

import json
from pathlib import Path

import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

ROOT = Path("tests/models/golden")
WORDS = "the a man dog house sleep runs red blue in of and".split()
torch.set_num_threads(1)


def wordpiece():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##ing", ".", ",", "good", "bad"]
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", cls_token="[CLS]",
                                      sep_token="[SEP]", pad_token="[PAD]", mask_token="[MASK]",
                                      model_input_names=["input_ids", "token_type_ids", "attention_mask"])


def words():
    vocabulary = ["<unk>", "<s>", "</s>", *WORDS, "sleeps", "good", "bad", "sings", ".", ",", "two", "three"]
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>",
                                      eos_token="</s>")


def open_folder(name, auto, tokenizer):
    tokenizer.save_pretrained(ROOT / name)
    assert len(tokenizer) == 23, len(tokenizer)
    return auto.from_pretrained(ROOT / name, attn_implementation="eager").eval(), tokenizer


def write(name, result):
    (ROOT / name / "texts.json").write_text(json.dumps(result, indent=1) + "\n")
    for unwanted in ("special_tokens_map.json", "added_tokens.json"):
        (ROOT / name / unwanted).unlink(missing_ok=True)


def run(model, tokenizer, *texts):
    encoded = tokenizer(*texts, return_tensors="pt")
    with torch.no_grad():
        return encoded, model(**encoded, output_hidden_states=True)


def masks(name, texts, count=3):
    model, tokenizer = open_folder(name, hf.AutoModelForMaskedLM, wordpiece())
    result = []
    for text in texts:
        encoded, output = run(model, tokenizer, text)
        ids = encoded["input_ids"][0]
        of_text = []
        for place in (ids == tokenizer.mask_token_id).nonzero()[:, 0].tolist():
            best = output.logits[0, place].softmax(-1).topk(count)
            guesses = []
            for probability, token in zip(best.values.tolist(), best.indices.tolist()):
                filled = ids.clone()
                filled[place] = token
                guesses.append({"token": tokenizer.convert_ids_to_tokens(token), "id": token, "probability": probability,
                                "text": tokenizer.decode(filled[1:-1], clean_up_tokenization_spaces=False)})
            of_text.append(guesses)
        result.append({"input": text, "masks": of_text})
    write(name, result)


def labels(name, texts):
    model, tokenizer = open_folder(name, hf.AutoModelForSequenceClassification, wordpiece())
    result = []
    for text in texts:
        _, output = run(model, tokenizer, *text.split("\t"))
        best = output.logits[0].softmax(-1).sort(descending=True, stable=True)
        result.append({"input": text, "labels": [{"label": model.config.id2label[i], "probability": p} for p, i in
                                                 zip(best.values.tolist(), best.indices.tolist())]})
    write(name, result)


def tags(name, texts):
    model, tokenizer = open_folder(name, hf.AutoModelForTokenClassification, wordpiece())
    result = []
    for text in texts:
        encoded, output = run(model, tokenizer, text)
        offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        tokens = []
        for place in range(1, len(offsets) - 1):
            best = output.logits[0, place].softmax(-1).max(-1)
            begin, end = offsets[place]
            tokens.append({"text": text[begin:end], "begin": begin, "end": end,
                           "label": model.config.id2label[int(best.indices)], "probability": float(best.values)})
        result.append({"input": text, "tokens": tokens})
    write(name, result)


def vectors(name, texts):
    model, tokenizer = open_folder(name, hf.AutoModel, wordpiece())
    result = []
    for text in texts:
        _, output = run(model, tokenizer, text)
        mean = output.last_hidden_state[0].mean(0)
        result.append({"input": text, "mean": mean.tolist(), "cls": output.last_hidden_state[0, 0].tolist(),
                       "pooler": output.pooler_output[0].tolist(), "normalized": (mean / mean.norm()).tolist()})
    write(name, result)


def continuations(name, texts, count=8):
    model, tokenizer = open_folder(name, hf.AutoModelForCausalLM, words())
    result = []
    for text in texts:
        encoded = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        ids = encoded["input_ids"]
        with torch.no_grad():
            greedy = model.generate(**encoded, max_new_tokens=count, do_sample=False, pad_token_id=0)[0, ids.shape[1]:]
            logits = model(ids).logits[0, :-1].log_softmax(-1)
        scores = logits.gather(1, ids[0, 1:, None])[:, 0]
        whole = tokenizer.decode([*ids[0], *greedy], skip_special_tokens=True, clean_up_tokenization_spaces=False)
        result.append({"input": text, "ids": greedy.tolist(), "text": whole[len(text):],
                       "token_log_probabilities": scores.tolist(), "log_probability": float(scores.sum()),
                       "perplexity": float((-scores.mean()).exp())})
    write(name, result)


PLAIN = ["the man sleeps in the house.", "a red dog", "Good men, and THE bad dogs runs"]
masks("bert_masked", ["the [MASK] sleeps in the [MASK].", "a red [MASK]"])
labels("bert_texts", [*PLAIN, "the dog runs\tthe dog sleeping"])
tags("bert_tokens", PLAIN)
vectors("bert_base", PLAIN)
continuations("gpt2_untied_relu", ["the man", "a red dog runs in the house", "two good"])
continuations("llama", ["the man", "a red dog runs in the house", "two good"])
