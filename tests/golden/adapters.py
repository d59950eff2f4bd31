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


def record(name, base, auto, **options):
    """The adapter of tests/models/golden/<base>, and the logits of its recorded texts."""
    torch.manual_seed(11)
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    model = auto.from_pretrained(ROOT / base, attn_implementation="eager").eval()
    adapted = get_peft_model(model, LoraConfig(**options)).eval()
    with torch.no_grad():
        for parameter_name, parameter in adapted.named_parameters():
            if "lora_" in parameter_name or "modules_to_save" in parameter_name:
                parameter.normal_(0, 0.3)
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    recorded = load_file(ROOT / base / "expected.safetensors")
    logits, begin = [], 0
    for length in recorded["lengths"].tolist():
        inputs = {"input_ids": recorded["ids"][begin:begin + length][None].long()}
        if options["task_type"] == "SEQ_CLS":  # GPT-2 would add embeddings of types
            inputs["token_type_ids"] = recorded["types"][begin:begin + length][None].long()
        with torch.no_grad():
            found = adapted(**inputs).logits
        logits.append(found.reshape(-1, found.shape[-1]))
        begin += length
    save_file({"logits": torch.cat(logits).contiguous()}, folder / "expected.safetensors")


record("adapter_bert_texts", "bert_texts", hf.AutoModelForSequenceClassification, r=2, lora_alpha=6, task_type="SEQ_CLS",
       target_modules=["query", "value", "intermediate.dense"], modules_to_save=["classifier"])
record("adapter_gpt2", "gpt2", hf.AutoModelForCausalLM, r=3, lora_alpha=3, target_modules=["c_attn", "c_fc"],
       fan_in_fan_out=True, task_type="CAUSAL_LM", alpha_pattern={"c_fc": 9})
record("adapter_llama_grouped", "llama_grouped", hf.AutoModelForCausalLM, r=2, lora_alpha=4, use_rslora=True,
       target_modules=["q_proj", "k_proj", "down_proj"], task_type="CAUSAL_LM")


def record_images(name, base, auto, **options):
    """Likewise of an image classifier and its recorded pixels. transformers 5 names the modules as they are named here."""
    torch.manual_seed(11)
    folder = ROOT / name
    shutil.rmtree(folder, ignore_errors=True)
    adapted = get_peft_model(auto.from_pretrained(ROOT / base, attn_implementation="eager").eval(), LoraConfig(**options)).eval()
    with torch.no_grad():
        for parameter_name, parameter in adapted.named_parameters():
            if "lora_" in parameter_name or "modules_to_save" in parameter_name:
                parameter.normal_(0, 0.3)
        logits = adapted(pixel_values=load_file(ROOT / base / "expected.safetensors")["pixels"]).logits
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    save_file({"logits": logits.contiguous()}, folder / "expected.safetensors")


record_images("adapter_vit_images", "vit_images", hf.AutoModelForImageClassification, r=2, lora_alpha=6,
              target_modules=["q_proj", "v_proj", "fc1"], modules_to_save=["classifier"])
