"""Writes tests/nn/golden/positions.safetensors: transformers' results for positions applied in attention.

Run from the repository root, with torch, transformers and safetensors installed:

    python tests/golden/positions.py

buckets.<n>.<max>.<both|backwards>: T5's buckets of distances -300 to 300. distances.<n>.<max>: DeBERTa V2's rows of the
distances -700 to 700. slopes.<heads>: BLOOM's ALiBi.
rotary.<kind>: cosines [3, d / 2], then sines, of positions 1, 7 and 900, as in LLaMA.
"""

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.t5.modeling_t5 import T5Attention

found = {}
distances = torch.arange(-300, 301)
for buckets, most in ((32, 128), (8, 20), (12, 300), (4, 3)):
    for name, both in (("both", True), ("backwards", False)):
        found[f"buckets.{buckets}.{most}.{name}"] = T5Attention._relative_position_bucket(
            distances, bidirectional=both, num_buckets=buckets, max_distance=most).int()

distances = torch.arange(-700, 701)
for buckets, most in ((256, 512), (4, 20), (6, 9), (8, 300), (2, 512)):
    rows = make_log_bucket_position(distances, buckets, most).long()
    found[f"distances.{buckets}.{most}"] = torch.clamp(rows + buckets, 0, 2 * buckets - 1).int()
found["distances.6.0"] = torch.clamp(distances + 6, 0, 11).int()

for heads in (1, 2, 6, 8, 12, 20):
    # Slope times position; position 1 gives the slope.
    found[f"slopes.{heads}"] = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1].contiguous()

ROTARY = {
    "none": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 2.5},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256},
}
ROTARY["longrope"] = {"rope_type": "longrope", "short_factor": [1 + 0.25 * i for i in range(12)], "long_factor": [8.0] * 12,
                     "factor": 2.0, "original_max_position_embeddings": 1000}
for name, parameters in ROTARY.items():
    config = LlamaConfig(hidden_size=48, num_attention_heads=2, max_position_embeddings=1024,
                         rope_parameters={"rope_theta": 5000.0, **parameters})
    places = torch.tensor([[1, 7, 900]])
    cosines, sines = LlamaRotaryEmbedding(config)(torch.zeros(1, 3, 48), places)
    half = cosines.shape[-1] // 2
    found[f"rotary.{name}"] = torch.stack([cosines[0, :, :half], sines[0, :, :half]]).contiguous()

save_file(found, "tests/nn/golden/positions.safetensors")
