"""Writes tests/models/golden_gguf/: models and tokenizers as GGUF files, laid out as llama.cpp's convert_hf_to_gguf.py does it.

    python tests/golden/gguf_models.py

NAME.gguf has the weights of tests/models/golden/NAME. pieces.gguf and bytes.gguf have tokenizers, which PyPI's sentencepiece and
tokenizers made, and NAME.jsonl the ids that these give. Run from the repository root, with gguf, numpy, safetensors, sentencepiece
and tokenizers installed.
"""

import io
import json
import math
from pathlib import Path

import gguf
import numpy as np
import sentencepiece
from gguf import TokenType
from safetensors.numpy import load_file
from text_tokenizers import CORPUS, TEXTS
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

GOLDEN = Path("tests/models/golden")
FOLDER = Path("tests/models/golden_gguf")
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def paired(rows, heads):
    """Rotary pairs side by side, as in LlamaModel.permute()."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def transformed(architecture, name, values, heads, key_heads):
    """What modify_tensors() of the architecture's class in convert_hf_to_gguf.py does."""
    if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
        return paired(values, heads if "q_proj" in name else key_heads)
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return values + np.float32(1)
    if architecture == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return values.T.copy()
    return values


def add_sizes(writer, config):
    """GPT-2's fields have names of their own."""
    heads = config.get("num_attention_heads", config.get("n_head"))
    writer.add_context_length(config.get("max_position_embeddings", config.get("n_positions")))
    writer.add_embedding_length(config.get("hidden_size", config.get("n_embd")))
    writer.add_block_count(config.get("num_hidden_layers", config.get("n_layer")))
    writer.add_feed_forward_length(config.get("intermediate_size", config.get("n_inner")))
    writer.add_head_count(heads)
    if "num_key_value_heads" in config:
        writer.add_head_count_kv(config["num_key_value_heads"])
    if "rms_norm_eps" in config:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    else:
        writer.add_layer_norm_eps(config.get("layer_norm_eps", config.get("layer_norm_epsilon")))
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])


def add_rotary(writer, config):
    rotary = config["rope_parameters"]
    if "full_attention" in rotary:  # Gemma 3; windows have a fixed base
        assert rotary["sliding_attention"]["rope_theta"] == 10000
        rotary = rotary["full_attention"]
    writer.add_rope_freq_base(rotary["rope_theta"])
    if rotary["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rotary["factor"])
    if rotary["rope_type"] == "longrope":
        first = rotary["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(first)
        writer.add_rope_scaling_attn_factors(
            math.sqrt(1 + math.log(config["max_position_embeddings"] / first) / math.log(first)))
        for kind in ("long", "short"):
            writer.add_tensor(f"rope_factors_{kind}.weight", np.array(rotary[f"{kind}_factor"], np.float32))
    if "partial_rotary_factor" in rotary:
        head_width = config["hidden_size"] // config["num_attention_heads"]
        writer.add_rope_dimension_count(int(rotary["partial_rotary_factor"] * head_width))


def open_writer(name, architecture, config, **splits):
    writer = gguf.GGUFWriter(FOLDER / f"{name}.gguf", architecture, **splits)
    add_sizes(writer, config)
    if "rope_parameters" in config:
        add_rotary(writer, config)
    if config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    if architecture == "gemma3":
        writer.add_sliding_window_pattern(len(config["layer_types"]))  # the last layer has no window
    for key, add in (("attn_logit_softcapping", writer.add_attn_logit_softcapping),
                     ("final_logit_softcapping", writer.add_final_logit_softcapping)):
        if config.get(key):
            add(config[key])
    return writer


def add_weights(writer, folder, architecture, config):
    heads = config.get("num_attention_heads", config.get("n_head"))
    names = gguf.get_tensor_name_map({text: arch for arch, text in gguf.MODEL_ARCH_NAMES.items()}[architecture],
                                     config.get("num_hidden_layers", config.get("n_layer")))
    for name, values in load_file(folder / "model.safetensors").items():
        if name.startswith(("pooler.", "cls.")):
            continue
        values = transformed(architecture, name, values, heads, config.get("num_key_value_heads", heads))
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), values)


def write_model(name, architecture):
    folder = GOLDEN / name
    config = json.loads((folder / "config.json").read_text())
    writer = open_writer(name, architecture, config)
    if architecture in ("bert", "nomic-bert"):
        writer.add_causal_attention(False)
        writer.add_pooling_type(gguf.PoolingType.CLS)
        add_words(writer)
    else:
        writer.add_bos_token_id(config["bos_token_id"])
        writer.add_eos_token_id(config["eos_token_id"])
    add_weights(writer, folder, architecture, config)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_cases(name, encode, texts=TEXTS):
    lines = [json.dumps({"text": text, "ids": encode(text)}) for text in texts]
    (FOLDER / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def write_pieces():
    """SentencePiece's byte pairs, as llama has them."""
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=trained, vocab_size=600, model_type="bpe",
                                             normalization_rule_name="identity", remove_extra_whitespaces=False,
                                             byte_fallback=True, minloglevel=2)
    model = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())
    writer = gguf.GGUFWriter(FOLDER / "pieces.gguf", "llama")
    writer.add_tokenizer_model("llama")
    ids = range(model.vocab_size())
    writer.add_token_list([model.id_to_piece(i) for i in ids])
    writer.add_token_scores([model.get_score(i) for i in ids])
    writer.add_token_types([TokenType.UNKNOWN if model.is_unknown(i) else TokenType.CONTROL if model.is_control(i) else
                            TokenType.BYTE if model.is_byte(i) else TokenType.NORMAL for i in ids])
    writer.add_bos_token_id(model.bos_id())
    writer.add_eos_token_id(model.eos_id())
    writer.add_unk_token_id(model.unk_id())
    writer.add_add_bos_token(True)
    finish(writer)
    # sentencepiece has no way to write a control token in a text; transformers and llama.cpp have.
    written = [model.id_to_piece(i) for i in ids if model.is_control(i) or model.is_unknown(i)]
    write_cases("pieces", lambda text: [model.bos_id()] + model.encode(text),
                [text for text in TEXTS if not any(piece in text for piece in written)])


def write_bytes():
    """Byte-level pairs, as qwen2 has them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=500, special_tokens=["<|endoftext|>", "<|im_start|>"],
                                                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                              show_progress=False))
    parts = json.loads(tokenizer.to_str())["model"]
    writer = gguf.GGUFWriter(FOLDER / "bytes.gguf", "qwen2")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    tokens = sorted(parts["vocab"], key=parts["vocab"].get)
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if token.startswith("<|") else TokenType.NORMAL for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in parts["merges"]])
    writer.add_eos_token_id(0)
    writer.add_chat_template("{{ messages[0].content }}")
    finish(writer)
    write_cases("bytes", lambda text: tokenizer.encode(text).ids)


def write_parts():
    """qwen2 in two files, as llama.cpp's gguf-split makes them."""
    config = json.loads((GOLDEN / "qwen2/config.json").read_text())
    writer = open_writer("qwen2", "qwen2", config, split_max_tensors=14)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    add_weights(writer, GOLDEN / "qwen2", "qwen2", config)
    finish(writer)


# A vocabulary of WordPiece, as large as bert_base's.
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "fox", "jump", "##s", "##ed", "over", ".", ",", "a", "b",
         "##a", "##b", "lazy", "dog", "!", "1", "##1"]


def add_words(writer):
    """As BertModel.set_vocab() of convert_hf_to_gguf.py: words begin with a space, other pieces have no prefix."""
    control = [word.startswith("[") for word in WORDS]
    writer.add_token_type_count(2)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([word if special else word[2:] if word.startswith("##") else "\u2581" + word
                           for word, special in zip(WORDS, control)])
    writer.add_token_types([TokenType.CONTROL if special else TokenType.NORMAL for special in control])
    for add, word in ((writer.add_bos_token_id, "[CLS]"), (writer.add_eos_token_id, "[SEP]"), (writer.add_unk_token_id, "[UNK]"),
                      (writer.add_sep_token_id, "[SEP]"), (writer.add_pad_token_id, "[PAD]"), (writer.add_mask_token_id, "[MASK]")):
        add(WORDS.index(word))


def write_words():
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(WORDS[:5])
    write_cases("bert_base", lambda text: [2] + tokenizer.encode(text).ids + [3],
                TEXTS[:40] + ["the quick FOX, jumps over", "jumped jumpsed aab b1 1b.", "[MASK] dog!", "thé Quick\u00a0fox"])


def write_chat():
    """llama_grouped with a vocabulary of its size, chat templates and recommended sampling."""
    config = json.loads((GOLDEN / "llama_grouped/config.json").read_text())
    writer = open_writer("chat", "llama", config)
    pieces = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "\u2581", "e", "t", "a", "o", "i", "n", "s", "r", "h", "l", "d",
              "\n", "th", "the", "\u2581a", "\u2581the", "er"]
    assert len(pieces) == config["vocab_size"]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([-float(i) if len(piece) == 1 else float(len(piece)) for i, piece in enumerate(pieces)])
    writer.add_token_types([TokenType.UNKNOWN] + 4 * [TokenType.CONTROL] + (len(pieces) - 5) * [TokenType.NORMAL])
    for add, piece in ((writer.add_bos_token_id, "<s>"), (writer.add_eos_token_id, "</s>"), (writer.add_unk_token_id, "<unk>")):
        add(pieces.index(piece))
    writer.add_chat_template([
        {"name": "default", "template": "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>"
                                        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
        {"name": "plain", "template": "{{ messages[0].content }}{{ eos_token }}"}])
    writer.add_sampling_temp(0.75)
    writer.add_sampling_top_k(7)
    writer.add_sampling_penalty_repeat(1.25)
    add_weights(writer, GOLDEN / "llama_grouped", "llama", config)
    finish(writer)


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, architecture in (("llama_grouped", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3"), ("gemma", "gemma"),
                               ("gemma2", "gemma2"), ("gemma3_text", "gemma3"), ("phi3", "phi3"), ("phi3_longrope", "phi3"),
                               ("gpt2", "gpt2"), ("bert_base", "bert"), ("nomic_bert_base", "nomic-bert")):
        write_model(name, architecture)
    write_parts()
    write_chat()
    write_words()
    write_pieces()
    write_bytes()


if __name__ == "__main__":
    main()
