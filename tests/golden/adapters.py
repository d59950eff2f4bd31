"""Records LoRA adapters made by PyPI's peft, with the logits of the adapted models, in tests/models/golden.

Run from the repository root, after families.py, with torch, transformers, peft and safetensors:

    python tests/golden/adapters.py
"""

import shutil
from pathlib import Path

import torch
import transformers as hf
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

ROOT = Path("tests/models/golden")
torch.set_num_threads(1)


def record(name, base, auto, logits_of, **options):
    """The adapter of tests/models/golden/<base>, and the logits of its recorded inputs."""
    torch.manual_seed(11)
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    model = auto.from_pretrained(ROOT / base, attn_implementation="eager").eval()
    adapted = get_peft_model(model, LoraConfig(**options)).eval()
    with torch.no_grad():
        for parameter_name, parameter in adapted.named_parameters():
            if "lora_" in parameter_name or "modules_to_save" in parameter_name:
                parameter.normal_(0, 0.3)
        logits = logits_of(adapted, load_file(ROOT / base / "expected.safetensors"))
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    save_file({"logits": logits.contiguous()}, folder / "expected.safetensors")


def of_texts(types):
    def logits_of(adapted, recorded):
        logits, begin = [], 0
        for length in recorded["lengths"].tolist():
            inputs = {"input_ids": recorded["ids"][begin:begin + length][None].long()}
            if types:
                inputs["token_type_ids"] = recorded["types"][begin:begin + length][None].long()
            found = adapted(**inputs).logits
            logits.append(found.reshape(-1, found.shape[-1]))
            begin += length
        return torch.cat(logits)

    return logits_of


def of_images(adapted, recorded):
    return adapted(pixel_values=recorded["pixels"]).logits


record("adapter_bert_texts", "bert_texts", hf.AutoModelForSequenceClassification, of_texts(types=True), r=2, lora_alpha=6,
       task_type="SEQ_CLS", target_modules=["query", "value", "intermediate.dense"], modules_to_save=["classifier"])
record("adapter_gpt2", "gpt2", hf.AutoModelForCausalLM, of_texts(types=False), r=3, lora_alpha=3, fan_in_fan_out=True,
       target_modules=["c_attn", "c_fc"], task_type="CAUSAL_LM", alpha_pattern={"c_fc": 9})
record("adapter_llama_grouped", "llama_grouped", hf.AutoModelForCausalLM, of_texts(types=False), r=2, lora_alpha=4,
       use_rslora=True, target_modules=["q_proj", "k_proj", "down_proj"], task_type="CAUSAL_LM")
# Queries, keys and values are one module, fused within groups of heads.
record("adapter_falcon_groups", "falcon_groups", hf.AutoModelForCausalLM, of_texts(types=False), r=2, lora_alpha=4,
       target_modules=["query_key_value", "dense_h_to_4h"], task_type="CAUSAL_LM")
# transformers 5 names the modules of ViT as qkv does.
record("adapter_vit_images", "vit_images", hf.AutoModelForImageClassification, of_images, r=2, lora_alpha=6,
       target_modules=["q_proj", "v_proj", "fc1"], modules_to_save=["classifier"])
# Patterns are regular expressions; the first that matches counts.
record("adapter_llama_patterns", "llama_grouped", hf.AutoModelForCausalLM, of_texts(types=False), r=2, lora_alpha=4,
       target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM", rank_pattern={r"layers\.[1-9]\..*_proj": 3},
       alpha_pattern={r".*\.layers\.1\..*(q_proj|v_proj)": 24, "1.mlp.down_proj": 9, "v_proj": 16, "_proj": 99})
