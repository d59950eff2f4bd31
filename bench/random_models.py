"""Model folders of common sizes with random weights and real vocabularies, as written by transformers.

    python bench/random_models.py bert-base VOCABULARY FOLDER

VOCABULARY is a folder with BERT's vocab.txt, or GPT-2's vocab.json and merges.txt. Timings do not depend on the weights.
Comparisons do; transformers' initial weights give every token some probability.
"""

import shutil
import sys
from pathlib import Path


def bert_base():
    import transformers as hf
    return hf.BertModel(hf.BertConfig())


def gpt2_small():
    import transformers as hf
    # No text of a random model may end early.
    return hf.GPT2LMHeadModel(hf.GPT2Config(bos_token_id=50256, eos_token_id=50256))


def llama_small():
    """Rotary positions, so that texts may be long."""
    import transformers as hf
    return hf.LlamaForCausalLM(hf.LlamaConfig(
        vocab_size=50257, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
        num_key_value_heads=8, max_position_embeddings=8192, tie_word_embeddings=True, bos_token_id=50256,
        eos_token_id=50256))


SHAPES = {"bert-base": bert_base, "gpt2-small": gpt2_small, "llama-small": llama_small}


def write_model(shape, vocabulary, folder):
    """Writes the folder unless it exists."""
    import torch
    folder = Path(folder)
    if (folder / "model.safetensors").exists():
        return folder
    torch.manual_seed(1)
    model = SHAPES[shape]()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # zeros and ones would hide a missing bias or norm
                parameter += 0.02 * torch.randn_like(parameter)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("vocab.txt", "vocab.json", "merges.txt"):
        if (Path(vocabulary) / name).exists():
            shutil.copy(Path(vocabulary) / name, folder)
    model.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__)
    write_model(*sys.argv[1:])
