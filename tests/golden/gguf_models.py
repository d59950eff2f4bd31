"""Writes tests/models/golden_gguf/: models and tokenizers as GGUF files, laid out as llama.cpp's convert_hf_to_gguf.py does it.

    python tests/golden/gguf_models.py

NAME.gguf has the weights of tests/models/golden/NAME. pieces.gguf and bytes.gguf have tokenizers, which PyPI's sentencepiece and
tokenizers made, and NAME.jsonl the ids that these give. Run from the repository root, with gguf, numpy, safetensors, sentencepiece
and tokenizers installed.
"""

import io
import json
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
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def own_name(name):
    module, kind = name.rsplit(".", 1)
    if module in NAMES:
        return f"{NAMES[module]}.{kind}"
    _, _, layer, rest = module.split(".", 3)
    return f"blk.{layer}.{NAMES[rest]}.{kind}"


def paired(rows, heads):
    """Rotary pairs side by side, as in LlamaModel.permute()."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_model(name, architecture):
    config = json.loads((GOLDEN / name / "config.json").read_text())
    writer = gguf.GGUFWriter(FOLDER / f"{name}.gguf", architecture)
    heads, key_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    for tensor, values in load_file(GOLDEN / name / "model.safetensors").items():
        if architecture == "llama" and ("q_proj" in tensor or "k_proj" in tensor):
            values = paired(values, heads if "q_proj" in tensor else key_heads)
        writer.add_tensor(own_name(tensor), values)
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


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, architecture in (("llama_grouped", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3")):
        write_model(name, architecture)
    write_pieces()
    write_bytes()


if __name__ == "__main__":
    main()
