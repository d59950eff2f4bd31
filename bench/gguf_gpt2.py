"""Converts a GPT-2 folder to a GGUF file for llama.cpp: f32, bf16, or int8 (Q8_0: a scale per 32 weights).

    python bench/gguf_gpt2.py FOLDER FORM FILE

Needs gguf and safetensors from PyPI.
"""

import json
import sys
from pathlib import Path

from gguf_forms import types, write_file

TENSORS = {"wte.weight": "token_embd.weight", "wpe.weight": "position_embd.weight", "ln_f.weight": "output_norm.weight",
           "ln_f.bias": "output_norm.bias"}
PARTS = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
         "mlp.c_proj": "ffn_down"}


def gguf_name(name):
    name = name.removeprefix("transformer.")
    if name in TENSORS:
        return TENSORS[name]
    _, layer, rest = name.split(".", 2)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{PARTS[part]}.{kind}"


def write_gguf(folder, form, file):
    """Writes the file unless it exists."""
    import gguf
    from safetensors.numpy import load_file
    folder, file = Path(folder), Path(file)
    if file.exists():
        return file
    config = json.loads((folder / "config.json").read_text())
    kind = types()[form]
    writer = gguf.GGUFWriter(str(file), "gpt2")
    writer.add_block_count(config["n_layer"])
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    tokens = sorted(json.loads((folder / "vocab.json").read_text(encoding="utf-8")).items(), key=lambda item: item[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token for token, _ in tokens])
    writer.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges((folder / "merges.txt").read_text(encoding="utf-8").splitlines()[1:])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    for name, values in load_file(folder / "model.safetensors").items():
        name = gguf_name(name)
        if values.ndim == 1 or name == "position_embd.weight":
            writer.add_tensor(name, values)
            continue
        values = values if name == "token_embd.weight" else values.T.copy()  # GPT-2 stores weights transposed
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    write_file(writer)
    return file


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    write_gguf(*sys.argv[1:])
