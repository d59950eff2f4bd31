"""qkv's encoder-decoder in PyTorch, tuned for CPUs: scaled_dot_product_attention with one mask per batch, a fused projection of
queries, keys and values, fused Adam.

It loads the weights of a qkv model folder (Marian's layout, post-norm); its arithmetic is the same up to rounding.
"""

import json
import math
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Multi-head attention with fused projections."""

    def __init__(self, d_model, heads, self_attention):
        super().__init__()
        self.heads = heads
        self.self_attention = self_attention
        if self_attention:
            self.qkv = nn.Linear(d_model, 3 * d_model)
        else:
            self.q, self.kv = nn.Linear(d_model, d_model), nn.Linear(d_model, 2 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def split(self, x, parts):  # [batch, length, parts * d_model] -> parts of [batch, heads, length, d]
        return x.unflatten(-1, (parts, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x, memory=None, mask=None, causal=False):
        if self.self_attention:
            q, k, v = self.split(self.qkv(x), 3)
        else:
            (q,), (k, v) = self.split(self.q(x), 1), self.split(self.kv(memory), 2)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(heads.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A post-norm layer; `cross`: a decoder layer."""

    def __init__(self, config, side, cross):
        super().__init__()
        d_model, heads = config["d_model"], config[f"{side}_attention_heads"]
        self.self_attn = Attention(d_model, heads, True)
        self.self_norm = nn.LayerNorm(d_model)
        self.cross_attn = Attention(d_model, heads, False) if cross else None
        self.cross_norm = nn.LayerNorm(d_model) if cross else None
        self.fc1 = nn.Linear(d_model, config[f"{side}_ffn_dim"])
        self.fc2 = nn.Linear(config[f"{side}_ffn_dim"], d_model)
        self.final_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(config["dropout"])

    def forward(self, x, mask, memory=None, memory_mask=None):
        causal = self.cross_attn is not None
        x = self.self_norm(x + self.dropout(self.self_attn(x, mask=mask, causal=causal)))
        if self.cross_attn is not None:
            x = self.cross_norm(x + self.dropout(self.cross_attn(x, memory, memory_mask)))
        return self.final_norm(x + self.dropout(self.fc2(F.relu(self.fc1(x)))))


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        d_model = config["d_model"]
        self.table = nn.Embedding(config["vocab_size"], d_model)
        self.bias = nn.Parameter(torch.zeros(1, config["vocab_size"]))
        self.encoder = nn.ModuleList(Layer(config, "encoder", False) for _ in range(config["encoder_layers"]))
        self.decoder = nn.ModuleList(Layer(config, "decoder", True) for _ in range(config["decoder_layers"]))
        self.dropout = nn.Dropout(config["dropout"])
        angle = torch.arange(512)[:, None] / 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        self.register_buffer("positions", torch.cat([angle.sin(), angle.cos()], -1).float())

    def embed(self, ids):
        return self.dropout(self.table(ids) * math.sqrt(self.config["d_model"]) + self.positions[:ids.shape[1]])

    def forward(self, source, inputs, source_mask):
        """Ids [batch, length], additive mask [batch, 1, 1, source length] -> logits [batch, length, vocabulary]."""
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, source_mask)
        x = self.embed(inputs)
        for layer in self.decoder:  # padding comes last, so no real row attends to it
            x = layer(x, None, memory, source_mask)
        return F.linear(x, self.table.weight, self.bias[0])


def from_folder(folder, dropout):
    """Loads the model of a qkv folder."""
    folder = Path(folder)
    config = json.loads((folder / "config.json").read_text())
    if config["activation_function"] != "relu" or not config["scale_embedding"]:
        raise SystemExit(f"{folder}: expected ReLU and scaled embeddings, as in the presets")
    config["dropout"] = dropout
    weights = load_file(str(folder / "model.safetensors"))
    model = Transformer(config)

    def put(parameter, *names):
        value = torch.cat([weights.pop(name) for name in names])
        if parameter.shape != value.shape:
            raise SystemExit(f"{names}: expected {tuple(parameter.shape)}, found {tuple(value.shape)}")
        with torch.no_grad():
            parameter.copy_(value)

    def put_both(module, *prefixes):
        for kind in ("weight", "bias"):
            put(getattr(module, kind), *(f"{prefix}.{kind}" for prefix in prefixes))

    put(model.table.weight, "model.shared.weight")
    put(model.bias, "final_logits_bias")
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for i, layer in enumerate(layers):
            at = f"model.{side}.layers.{i}"
            own = f"{at}.self_attn"
            put_both(layer.self_attn.qkv, f"{own}.q_proj", f"{own}.k_proj", f"{own}.v_proj")
            put_both(layer.self_attn.out, f"{own}.out_proj")
            put_both(layer.self_norm, f"{own}_layer_norm")
            if side == "decoder":
                cross = f"{at}.encoder_attn"
                put_both(layer.cross_attn.q, f"{cross}.q_proj")
                put_both(layer.cross_attn.kv, f"{cross}.k_proj", f"{cross}.v_proj")
                put_both(layer.cross_attn.out, f"{cross}.out_proj")
                put_both(layer.cross_norm, f"{cross}_layer_norm")
            put_both(layer.fc1, f"{at}.fc1")
            put_both(layer.fc2, f"{at}.fc2")
            put_both(layer.final_norm, f"{at}.final_layer_norm")
    rest = [name for name in weights if not name.endswith("embed_positions.weight")]
    if rest:
        raise SystemExit(f"{folder}: unexpected weights: {', '.join(sorted(rest))}")
    return model


def padded(rows, filler):
    length = max(map(len, rows))
    return torch.tensor([row + [filler] * (length - len(row)) for row in rows])


def tensors_of(batch, start):
    """A batch of qkv (lists of ids per sentence, </s> included) as padded tensors: source, its mask, inputs, labels."""
    source, labels = padded(batch["source"], start), padded(batch["target"], -100)
    inputs = torch.cat([torch.full((len(labels), 1), start), labels[:, :-1].clamp(min=0)], 1)
    lengths = torch.tensor([len(row) for row in batch["source"]])
    absent = torch.arange(source.shape[1])[None] >= lengths[:, None]
    mask = torch.zeros(source.shape).masked_fill(absent, float("-inf"))[:, None, None, :]
    return source, mask, inputs, labels
