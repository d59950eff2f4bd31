"""Writes tests/apps/golden/hub/<name>: copies of hub folders with the files, fields, tensor names, buffers and dtypes of the
folder that they are named after, as of its time, but with other sizes, vocabularies and weights. text_results.json has the results of
transformers.

Run from the repository root, with torch, transformers, sentencepiece, safetensors, soundfile and Pillow installed (a minute):

    python tests/golden/hub_folders.py [NAME...]
"""

import json
import os
import shutil
import sys
import tempfile
import zlib
from functools import partial
from pathlib import Path

import hub_tokenizers as tokenizers
import speech_folders
import text_results
import torch
import transformers as hf
import vision_folders
from hub_tokenizers import write_json
from PIL import Image
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent.parent / "interop"))
from random_families import randomized  # noqa: E402

ROOT = Path("tests/apps/golden/hub")
IMAGES = [f"tests/data/golden/images/{name}" for name in ("rgb.png", "rgba.png", "gray.png")]
ENCODER = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2}
HUGE = 1000000000000000019884624838656  # means "no limit" in tokenizer_config.json

torch.set_num_threads(1)


def rename(tensors, *pairs):
    """Renames tensors, replacing each `old` by `new`."""
    def renamed(name):
        for old, new in pairs:
            name = name.replace(old, new)
        return name

    return {renamed(name): tensor for name, tensor in tensors.items()}


def model(folder, config, architecture=None, change=lambda tensors: tensors, dtype=None, tune=lambda model: None, torch_file=None):
    """Writes config.json and model.safetensors, or pytorch_model.bin with these options of torch.save(): random weights, with names as
    modified by change()."""
    write_json(folder / "config.json", config)
    seed = zlib.crc32(folder.name.encode()) % 1000
    torch.manual_seed(seed)
    made = getattr(hf, architecture or config["architectures"][0])(hf.AutoConfig.from_pretrained(folder))
    randomized(made.float().eval(), seed)
    tune(made)
    with tempfile.TemporaryDirectory() as saved:  # saved names differ from module names
        made.save_pretrained(saved)
        tensors = change(load_file(Path(saved) / "model.safetensors"))
    if dtype:
        tensors = {name: t.to(dtype) if t.is_floating_point() else t for name, t in tensors.items()}
    tensors = {name: t.clone().contiguous() for name, t in tensors.items()}
    if torch_file is not None:
        torch.save(tensors, folder / "pytorch_model.bin", **torch_file)
    else:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def opened(folder, auto):
    found = auto.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    return found, hf.AutoTokenizer.from_pretrained(folder)


def without(tensors, *parts):
    return {name: tensor for name, tensor in tensors.items() if not any(part in name for part in parts)}


# BERT and related models.

PLAIN = ["The man sleeps in the house.", "a red dog", "Paris, and THE caf\u00e9 \u4e2d in France?"]
MASKED = ["The [MASK] sleeps in the [MASK].", "Paris is the[MASK]of France"]
BERT = {"attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, **ENCODER,
        "initializer_range": 0.02, "layer_norm_eps": 1e-12, "max_position_embeddings": 40, "model_type": "bert",
        "pad_token_id": 0, "type_vocab_size": 2}
TENSORFLOW = [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")]


def masks(folder, texts):
    model, tokenizer = opened(folder, hf.AutoModelForMaskedLM)
    return [{"command": ["fill-mask", "--top", "3"], "input": text, "masks": text_results.masks(model, tokenizer, text)}
            for text in texts]


def classes(folder, texts):
    model, tokenizer = opened(folder, hf.AutoModelForSequenceClassification)
    return [{"command": ["classify"], "input": text,
             "labels": text_results.labels(model, text_results.run(model, tokenizer, text)[1].logits[0])} for text in texts]


def zero_shot(folder, cases):
    """(labels, text, hypothesis, whether labels exclude each other not)"""
    model, tokenizer = opened(folder, hf.AutoModelForSequenceClassification)
    classify = hf.pipeline("zero-shot-classification", model=model, tokenizer=tokenizer, device="cpu")
    results = []
    for labels, text, hypothesis, apart in cases:
        found = classify(text, labels, hypothesis_template=hypothesis or "This example is {}.", multi_label=apart)
        results.append({"command": ["classify", "--labels", ",".join(labels), *(["--hypothesis", hypothesis] if hypothesis else []),
                                    *(["--multi-label"] if apart else [])], "input": text,
                        "labels": [{"label": label, "probability": score} for label, score in zip(found["labels"], found["scores"])]})
    return results


def tags(folder, texts):
    model, tokenizer = opened(folder, hf.AutoModelForTokenClassification)
    return [{"command": ["tag"], "input": text, "tokens": text_results.tags(model, tokenizer, text)} for text in texts]


STORY = ("The man of Paris sleeps in a red house. A dog runs, and the dog of the man sleeps in France. In the house, the red dog "
         "and the blue dog run; the caf\u00e9 of London is blue.")


def answers(folder, cases):
    """(question, text, tokens of a window, tokens that two share, further options)"""
    model, tokenizer = opened(folder, hf.AutoModelForQuestionAnswering)
    return [{"command": ["answer", "--question", question, "--top", "4", "--window", str(window), "--shared", str(shared),
                         *(["--unanswerable"] if none else []), *(["--max-answer-tokens", str(most)] if most else [])], "input": text,
             "answers": text_results.answers(model, tokenizer, question, text, window, shared, 4, most or 15, none)}
            for question, text, window, shared, none, most in cases]


def vectors(folder, texts, pool):
    model, tokenizer = opened(folder, hf.AutoModel)
    return [{"command": ["embed", "--pool", pool], "input": text,
             "vector": text_results.vectors(model, tokenizer, text)[pool]} for text in texts]


def of_pretraining(folder, vocabulary, **config):
    """All tensors of a BertForPreTraining, with TensorFlow's names of norms, under another class name."""
    model(folder, {"architectures": ["BertForMaskedLM"], "gradient_checkpointing": False, **BERT,
                   "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0", "use_cache": True,
                   "vocab_size": vocabulary, **config},
          architecture="BertForPreTraining",
          change=lambda tensors: without(rename(tensors, *TENSORFLOW), "decoder.", "position_ids"))
    return masks(folder, MASKED)


def bert_base_uncased(folder):
    size = tokenizers.bert(folder)
    write_json(folder / "tokenizer_config.json", {"do_lower_case": True, "model_max_length": 512})
    return of_pretraining(folder, size)


def bert_base_cased(folder):
    size = tokenizers.bert(folder, cased=True)
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "model_max_length": 512})
    return of_pretraining(folder, size)


def position_ids(prefix, count=40):
    return {f"{prefix}embeddings.position_ids": torch.arange(count)[None]}


def bert_base_ner(folder):
    size = tokenizers.bert(folder, cased=True, fast=False)
    write_json(folder / "added_tokens.json", {})
    write_json(folder / "special_tokens_map.json", {
        "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"})
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "max_len": 512, "init_inputs": []})
    labels = ["O", "B-MISC", "I-MISC", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"]
    model(folder, {"_num_labels": 9, "architectures": ["BertForTokenClassification"], **BERT,
                   "id2label": {str(i): label for i, label in enumerate(labels)},
                   "label2id": {label: i for i, label in enumerate(labels)}, "output_past": True, "vocab_size": size},
          change=lambda tensors: {**position_ids("bert."), **tensors,
                                  "bert.pooler.dense.weight": torch.randn(16, 16),
                                  "bert.pooler.dense.bias": torch.randn(16)})
    return tags(folder, ["the man sleeps in London.", "Paris, and THE caf\u00e9"])


def distilbert_sst2(folder):
    size = tokenizers.bert(folder, fast=False)
    write_json(folder / "tokenizer_config.json", {"model_max_length": 512, "do_lower_case": True})
    model(folder, {
        "activation": "gelu", "architectures": ["DistilBertForSequenceClassification"], "attention_dropout": 0.1, "dim": 16,
        "dropout": 0.1, "finetuning_task": "sst-2", "hidden_dim": 24, "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
        "initializer_range": 0.02, "label2id": {"NEGATIVE": 0, "POSITIVE": 1}, "max_position_embeddings": 40,
        "model_type": "distilbert", "n_heads": 2, "n_layers": 2, "output_past": True, "pad_token_id": 0, "qa_dropout": 0.1,
        "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True,
        "transformers_version": "4.32.0.dev0", "vocab_size": size})
    return classes(folder, PLAIN)


DEBERTA = {"attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, **ENCODER, "initializer_range": 0.02,
           "layer_norm_eps": 1e-7, "max_position_embeddings": 40, "max_relative_positions": -1, "model_type": "deberta-v2",
           "norm_rel_ebd": "layer_norm", "pos_att_type": "p2c|c2p", "position_biased_input": False, "position_buckets": 6,
           "relative_attention": True, "share_att_key": True, "type_vocab_size": 0}


def deberta_v3_small(folder):
    """No class, no tokenizer.json, and the heads of its pretraining, of classes that transformers lacks."""
    size = tokenizers.deberta(folder) + 5
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "vocab_type": "spm"})
    model(folder, {**DEBERTA, "vocab_size": size}, architecture="DebertaV2Model", torch_file={}, change=lambda tensors: {
        **{f"deberta.{name}": tensor for name, tensor in tensors.items()},
        "lm_predictions.lm_head.bias": torch.randn(size), "mask_predictions.dense.weight": torch.randn(16, 16).t()})
    return vectors(folder, ["The man sleeps in the house.", "a red dog", "Paris, and [MASK]  caf\u00e9 \u4e2d in France?"], "mean")


def nli_deberta(folder):
    size = tokenizers.deberta(folder)
    write_json(folder / "tokenizer_config.json", {
        "bos_token": "[CLS]", "cls_token": "[CLS]", "do_lower_case": False, "eos_token": "[SEP]", "mask_token": "[MASK]",
        "model_max_length": 512, "name_or_path": "microsoft/deberta-v3-small", "pad_token": "[PAD]", "sep_token": "[SEP]",
        "sp_model_kwargs": {}, "special_tokens_map_file": None, "split_by_punct": False, "tokenizer_class": "DebertaV2Tokenizer",
        "unk_token": "[UNK]", "vocab_type": "spm"})
    write_json(folder / "added_tokens.json", {"[MASK]": size - 1})
    write_json(folder / "special_tokens_map.json", {
        "bos_token": "[CLS]", "cls_token": "[CLS]", "eos_token": "[SEP]", "mask_token": "[MASK]", "pad_token": "[PAD]",
        "sep_token": "[SEP]", "unk_token": "[UNK]"})
    labels = ["contradiction", "entailment", "neutral"]
    model(folder, {
        "architectures": ["DebertaV2ForSequenceClassification"], **DEBERTA, "id2label": dict(enumerate(labels)),
        "label2id": {label: i for i, label in enumerate(labels)}, "legacy": True, "pad_token_id": 0, "pooler_dropout": 0,
        "pooler_hidden_act": "gelu", "pooler_hidden_size": 16, "torch_dtype": "float32", "transformers_version": "4.10.0.dev0",
        "vocab_size": size}, torch_file={"_use_new_zipfile_serialization": False})
    return classes(folder, PLAIN) + zero_shot(folder, [  # within the limit, at which transformers does not cut
        (["red", "blue", "a dog"], PLAIN[1], None, False), (["red", "blue", "a dog"], PLAIN[1], None, True),
        (["red"], PLAIN[1], "In {} there is a dog", False), (["the dog", "men"], "the house", "The {} sleeps.", False)])


ROBERTA = {"attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu",
           "hidden_dropout_prob": 0.1, **ENCODER, "initializer_range": 0.02, "layer_norm_eps": 1e-05,
           "max_position_embeddings": 42, "model_type": "roberta", "pad_token_id": 1, "type_vocab_size": 1}


def roberta_base(folder):
    size = tokenizers.roberta(folder)
    write_json(folder / "tokenizer_config.json", {"model_max_length": 512})
    model(folder, {"architectures": ["RobertaForMaskedLM"], **ROBERTA, "vocab_size": size},
          change=lambda tensors: {**position_ids("roberta.", 42), **without(tensors, "decoder."),
                                  "roberta.pooler.dense.weight": torch.randn(16, 16),
                                  "roberta.pooler.dense.bias": torch.randn(16)})
    return masks(folder, ["The <mask> sleeps in the <mask>.", "Paris is the<mask>of France \u4e2d"])


def twitter_roberta(folder):
    """Only the older files of a tokenizer."""
    size = tokenizers.roberta(folder, fast=False)
    write_json(folder / "special_tokens_map.json", {
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>",
        "cls_token": "<s>", "mask_token": {"content": "<mask>", "single_word": False, "lstrip": True, "rstrip": False,
                                           "normalized": False}})
    labels = ["negative", "neutral", "positive"]
    model(folder, {"_name_or_path": "/home/jupyter/misc/tweeteval/TweetEval_models/sentiment/sentiment_latest-2021/",
                   "architectures": ["RobertaForSequenceClassification"], "classifier_dropout": None,
                   "gradient_checkpointing": False, **ROBERTA, "position_embedding_type": "absolute",
                   "id2label": {str(i): label for i, label in enumerate(labels)},
                   "label2id": {label: i for i, label in enumerate(labels)}, "torch_dtype": "float32",
                   "transformers_version": "4.13.0.dev0", "use_cache": True, "vocab_size": size})
    return classes(folder, [*PLAIN, "a red <mask> sleeps"])


def roberta_squad2(folder):
    """Fields of its trainer, the pooler of its pretraining, and windows."""
    size = tokenizers.roberta(folder)
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "model_max_length": 512, "full_tokenizer_file": None})
    write_json(folder / "special_tokens_map.json", {
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>",
        "cls_token": "<s>", "mask_token": {"content": "<mask>", "single_word": False, "lstrip": True, "rstrip": False,
                                           "normalized": False}})
    model(folder, {"architectures": ["RobertaForQuestionAnswering"], "gradient_checkpointing": False, "language": "english",
                   **ROBERTA, "name": "Roberta", "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0",
                   "use_cache": True, "vocab_size": size},
          change=lambda tensors: {**position_ids("roberta.", 42), **tensors,
                                  "roberta.pooler.dense.weight": torch.randn(16, 16),
                                  "roberta.pooler.dense.bias": torch.randn(16)})
    return answers(folder, [("the dog", PLAIN[0], 40, 8, False, None), ("a man?", STORY, 40, 10, False, None),
                            ("a man?", STORY, 24, 0, True, 3), ("the house", "a red dog", 40, 8, True, 1)])


def distilbert_squad(folder):
    size = tokenizers.bert(folder, cased=True)
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "model_max_length": 512})
    model(folder, {
        "activation": "gelu", "architectures": ["DistilBertForQuestionAnswering"], "attention_dropout": 0.1, "dim": 16,
        "dropout": 0.1, "hidden_dim": 24, "initializer_range": 0.02, "max_position_embeddings": 40, "model_type": "distilbert",
        "n_heads": 2, "n_layers": 2, "output_past": True, "pad_token_id": 0, "qa_dropout": 0.1, "seq_classif_dropout": 0.2,
        "sinusoidal_pos_embds": True, "tie_weights_": True, "vocab_size": size})
    return answers(folder, [("the dog", PLAIN[0], 40, 8, False, None), ("Paris?", STORY, 32, 12, False, None),
                            ("a caf\u00e9", STORY, 40, 16, True, 2)])


def sentence_model(folder, architecture, names, **config):
    size = tokenizers.bert(folder, truncation=config.pop("truncation", None))
    model(folder, {"_name_or_path": config.pop("path"), "architectures": [architecture], **BERT,
                   "position_embedding_type": "absolute", "use_cache": True, "vocab_size": size, **config},
          change=lambda tensors: {**position_ids(""), **rename(tensors, *names)})


def minilm(folder):
    sentence_model(folder, "BertModel", [], path="nreimers/MiniLM-L6-H384-uncased", gradient_checkpointing=False,
                   transformers_version="4.8.2", truncation=8)
    write_json(folder / "tokenizer_config.json", {
        "do_lower_case": True, "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]",
        "mask_token": "[MASK]", "tokenize_chinese_chars": True, "strip_accents": None, "name_or_path":
        "nreimers/MiniLM-L6-H384-uncased", "do_basic_tokenize": True, "never_split": None, "tokenizer_class": "BertTokenizer",
        "model_max_length": 512})
    found = vectors(folder, PLAIN[:2], "mean")
    return found


def bge_small(folder):
    sentence_model(folder, "BertModel", [], path="/home/user/.cache/torch/sentence_transformers/BAAI_bge-small-en/",
                   classifier_dropout=None, id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0}, torch_dtype="float32",
                   transformers_version="4.30.0")
    write_json(folder / "tokenizer_config.json", {
        "clean_up_tokenization_spaces": True, "cls_token": "[CLS]", "do_basic_tokenize": True, "do_lower_case": True,
        "mask_token": "[MASK]", "model_max_length": 512, "never_split": None, "pad_token": "[PAD]", "sep_token": "[SEP]",
        "strip_accents": None, "tokenize_chinese_chars": True, "tokenizer_class": "BertTokenizer", "unk_token": "[UNK]"})
    return vectors(folder, PLAIN, "cls") + vectors(folder, PLAIN[:1], "pooler")


# Language models.

PROMPTS = ["Once the man", "a red dog runs in the house, 12", "Paris"]


def texts_of(folder, prompts):
    model, tokenizer = opened(folder, hf.AutoModelForCausalLM)
    result = []
    for prompt in prompts:
        found = text_results.continuation(model, tokenizer, prompt)
        result.append({"command": ["generate", "--max-new-tokens", "8"], "input": prompt,
                       "texts": [{"ids": found.pop("ids")}]})
        if found["token_log_probabilities"]:  # a single token has no predictions
            result.append({"command": ["score"], "input": prompt, **found})
    return result


GPT2 = {"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 64, "n_embd": 16, "n_head": 2,
        "n_layer": 2, "n_positions": 64, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}}


def masks_of_attention(prefix, dtype, layers=2, places=64):
    lower = torch.ones(places, places).tril()[None, None]
    return {f"{prefix}h.{layer}.attn.bias": lower.to(dtype) for layer in range(layers)}


def gpt2(folder):
    size = tokenizers.gpt2(folder)
    write_json(folder / "tokenizer_config.json", {"model_max_length": 1024})
    ends = {"bos_token_id": size - 1, "eos_token_id": size - 1}
    model(folder, {**GPT2, **ends, "vocab_size": size},
          change=lambda tensors: {**masks_of_attention("", torch.float32),
                                  **rename(without(tensors, "lm_head"), ("transformer.", ""))})
    write_json(folder / "generation_config.json", {**ends, "transformers_version": "4.26.0.dev0", "_from_model_config": True})
    return texts_of(folder, PROMPTS)


def distilgpt2(folder):
    size = tokenizers.gpt2(folder)
    write_json(folder / "tokenizer_config.json", {"model_max_length": 1024})
    ends = {"bos_token_id": size - 1, "eos_token_id": size - 1}
    model(folder, {"_num_labels": 1, **GPT2, **ends, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0},
                   "n_inner": None, "reorder_and_upcast_attn": False, "scale_attn_by_inverse_layer_idx": False,
                   "scale_attn_weights": True, "transformers_version": "4.10.0", "use_cache": True, "vocab_size": size},
          change=lambda tensors: {**masks_of_attention("transformer.", torch.bool),
                                  **{f"transformer.h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}, **tensors})
    write_json(folder / "generation_config.json", {"_from_model_config": True, **ends, "transformers_version": "4.27.0.dev0"})
    return texts_of(folder, PROMPTS)


LLAMA = {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "hidden_act": "silu", "hidden_size": 16,
         "initializer_range": 0.02, "intermediate_size": 24, "max_position_embeddings": 2048, "model_type": "llama",
         "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "pretraining_tp": 1,
         "rms_norm_eps": 1e-05, "torch_dtype": "bfloat16", "use_cache": True}


def tinyllama(folder):
    size = tokenizers.llama2(folder)
    write_json(folder / "tokenizer_config.json", {
        "add_bos_token": True, "add_eos_token": False, "added_tokens_decoder": {
            str(i): {"content": token, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                     "special": True} for i, token in enumerate(("<unk>", "<s>", "</s>"))},
        "bos_token": "<s>", "chat_template": "{% for message in messages %}\n{{ message['content'] }}\n{% endfor %}",
        "clean_up_tokenization_spaces": False, "eos_token": "</s>", "legacy": False, "model_max_length": HUGE,
        "pad_token": "</s>", "padding_side": "right", "sp_model_kwargs": {}, "tokenizer_class": "LlamaTokenizer",
        "unk_token": "<unk>", "use_default_system_prompt": False})
    model(folder, {**LLAMA, "bos_token_id": 1, "eos_token_id": 2, "rope_scaling": None, "rope_theta": 10000.0,
                   "tie_word_embeddings": False, "transformers_version": "4.35.0", "vocab_size": size}, dtype=torch.bfloat16)
    write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "max_length": 2048, "pad_token_id": 0,
                                                   "transformers_version": "4.35.0"})
    return texts_of(folder, PROMPTS)


def llama_32(folder):
    size = tokenizers.llama3(folder)
    begin, end, turn = size - 3, size - 2, size - 1
    write_json(folder / "special_tokens_map.json", {
        key: {"content": token, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
        for key, token in (("bos_token", "<|begin_of_text|>"), ("eos_token", "<|end_of_text|>"))})
    write_json(folder / "tokenizer_config.json", {
        "added_tokens_decoder": {str(i): {"content": token, "lstrip": False, "normalized": False, "rstrip": False,
                                          "single_word": False, "special": True} for i, token in
                                 ((begin, "<|begin_of_text|>"), (end, "<|end_of_text|>"), (turn, "<|eot_id|>"))},
        "bos_token": "<|begin_of_text|>", "clean_up_tokenization_spaces": True, "eos_token": "<|end_of_text|>",
        "model_input_names": ["input_ids", "attention_mask"], "model_max_length": 131072,
        "tokenizer_class": "PreTrainedTokenizerFast"})
    model(folder, {**LLAMA, "attention_dropout": 0.0, "bos_token_id": begin, "eos_token_id": end, "head_dim": 4,
                   "max_position_embeddings": 131072, "mlp_bias": False, "rope_scaling": {
                       "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                       "original_max_position_embeddings": 8192, "rope_type": "llama3"},
                   "rope_theta": 500000.0, "tie_word_embeddings": True, "transformers_version": "4.45.0.dev0",
                   "vocab_size": size},
          change=lambda tensors: without(tensors, "lm_head"), dtype=torch.bfloat16)
    write_json(folder / "generation_config.json", {
        "_from_model_config": True, "bos_token_id": begin, "do_sample": True, "eos_token_id": [end, turn], "temperature": 0.6,
        "top_p": 0.9, "transformers_version": "4.45.0.dev0"})
    return texts_of(folder, PROMPTS)


def smollm2(folder):
    size = tokenizers.smollm(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "add_prefix_space": False, "added_tokens_decoder": {
            str(i): {"content": token, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                     "special": True} for i, token in enumerate(("<|endoftext|>", "<|im_start|>", "<|im_end|>"))},
        "additional_special_tokens": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "bos_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False, "eos_token": "<|endoftext|>", "model_max_length": 8192,
        "tokenizer_class": "GPT2Tokenizer", "unk_token": "<|endoftext|>", "vocab_size": size}))
    model(folder, {**LLAMA, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 0, "is_llama_config": True,
                   "max_position_embeddings": 8192, "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000,
                   "tie_word_embeddings": True, "transformers_version": "4.40.1", "vocab_size": size},
          change=lambda tensors: without(tensors, "lm_head"), dtype=torch.bfloat16)
    write_json(folder / "generation_config.json", {"_from_model_config": True, "bos_token_id": 0, "eos_token_id": 0,
                                                   "transformers_version": "4.40.1"})
    return texts_of(folder, PROMPTS)


# Images.

LABELS = ["tench, Tinca tinca", "goldfish, Carassius auratus", "tabby, tabby cat"]
VIT = {"attention_probs_dropout_prob": 0.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.0, **ENCODER,
       "id2label": {str(i): label for i, label in enumerate(LABELS)}, "image_size": 24, "initializer_range": 0.02,
       "label2id": {label: i for i, label in enumerate(LABELS)}, "layer_norm_eps": 1e-12, "num_channels": 3, "patch_size": 8}


def image_results(folder):
    model = hf.AutoModelForImageClassification.from_pretrained(folder, attn_implementation="eager").eval()
    kind = {"vit": hf.ViTImageProcessorPil, "deit": hf.DeiTImageProcessorPil}
    words = json.loads((folder / "preprocessor_config.json").read_text())
    named = words.get("image_processor_type") or words["feature_extractor_type"]
    processor = kind["deit" if named.startswith("DeiT") else "vit"].from_pretrained(folder)
    result = []
    for path in IMAGES:
        with Image.open(path) as image, torch.no_grad():
            logits = model(**processor(image.convert("RGB"), return_tensors="pt")).logits[0]
        result.append({"command": ["classify"], "image": Path(path).name, "labels": text_results.labels(model, logits)})
    return result


def vit_base(folder):
    model(folder, {"_name_or_path": "google/vit-base-patch16-224-in21k", "architectures": ["ViTForImageClassification"],
                   **VIT, "encoder_stride": 16, "model_type": "vit", "qkv_bias": True, "transformers_version": "4.13.0.dev0"})
    write_json(folder / "preprocessor_config.json", {
        "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.5] * 3,
        "image_processor_type": "ViTFeatureExtractor", "image_std": [0.5] * 3, "resample": 2,
        "rescale_factor": 0.00392156862745098, "size": {"height": 24, "width": 24}})
    return image_results(folder)


def vit_today(folder):
    """In the format of transformers 4.40 and later."""
    model(folder, {"architectures": ["ViTForImageClassification"], **VIT, "encoder_stride": 16, "model_type": "vit",
                   "pooler_act": "tanh", "pooler_output_size": 16, "problem_type": "single_label_classification",
                   "qkv_bias": True, "dtype": "float32", "transformers_version": "4.56.0"})
    write_json(folder / "preprocessor_config.json", {
        "_valid_processor_keys": ["images", "do_resize", "size", "resample"], "crop_size": None, "data_format":
        "channels_first", "default_to_square": True, "device": None, "disable_grouping": None, "do_center_crop": None,
        "do_convert_rgb": None, "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.5] * 3,
        "image_processor_type": "ViTImageProcessorFast", "image_std": [0.5] * 3, "input_data_format": None, "resample": 2,
        "rescale_factor": 0.00392156862745098, "return_tensors": None, "size": {"height": 24, "width": 24}})
    return image_results(folder)


IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


def deit_base(folder):
    """A ViT under any model_type."""
    model(folder, {"architectures": ["ViTForImageClassification"], **VIT, "model_type": "vit"},
          change=lambda tensors: without(tensors, "pooler"))
    write_json(folder / "preprocessor_config.json", {
        "crop_size": 24, "do_center_crop": True, "do_normalize": True, "do_resize": True,
        "feature_extractor_type": "DeiTFeatureExtractor", **IMAGENET, "resample": 3, "size": 28})
    return image_results(folder)


def deit_distilled(folder):
    model(folder, {"architectures": ["DeiTForImageClassificationWithTeacher"], **VIT, "encoder_stride": 16,
                   "model_type": "deit", "qkv_bias": True, "torch_dtype": "float32", "transformers_version": "4.13.0.dev0"})
    write_json(folder / "preprocessor_config.json", {
        "crop_size": 24, "do_center_crop": True, "do_normalize": True, "do_resize": True,
        "feature_extractor_type": "DeiTFeatureExtractor", **IMAGENET, "resample": 3, "size": 28})
    return image_results(folder)


# Images and texts.

OF_PRETRAINED = {  # transformers' defaults before version 4.25, which these files list
    "_name_or_path": "", "add_cross_attention": False, "architectures": None, "bad_words_ids": None, "bos_token_id": 0,
    "chunk_size_feed_forward": 0, "cross_attention_hidden_size": None, "decoder_start_token_id": None, "diversity_penalty": 0.0,
    "do_sample": False, "early_stopping": False, "encoder_no_repeat_ngram_size": 0, "eos_token_id": 2, "finetuning_task": None,
    "forced_bos_token_id": None, "forced_eos_token_id": None, "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "is_decoder": False,
    "is_encoder_decoder": False, "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "length_penalty": 1.0, "max_length": 20,
    "min_length": 0, "no_repeat_ngram_size": 0, "num_beam_groups": 1, "num_beams": 1, "num_return_sequences": 1,
    "output_attentions": False, "output_hidden_states": False, "output_scores": False, "pad_token_id": 1, "prefix": None,
    "problem_type": None, "pruned_heads": {}, "remove_invalid_values": False, "repetition_penalty": 1.0, "return_dict": True,
    "return_dict_in_generate": False, "sep_token_id": None, "task_specific_params": None, "temperature": 1.0,
    "tie_encoder_decoder": False, "tie_word_embeddings": True, "tokenizer_class": None, "top_k": 50, "top_p": 1.0,
    "torch_dtype": None, "torchscript": False, "transformers_version": "4.16.0.dev0", "use_bfloat16": False}
CLIP_TEXT = {**ENCODER, "attention_dropout": 0.0, "dropout": 0.0, "hidden_act": "quick_gelu", "initializer_factor": 1.0,
             "initializer_range": 0.02, "layer_norm_eps": 1e-05, "max_position_embeddings": 20, "model_type": "clip_text_model"}
CLIP_VISION = {**ENCODER, "hidden_size": 24, "attention_dropout": 0.0, "dropout": 0.0, "hidden_act": "quick_gelu", "image_size": 24,
               "initializer_factor": 1.0, "initializer_range": 0.02, "layer_norm_eps": 1e-05, "model_type": "clip_vision_model",
               "patch_size": 8}
CAPTIONS = ["  leading and trailing  ", "A photo of a cat, in the RED  house!", "the man's dog runs 12 <|endoftext|> sleeps",
            "a long text of the man and the dog and the man and the dog and the man and the dog in France"]
CLIP_PIXELS = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}


def image_text_results(folder, captions, **padding):
    model = hf.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    tokenizer, processor = hf.AutoTokenizer.from_pretrained(folder), hf.AutoImageProcessor.from_pretrained(folder, use_fast=False)
    result = []
    with torch.no_grad():
        for text in captions:
            ids = tokenizer([text], truncation=True, return_tensors="pt", **padding)["input_ids"]
            vector = model.get_text_features(input_ids=ids).pooler_output[0]
            result.append({"command": ["embed"], "input": text, "vector": vector.tolist()})
        classify = hf.pipeline("zero-shot-image-classification", model=model, tokenizer=tokenizer, image_processor=processor,
                               device="cpu")
        for path in IMAGES:
            image = Image.open(path).convert("RGB")
            vector = model.get_image_features(**processor(image, return_tensors="pt")).pooler_output[0]
            result.append({"command": ["embed", "--images", "--normalize"], "image": Path(path).name,
                           "vector": (vector / vector.norm()).tolist()})
            for hypothesis in (None, "the {} in paris"):
                named = {"hypothesis_template": hypothesis} if hypothesis else {}
                labels = ["cat", "red house", "man's dog"]
                found = classify(image, candidate_labels=labels, **named)
                result.append({"command": ["classify", "--labels", ", ".join(labels),
                                           *(["--hypothesis", hypothesis] if hypothesis else [])], "image": Path(path).name,
                               "labels": [{"label": one["label"], "probability": one["score"]} for one in found]})
    return result


def tuned(model):
    """The weight of a trained model's logits, not a random one."""
    model.logit_scale.data.fill_(3.0)


def clip_base(folder):
    """OpenAI's files, whose eos_token_id is wrong."""
    size = tokenizers.clip(folder)
    model(folder, {"_commit_hash": None, "architectures": ["CLIPModel"], "initializer_factor": 1.0,
                   "logit_scale_init_value": 2.6592, "model_type": "clip", "projection_dim": 12,
                   "text_config": {**OF_PRETRAINED, **CLIP_TEXT, "vocab_size": size}, "text_config_dict": None,
                   "transformers_version": None, "vision_config": {**OF_PRETRAINED, **CLIP_VISION}, "vision_config_dict": None},
          change=lambda tensors: tensors | {
              "text_model.embeddings.position_ids": torch.arange(20)[None],
              "vision_model.embeddings.position_ids": torch.arange(10)[None]}, tune=tuned)
    write_json(folder / "preprocessor_config.json", {
        "crop_size": 24, "do_center_crop": True, "do_normalize": True, "do_resize": True,
        "feature_extractor_type": "CLIPFeatureExtractor", **CLIP_PIXELS, "resample": 3, "size": 24})
    write_json(folder / "tokenizer_config.json", {
        "unk_token": {"content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": True,
                      "__type": "AddedToken"}, "bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>", "add_prefix_space": False, "errors": "replace", "do_lower_case": True,
        "name_or_path": "openai/clip-vit-base-patch32", "model_max_length": 20, "tokenizer_class": "CLIPTokenizer"})
    return image_text_results(folder, CAPTIONS)


def clip_large(folder):
    """Sizes in text_config_dict, another activation, and the older files of a tokenizer alone; preprocessing as transformers 5
    writes it."""
    size = tokenizers.clip(folder, fast=False)
    sizes = {"hidden_size": 24, "intermediate_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "projection_dim": 20}
    text = {"hidden_act": "gelu", "max_position_embeddings": 20, "vocab_size": size, "eos_token_id": size - 1}
    model(folder, {"architectures": ["CLIPModel"], "initializer_factor": 1.0, "logit_scale_init_value": 2.6592,
                   "model_type": "clip", "projection_dim": 20, "torch_dtype": "float16",
                   "text_config": {"model_type": "clip_text_model", **sizes, **text},
                   "text_config_dict": {**sizes, **text},
                   "vision_config": {"model_type": "clip_vision_model", "hidden_act": "gelu", "image_size": 24, "patch_size": 8},
                   "vision_config_dict": {**sizes, "hidden_act": "gelu", "hidden_size": 32, "image_size": 24, "patch_size": 8}},
          dtype=torch.float16, tune=tuned)
    write_json(folder / "processor_config.json", {
        "image_processor": {"crop_size": {"height": 24, "width": 24}, "do_center_crop": True, "do_convert_rgb": True,
                            "do_normalize": True, "do_rescale": True, "do_resize": True, **CLIP_PIXELS,
                            "image_processor_type": "CLIPImageProcessor", "resample": 3, "rescale_factor": 0.00392156862745098,
                            "size": {"shortest_edge": 24}}, "processor_class": "CLIPProcessor"})
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "CLIPTokenizer", "model_max_length": 20})
    return image_text_results(folder, CAPTIONS)


def siglip_base(folder):
    """Few fields, and only the pieces of its tokenizer."""
    size = tokenizers.siglip(folder)
    model(folder, {"architectures": ["SiglipModel"], "initializer_factor": 1.0, "model_type": "siglip",
                   "text_config": {"model_type": "siglip_text_model", **ENCODER, "vocab_size": size,
                                   "max_position_embeddings": 64},
                   "torch_dtype": "float32", "transformers_version": "4.37.0.dev0",
                   "vision_config": {"model_type": "siglip_vision_model", **ENCODER, "image_size": 24, "patch_size": 8}},
          tune=tuned)
    write_json(folder / "preprocessor_config.json", {
        "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.5] * 3,
        "image_processor_type": "SiglipImageProcessor", "image_std": [0.5] * 3, "processor_class": "SiglipProcessor",
        "resample": 3, "rescale_factor": 0.00392156862745098, "size": {"height": 24, "width": 24}})
    end = {"content": "</s>", "lstrip": True, "normalized": False, "rstrip": True, "single_word": False, "special": True}
    write_json(folder / "tokenizer_config.json", {
        "added_tokens_decoder": {"1": end, "2": end | {"content": "<unk>"}}, "additional_special_tokens": [],
        "clean_up_tokenization_spaces": True, "do_lower_case": True, "eos_token": "</s>", "model_input_names": ["input_ids"],
        "model_max_length": 64, "pad_token": "</s>", "processor_class": "SiglipProcessor", "sp_model_kwargs": {},
        "tokenizer_class": "SiglipTokenizer", "unk_token": "<unk>"})
    return image_text_results(folder, CAPTIONS, padding="max_length", max_length=64)


def siglip2_base(folder):
    """Its tokenizer pads with another token than config.json says."""
    size = tokenizers.siglip2(folder)
    model(folder, {"architectures": ["SiglipModel"], "initializer_factor": 1.0, "model_type": "siglip",
                   "text_config": {"model_type": "siglip_text_model", **ENCODER, "projection_size": 16, "vocab_size": size,
                                   "max_position_embeddings": 64},
                   "torch_dtype": "float32", "transformers_version": "4.49.0.dev0",
                   "vision_config": {"model_type": "siglip_vision_model", **ENCODER, "image_size": 24, "patch_size": 8}},
          tune=tuned)
    write_json(folder / "preprocessor_config.json", {
        "do_convert_rgb": None, "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.5] * 3,
        "image_processor_type": "SiglipImageProcessor", "image_std": [0.5] * 3, "processor_class": "SiglipProcessor",
        "resample": 2, "rescale_factor": 0.00392156862745098, "size": {"height": 24, "width": 24}})
    write_json(folder / "tokenizer_config.json", {
        "add_bos_token": False, "add_eos_token": True, "bos_token": "<bos>", "clean_up_tokenization_spaces": False,
        "eos_token": "<eos>", "model_input_names": ["input_ids"], "model_max_length": 64, "pad_token": "<pad>",
        "padding_side": "right", "processor_class": "SiglipProcessor", "tokenizer_class": "GemmaTokenizer", "unk_token": "<unk>"})
    return image_text_results(folder, CAPTIONS, padding="max_length", max_length=64)


# Text to text.


def translations(folder, texts):
    """With the folder's decoding options. An output that reaches a limit ends with the end token."""
    model, tokenizer = opened(folder, hf.AutoModelForSeq2SeqLM)
    limit = {} if model.generation_config.max_length else {"max_length": 20, "forced_eos_token_id": 1}
    result = []
    for text in texts:
        with torch.no_grad():
            found = model.generate(**tokenizer(text, return_tensors="pt"), return_dict_in_generate=True, output_scores=True,
                                   **limit)
        best = {"text": tokenizer.decode(found.sequences[0], skip_special_tokens=True)}
        if getattr(found, "sequences_scores", None) is not None:
            best["score"] = float(found.sequences_scores[0])
        options = ["--max-new-tokens=18"] if limit else []  # excludes start and end tokens
        result.append({"command": ["translate", *options], "input": text, "hypotheses": [best]})
    return result


T5 = {"architectures": ["T5ForConditionalGeneration"], "d_ff": 24, "d_kv": 6, "d_model": 16, "decoder_start_token_id": 0,
      "dropout_rate": 0.1, "eos_token_id": 1, "initializer_factor": 1.0, "is_encoder_decoder": True,
      "layer_norm_epsilon": 1e-06, "model_type": "t5", "n_positions": 512, "num_heads": 2, "num_layers": 2,
      "output_past": True, "pad_token_id": 0, "relative_attention_num_buckets": 32}
T5_GENERATION = {"_from_model_config": True, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}


def t5_small(folder):
    tokenizers.t5(folder)
    write_json(folder / "tokenizer_config.json", {
        "additional_special_tokens": [f"<extra_id_{k}>" for k in range(100)], "eos_token": "</s>", "extra_ids": 100,
        "model_max_length": 512, "pad_token": "<pad>", "tokenizer_class": "T5Tokenizer", "unk_token": "<unk>"})
    task = {"early_stopping": True, "max_length": 300, "num_beams": 4, "prefix": "translate English to German: "}
    model(folder, {**T5, "task_specific_params": {"translation_en_to_de": task}, "vocab_size": 160},
          change=lambda tensors: {
              **without(tensors, "lm_head", "embed_tokens"),
              "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": torch.randn(32, 2)})
    write_json(folder / "generation_config.json", {**T5_GENERATION, "transformers_version": "4.27.0.dev0"})
    return translations(folder, ["translate English to German: the man sleeps.", "<extra_id_0> dog is <extra_id_1>"])


def flan_t5_small(folder):
    tokenizers.t5(folder)
    sentinels = [f"<extra_id_{k}>" for k in range(100)]
    write_json(folder / "special_tokens_map.json", {"additional_special_tokens": sentinels, "eos_token": "</s>",
                                                    "pad_token": "<pad>", "unk_token": "<unk>"})
    write_json(folder / "tokenizer_config.json", {
        "additional_special_tokens": sentinels, "eos_token": "</s>", "extra_ids": 100, "model_max_length": 512,
        "name_or_path": "google/t5-v1_1-small", "pad_token": "<pad>", "sp_model_kwargs": {}, "special_tokens_map_file": "x",
        "tokenizer_class": "T5Tokenizer", "unk_token": "<unk>"})
    model(folder, {**T5, "feed_forward_proj": "gated-gelu", "num_decoder_layers": 2, "relative_attention_max_distance": 128,
                   "tie_word_embeddings": False, "transformers_version": "4.23.1", "use_cache": True, "vocab_size": 160},
          change=lambda tensors: {**without(tensors, "embed_tokens"), "lm_head.weight": torch.randn(160, 16) * 0.2})
    write_json(folder / "generation_config.json", {**T5_GENERATION, "transformers_version": "4.27.0.dev0"})
    return translations(folder, ["the man sleeps.", "a red dog"])


def sinusoids(positions, d_model):
    rates = 10000.0 ** (-torch.arange(0, d_model // 2) * 2.0 / d_model)
    angles = torch.arange(positions)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def marian(folder, size, config, generation, dtype=None):
    pad = size - 1
    ends = {"bad_words_ids": [[pad]], "bos_token_id": 0, "decoder_start_token_id": pad, "eos_token_id": 0,
            "forced_eos_token_id": 0, "max_length": 24, "pad_token_id": pad}
    table = sinusoids(64, 16)
    places = {f"model.{side}.embed_positions.weight": table.clone() for side in ("encoder", "decoder")}

    def tune(made):
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                if name.endswith("layer_norm.bias"):
                    parameter *= 0.1  # otherwise the same token is always predicted
            made.final_logits_bias.copy_(torch.randn_like(made.final_logits_bias) * 0.3)
            made.final_logits_bias[0, 0] = 0.9  # outputs end before the limit
            made.final_logits_bias[0, -1] = 2.0  # padding would be likely

    model(folder, {
        "activation_dropout": 0.0, "activation_function": "swish", "add_bias_logits": False, "add_final_layer_norm": False,
        "architectures": ["MarianMTModel"], "attention_dropout": 0.0, "classif_dropout": 0.0, "d_model": 16,
        "decoder_attention_heads": 2, "decoder_ffn_dim": 24, "decoder_layerdrop": 0.0, "decoder_layers": 2,
        "dropout": 0.1, "encoder_attention_heads": 2, "encoder_ffn_dim": 24, "encoder_layerdrop": 0.0, "encoder_layers": 2,
        "id2label": {str(i): f"LABEL_{i}" for i in range(3)}, "init_std": 0.02, "is_encoder_decoder": True,
        "label2id": {f"LABEL_{i}": i for i in range(3)}, "max_position_embeddings": 64, "model_type": "marian",
        "normalize_before": False, "normalize_embedding": False, "num_hidden_layers": 2, "scale_embedding": True,
        "static_position_embeddings": True, "vocab_size": size, **ends, **config},
          change=lambda tensors: {**tensors, **places}, tune=tune, dtype=dtype)
    if generation is not None:
        write_json(folder / "generation_config.json", {**ends, **generation})


def opus_en_de(folder):
    size = tokenizers.marian(folder)
    write_json(folder / "tokenizer_config.json", {"target_lang": "de", "source_lang": "en"})
    marian(folder, size, {"_name_or_path": "Helsinki-NLP/opus-mt-en-de", "decoder_vocab_size": size, "num_beams": 6,
                          "share_encoder_decoder_embeddings": True, "transformers_version": "4.22.0.dev0", "use_cache": True},
           {"num_beams": 6, "renormalize_logits": True, "transformers_version": "4.32.0.dev0"})
    return translations(folder, ["the man sleeps.", "a red dog, \u4e2d"])


def opus_en_romance(folder):
    """A multilingual model; decoding options in config.json, as before generation_config.json existed."""
    size = tokenizers.marian(folder, codes=[">>fr<<", ">>pt_br<<"])
    write_json(folder / "tokenizer_config.json", {"source_lang": "eng", "target_lang": "roa", "model_max_length": 512})
    marian(folder, size, {"num_beams": 4, "gradient_checkpointing": False}, None, dtype=torch.float16)
    return translations(folder, [">>fr<< the man sleeps.", ">>pt_br<<a dog", "the >>fr<< dog", ">>xx<< a dog runs."])


FOLDERS = {
    "bert-base-uncased": bert_base_uncased, "bert-base-cased": bert_base_cased, "bert-base-NER": bert_base_ner,
    "distilbert-base-uncased-finetuned-sst-2-english": distilbert_sst2, "roberta-base": roberta_base,
    "twitter-roberta-base-sentiment-latest": twitter_roberta, "roberta-base-squad2": roberta_squad2,
    "distilbert-base-cased-distilled-squad": distilbert_squad, "all-MiniLM-L6-v2": minilm, "bge-small-en-v1.5": bge_small,
    "gpt2": gpt2, "distilgpt2": distilgpt2, "TinyLlama-1.1B-Chat-v1.0": tinyllama, "Llama-3.2-1B": llama_32,
    "SmolLM2-135M": smollm2, "vit-base-patch16-224": vit_base, "vit-of-today": vit_today, "deit-base-patch16-224": deit_base,
    "deit-base-distilled-patch16-224": deit_distilled, "clip-vit-base-patch32": clip_base, "clip-vit-large-patch14": clip_large,
    "siglip-base-patch16-224": siglip_base, "siglip2-base-patch16-224": siglip2_base, "t5-small": t5_small, "flan-t5-small": flan_t5_small,
    "deberta-v3-small": deberta_v3_small, "nli-deberta-v3-small": nli_deberta,
    **{name: partial(make, model=model) for name, make in (
        ("llava-1.5-7b-hf", vision_folders.llava), ("SmolVLM-256M-Instruct", vision_folders.smolvlm),
        ("gemma-3-4b-it", vision_folders.gemma3), ("llava-v1.6-mistral-7b-hf", vision_folders.llava_next),
        ("InternVL3-1B-hf", vision_folders.internvl), ("whisper-tiny", speech_folders.whisper_tiny),
        ("whisper-tiny.en", speech_folders.whisper_tiny_en), ("whisper-large-v3-turbo", speech_folders.whisper_large_v3_turbo))},
    "opus-mt-en-de": opus_en_de, "opus-mt-en-ROMANCE": opus_en_romance}
ELSEWHERE = ("tf_model.h5", "flax_model.msgpack", "pytorch_model.bin", "rust_model.ot", "onnx/model.onnx")


def main():
    for name in sys.argv[1:] or FOLDERS:
        folder = ROOT / name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "onnx").mkdir(parents=True)
        result = FOLDERS[name](folder)
        for other in ELSEWHERE:  # weights of other programs, which must not be opened
            if not (folder / other).exists():
                (folder / other).write_bytes(b"of another program")
        lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in result)
        (folder / "text_results.json").write_text(f"[{lines}]\n")
        for path in folder.rglob("*"):
            if path.is_file():
                os.chmod(path, 0o644)


if __name__ == "__main__":
    main()
