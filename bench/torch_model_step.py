"""Training steps in PyTorch of the models of bench_model_step, from the weights and tokens that it saved.

    python bench/torch_model_step.py --shape bert --save DIR --batch 8 --length 128 --steps 4 --threads 2 [--compile]

Prints one JSON line per step. Used by bench/compare_models.py.
"""

import argparse
import json
import time

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

D_MODEL, HEADS, D_FF, LAYERS = 768, 12, 3072, 12


class Layer(nn.Module):
    """bert: post-norm, GELU; gpt: pre-norm, tanh GELU, causal."""

    def __init__(self, gpt, dropout):
        super().__init__()
        self.gpt = gpt
        self.qkv, self.out = nn.Linear(D_MODEL, 3 * D_MODEL), nn.Linear(D_MODEL, D_MODEL)
        self.fc1, self.fc2 = nn.Linear(D_MODEL, D_FF), nn.Linear(D_FF, D_MODEL)
        self.norm1, self.norm2 = nn.LayerNorm(D_MODEL), nn.LayerNorm(D_MODEL)
        self.dropout = nn.Dropout(dropout)

    def attend(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=self.gpt)
        return self.dropout(self.out(heads.transpose(1, 2).flatten(2)))

    def feed_forward(self, x):
        return self.dropout(self.fc2(F.gelu(self.fc1(x), approximate="tanh" if self.gpt else "none")))

    def forward(self, x):
        if self.gpt:
            x = x + self.attend(self.norm1(x))
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.feed_forward(x))


class Model(nn.Module):
    def __init__(self, gpt, weights, dropout):
        super().__init__()
        self.table = nn.Parameter(weights.pop("table"))
        self.positions = nn.Parameter(weights.pop("embed_positions.weight"))
        self.classes = None if gpt else nn.Parameter(weights.pop("classes"))
        self.layers = nn.ModuleList(Layer(gpt, dropout) for _ in range(LAYERS))
        self.final_norm = nn.LayerNorm(D_MODEL) if gpt else None
        self.dropout = nn.Dropout(dropout)

        def put(module, *names):
            with torch.no_grad():
                module.weight.copy_(torch.cat([weights.pop(f"{name}.weight") for name in names]))
                module.bias.copy_(torch.cat([weights.pop(f"{name}.bias") for name in names]))

        for i, layer in enumerate(self.layers):
            at = f"layers.{i}"
            put(layer.qkv, *(f"{at}.self_attn.{part}_proj" for part in "qkv"))
            put(layer.out, f"{at}.self_attn.out_proj")
            put(layer.norm1, f"{at}.self_attn_layer_norm")
            put(layer.fc1, f"{at}.fc1")
            put(layer.fc2, f"{at}.fc2")
            put(layer.norm2, f"{at}.final_layer_norm")
        if gpt:
            put(self.final_norm, "layer_norm")
        if weights:
            raise SystemExit(f"unexpected weights: {', '.join(sorted(weights))}")

    def forward(self, ids):
        x = self.dropout(F.embedding(ids, self.table) + self.positions[:ids.shape[1]])
        for layer in self.layers:
            x = layer(x)
        x = self.final_norm(x) if self.final_norm is not None else x
        return F.linear(x, self.table if self.classes is None else self.classes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=("bert", "gpt"), required=True)
    parser.add_argument("--save", required=True, help="the folder written by bench_model_step --save")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    weights = load_file(f"{arguments.save}/start.safetensors")
    ids = weights.pop("ids").long().view(arguments.batch, arguments.length)
    labels = weights.pop("labels").long()
    model = Model(arguments.shape == "gpt", weights, arguments.dropout)
    model.train()
    forward = torch.compile(model) if arguments.compile else model
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-4, betas=(0.9, 0.999), eps=1e-8, fused=True)
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        loss = F.cross_entropy(forward(ids).flatten(0, 1), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(json.dumps({"loss": float(loss.detach()), "seconds": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
