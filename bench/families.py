"""Speed of language-model families per floating-point operation, as a share of LLaMA's: random models of about equal size, a prompt of
512 tokens and the decoding of one text. Operations of a token are twice the parameters that it uses in products, and those of its
attention.

    python bench/families.py --qkv build/release/bin/qkv [--rounds 5] [--threads 2] [--families llama qwen3 ...] [--models FOLDER]

Needs transformers and torch, which write the models once. Families alternate within each round.
"""

import argparse
import json
import subprocess
import time
from pathlib import Path

from measured import row, spread, table

PROMPT, STEPS, VOCABULARY = 512, 64, 4000
DENSE = {
    "llama": {}, "qwen3": {"head_dim": 64}, "gemma2": {"head_dim": 64, "sliding_window": 4096},
    "gemma3_text": {"head_dim": 64, "sliding_window": 4096}, "phi3": {"pad_token_id": 0}, "gpt_neox": {"intermediate_size": 2112}, "opt": {"ffn_dim": 2112},
    "falcon": {"ffn_hidden_size": 2112, "multi_query": False}, "bloom": {"n_layer": 8, "n_head": 8}, "cohere2": {"sliding_window": 4096},
    "olmo2": {"pad_token_id": 0}, "granite": {}, "starcoder2": {"intermediate_size": 2112}, "glm4": {"head_dim": 64, "pad_token_id": 0},
    "smollm3": {"pad_token_id": 0}}
EXPERTS = {
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 704},
    "qwen3_moe": {"head_dim": 64, "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 352},
    "olmoe": {"num_experts": 16, "num_experts_per_tok": 4, "intermediate_size": 352, "pad_token_id": 0},
    "gpt_oss": {"head_dim": 64, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 704}}
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8,
         "num_key_value_heads": 8, "max_position_embeddings": 4096, "bos_token_id": 1, "eos_token_id": 2}


def write_model(family, folder):
    """A folder with a tokenizer of whole words: "w7" is token 7."""
    if (folder / "tokenizer.json").exists():
        return
    import torch
    import transformers as hf
    torch.manual_seed(1)
    model = hf.AutoModelForCausalLM.from_config(hf.AutoConfig.for_model(family, **SIZES | (DENSE | EXPERTS)[family]))
    model.save_pretrained(folder)
    if family in ("bloom", "falcon", "opt"):  # which have no such fields
        config = json.loads((folder / "config.json").read_text())
        for field in ("intermediate_size", "num_key_value_heads", *(["max_position_embeddings"] if family == "bloom" else [])):
            config.pop(field, None)
        (folder / "config.json").write_text(json.dumps(config))
    words = {f"w{i}": i for i in range(VOCABULARY)}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}}))


def operations(qkv, folder):
    """Of a token in products with weights, and of a pair of query and key in all layers."""
    cost = json.loads(subprocess.run([qkv, "inspect", folder, "--json"], check=True, capture_output=True, text=True).stdout)
    parts = {part["name"]: part["active_parameters"] for part in cost["parts"]}
    used = sum(count for name, count in parts.items() if name not in ("norms", "embeddings", "lm_head"))
    return 2 * (used + VOCABULARY * SIZES["hidden_size"]), 4 * SIZES["num_hidden_layers"] * SIZES["hidden_size"]


def seconds(qkv, folder, tokens, prompt, threads):
    """Of a run of `qkv generate`, including the start of the program."""
    text = " ".join(f"w{3 + 7 * i % (VOCABULARY - 3)}" for i in range(prompt))
    began = time.perf_counter()
    subprocess.run([qkv, "generate", folder, text, "--threads", str(threads), "--max-new-tokens", str(tokens),
                    "--min-new-tokens", str(tokens), "--beam", "1"], check=True, capture_output=True)
    return time.perf_counter() - began


def rates(qkv, folder, threads):
    """Operations a second of the prompt and of decoding, without the program's start."""
    token, pair = operations(qkv, folder)
    start = seconds(qkv, folder, 1, 1, threads)
    prompt = seconds(qkv, folder, 1, PROMPT, threads)
    decoded = seconds(qkv, folder, 1 + STEPS, PROMPT, threads)
    pairs = PROMPT * (PROMPT + 1) / 2
    return (PROMPT * token + pairs * pair) / (prompt - start), STEPS * (token + (PROMPT + STEPS / 2) * pair) / (decoded - prompt)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qkv", default="build/release/bin/qkv")
    parser.add_argument("--models", type=Path, default=Path("build/families"))
    parser.add_argument("--families", nargs="*", default=[*DENSE, *EXPERTS], choices=[*DENSE, *EXPERTS])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    families = ["llama", *(family for family in arguments.families if family != "llama")]
    for family in families:
        write_model(family, arguments.models / family)
    measured = {family: [] for family in families}
    for _ in range(arguments.rounds):
        for family in families:
            measured[family].append(rates(arguments.qkv, arguments.models / family, arguments.threads))
    table(f"Operations a second; ratios to llama in {arguments.rounds} rounds",
          ("family", "Mflop a token", f"prompt of {PROMPT}, Gflop/s", "decoding, Gflop/s", "prompt / llama", "decoding / llama"))
    for family, found in measured.items():
        token = operations(arguments.qkv, arguments.models / family)[0]
        medians = [sorted(one[i] for one in found)[len(found) // 2] / 1e9 for i in (0, 1)]
        row(family, f"{token / 1e6:.1f}", *(f"{rate:.1f}" for rate in medians),
            *(spread([one[i] / llama[i] for one, llama in zip(found, measured["llama"])]) for i in (0, 1)))


if __name__ == "__main__":
    main()
