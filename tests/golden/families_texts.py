"""Adds tokenizers to some folders of families.py, and writes the results of transformers on texts to texts.json, with which
tests/apps compares the commands.

Run from the repository root, after families.py:

    python tests/golden/families_texts.py
"""

import json
from pathlib import Path

import text_results
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


def open_and_write(name, auto, tokenizer, say):
    """say(model, tokenizer) -> the results for each text."""
    write(name, say(*open_folder(name, auto, tokenizer)))


def masks(name, texts):
    open_and_write(name, hf.AutoModelForMaskedLM, wordpiece(), lambda model, tokenizer: [
        {"input": text, "masks": text_results.masks(model, tokenizer, text)} for text in texts])


def labels(name, texts):
    open_and_write(name, hf.AutoModelForSequenceClassification, wordpiece(), lambda model, tokenizer: [
        {"input": text, "labels": text_results.labels(model, text_results.run(model, tokenizer, *text.split("\t"))[1].logits[0])}
        for text in texts])


def tags(name, texts):
    open_and_write(name, hf.AutoModelForTokenClassification, wordpiece(), lambda model, tokenizer: [
        {"input": text, "tokens": text_results.tags(model, tokenizer, text)} for text in texts])


def answers(name, question, texts, window):
    open_and_write(name, hf.AutoModelForQuestionAnswering, wordpiece(), lambda model, tokenizer: [
        {"input": text, "answers": text_results.answers(model, tokenizer, question, text, window, 3, 3)} for text in texts])


def vectors(name, texts):
    open_and_write(name, hf.AutoModel, wordpiece(), lambda model, tokenizer: [
        {"input": text, **text_results.vectors(model, tokenizer, text)} for text in texts])


def continuations(name, texts):
    def say(model, tokenizer):
        result = []
        for text in texts:
            found = text_results.continuation(model, tokenizer, text)
            whole = tokenizer.decode([*tokenizer(text)["input_ids"], *found["ids"]], skip_special_tokens=True,
                                     clean_up_tokenization_spaces=False)
            result.append({"input": text, "text": whole[len(text):], **found})
        return result

    open_and_write(name, hf.AutoModelForCausalLM, words(), say)


PLAIN = ["the man sleeps in the house.", "a red dog", "Good men, and THE bad dogs runs"]
masks("bert_masked", ["the [MASK] sleeps in the [MASK].", "a red [MASK]"])
labels("bert_texts", [*PLAIN, "the dog runs\tthe dog sleeping"])
tags("bert_tokens", PLAIN)
answers("bert_spans", "the dog sleeps?", [*PLAIN, "a red dog and a blue dog sleep in the house of the man"], 14)
vectors("bert_base", PLAIN)
continuations("gpt2_untied_relu", ["the man", "a red dog runs in the house", "two good"])
continuations("llama", ["the man", "a red dog runs in the house", "two good"])
