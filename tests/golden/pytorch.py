"""Writes tests/{ops,nn}/golden/*.safetensors: results of PyTorch, with which the C++ tests compare qkv.

Run from the repository root, with torch and numpy installed (a few seconds):

    python tests/golden/pytorch.py

The numbers of a case depend only on its own fixed seed, so that cases can be added without changing others.

Inputs and parameters are drawn as float32; everything is computed in float64 and rounded once to float32, so that files have
exact results without PyTorch's rounding. No dropout. Nothing is left at a default of zeros or ones: biases and LayerNorm gains
are random.

A file has, for one case:
    <input>                 the inputs by name (query, key, value, input, src, tgt, bias, ids, ...)
    param.<name>            every parameter, named as in PyTorch's state_dict
    output                  the output (further outputs under their own names, such as weights)
    grad_output             a random gradient of the output
    grad.<input>            the gradient of sum(output * grad_output) with respect to that input
    grad.param.<name>       and with respect to each parameter
and its configuration as text in the metadata. Masks are U8 named `keep`, 1 = may be attended to; `bias` is added to the scores.
Sequences are padded to equal lengths [batch, length, features]; if lengths differ, `lengths` (or src_lengths, tgt_lengths), I32
[batch], are the numbers of valid rows: grad_output is zero in the others, and only valid rows should be compared (padding is
random, so that reading it is detected).
"""

import json
import math
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
F64 = torch.float64


class Case:
    """The tensors of one file, drawn from a generator seeded by the file's name."""

    def __init__(self, path, **configuration):
        self.path = Path("tests") / f"{path}.safetensors"
        self.random = np.random.default_rng(zlib.crc32(path.encode()))
        self.tensors = {}
        self.metadata = {"torch": torch.__version__.split("+")[0], "case": path.split("/")[-1]}
        self.metadata |= {key: str(value).lower() for key, value in configuration.items()}
        self.leaves = {}

    def draw(self, *shape, scale=1.0, shift=0.0):
        """Random normal numbers that float32 holds exactly, as float64."""
        numbers = self.random.standard_normal(shape) * scale + shift
        return torch.from_numpy(numbers.astype(np.float32).astype(np.float64))

    def leaf(self, name, tensor):
        """An input or parameter with a gradient."""
        self.keep(name, tensor)
        self.leaves[name] = tensor.requires_grad_()
        return tensor

    def input(self, name, *shape, **how):
        return self.leaf(name, self.draw(*shape, **how))

    def keep(self, name, tensor):
        assert name not in self.tensors, name
        self.tensors[name] = tensor.detach().clone()
        return tensor

    def lengths(self, name, *lengths):
        self.keep(name, torch.tensor(lengths, dtype=torch.int32))
        return torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]  # [batch, length], True = valid

    def module(self, module):
        """Randomises every parameter and makes it a leaf."""
        module = module.to(F64).eval()
        for name, parameter in module.named_parameters():
            fan_in = parameter.shape[-1] if parameter.dim() > 1 else 1
            gain = "norm" in name and name.endswith("weight")
            if parameter.dim() > 1:
                numbers = self.draw(*parameter.shape, scale=1 / math.sqrt(fan_in))
            else:
                numbers = self.draw(*parameter.shape, scale=0.3, shift=1.0 if gain else 0.0)
            with torch.no_grad():
                parameter.copy_(numbers)
            self.leaf(f"param.{name}", parameter)
        return module

    def finish(self, output, valid=None):
        """Draws the upstream gradient, runs backward and writes the file. valid [batch, length]: valid rows."""
        self.keep("output", output)
        upstream = self.draw(*output.shape)
        if valid is not None:
            upstream = upstream * valid.reshape(*valid.shape, *[1] * (output.dim() - valid.dim()))
        self.keep("grad_output", upstream)
        output.backward(upstream)
        for name, leaf in self.leaves.items():
            assert leaf.grad is not None and leaf.grad.abs().max() > 0, (self.path, name)
            self.keep(f"grad.{name}", leaf.grad)
        self.write()

    def write(self):
        """The safetensors format, in a fixed order (bytes last, for alignment), so that equal numbers give equal bytes."""
        header, parts, end = {"__metadata__": dict(sorted(self.metadata.items()))}, [], 0
        arrays = {name: tensor.numpy() for name, tensor in self.tensors.items()}
        for name, array in sorted(arrays.items(), key=lambda item: (item[1].dtype == np.uint8, item[0])):
            if array.dtype == np.float64:
                array = array.astype(np.float32)
            kind = {"float32": "F32", "int32": "I32", "uint8": "U8"}[array.dtype.name]
            assert not np.isnan(array).any(), (self.path, name)
            data = np.ascontiguousarray(array).tobytes()
            header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [end, end + len(data)]}
            parts.append(data)
            end += len(data)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
        assert self.path.stat().st_size < 300_000, self.path


def u8(mask):
    return mask.to(torch.uint8)


def causal_mask(queries, keys):
    """True = may be attended to; aligned to the last key, as with a KV cache."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


# --- softmax(Q K^T / sqrt(d_k)) V -------------------------------------------------------------------------------------
# query [batch, queries, heads, d_k], key [batch, keys, heads, d_k], value [batch, keys, heads, d_v] -> output [batch,
# queries, heads, d_v] (PyTorch has heads before rows); weights [batch, heads, queries, keys], keep and bias likewise or
# with extents of 1.


def attention(name, batch, heads, queries, keys, d_k, d_v, causal=False, keep=None, bias=None, scale=None,
              weights=True):
    case = Case(f"ops/golden/attention_{name}", causal=causal, heads=heads, d_k=d_k, d_v=d_v,
                **({} if scale is None else {"scale": scale}))
    query = case.input("query", batch, queries, heads, d_k)
    key = case.input("key", batch, keys, heads, d_k)
    value = case.input("value", batch, keys, heads, d_v)
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    mask = torch.zeros(1, 1, 1, 1, dtype=F64)
    if keep is not None:
        allowed = keep(case)
        case.keep("keep", u8(allowed))
        mask = mask.masked_fill(~allowed, -math.inf)
    if bias is not None:
        mask = mask + case.input("bias", *bias)
    if causal:
        mask = mask.masked_fill(~causal_mask(queries, keys), -math.inf)
    if causal and queries == keys and keep is None and bias is None:
        output = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    elif keep is not None and bias is None and not causal:
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=scale)
    else:
        mask = mask.expand(batch, heads, queries, keys)
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    with torch.no_grad():  # PyTorch's function does not return weights
        scores = q @ k.transpose(2, 3) * (1 / math.sqrt(d_k) if scale is None else scale) + mask
        probabilities = torch.softmax(scores, -1).nan_to_num(0.0)
        assert (probabilities @ v - output).abs().max() < 1e-12, name
    if weights:
        case.keep("weights", probabilities)
    case.finish(output.transpose(1, 2))


def random_keep(*shape, empty_row=None):
    def make(case):
        allowed = torch.from_numpy(case.random.random(shape) < 0.6)
        allowed[..., 0] = True  # every row may attend to some key
        if empty_row is not None:
            allowed[..., empty_row, :] = False
        return allowed

    return make


def attention_cases():
    attention("plain", batch=3, heads=2, queries=5, keys=7, d_k=6, d_v=10)
    attention("one_head", batch=1, heads=1, queries=4, keys=3, d_k=8, d_v=8)
    attention("scale", batch=2, heads=2, queries=3, keys=6, d_k=5, d_v=3, scale=0.7)
    attention("causal", batch=2, heads=3, queries=7, keys=7, d_k=8, d_v=4, causal=True)
    attention("causal_last_rows", batch=2, heads=2, queries=3, keys=8, d_k=8, d_v=8, causal=True)
    attention("keep_keys", batch=3, heads=2, queries=5, keys=7, d_k=6, d_v=10, keep=random_keep(3, 1, 1, 7))
    attention("keep_pairs", batch=2, heads=2, queries=6, keys=9, d_k=4, d_v=7, keep=random_keep(1, 1, 6, 9))
    attention("keep_heads", batch=2, heads=3, queries=4, keys=5, d_k=4, d_v=4, keep=random_keep(2, 3, 4, 5))
    attention("keep_empty_row", batch=2, heads=2, queries=4, keys=5, d_k=4, d_v=6,
              keep=random_keep(1, 1, 4, 5, empty_row=2))
    attention("bias", batch=2, heads=3, queries=5, keys=7, d_k=6, d_v=10, bias=(2, 3, 5, 7))
    attention("bias_heads", batch=2, heads=3, queries=6, keys=6, d_k=6, d_v=5, bias=(1, 3, 6, 6))
    attention("everything", batch=2, heads=2, queries=6, keys=8, d_k=5, d_v=9, causal=True,
              keep=random_keep(2, 1, 1, 8), bias=(1, 2, 6, 8))
    attention("long", batch=1, heads=2, queries=70, keys=53, d_k=40, d_v=24, weights=False)
    attention("long_causal", batch=1, heads=1, queries=131, keys=131, d_k=24, d_v=40, causal=True, weights=False)


# --- Pointwise functions, norms, tables and the loss -------------------------------------------------------------------


def function_cases():
    for name, function in {"relu": F.relu, "gelu": F.gelu, "silu": F.silu,
                           "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}.items():
        case = Case(f"ops/golden/{name}")
        numbers = torch.cat([torch.linspace(-12, 12, 97, dtype=F64).float().to(F64), case.draw(88, scale=2.0)])
        case.finish(function(case.leaf("input", numbers.reshape(5, 37))))

    for name, rows, features, epsilon, shift in [("layer_norm", 13, 24, 1e-5, 0.5), ("layer_norm_odd", 5, 37, 1e-5, -20.0),
                                                 ("layer_norm_epsilon", 6, 16, 0.1, 0.0)]:
        case = Case(f"ops/golden/{name}", epsilon=epsilon)
        norm = nn.LayerNorm(features, eps=epsilon)
        x = case.input("input", rows, features, shift=shift)
        gain = case.leaf("param.weight", case.draw(features, scale=0.5, shift=1.0))
        offset = case.leaf("param.bias", case.draw(features))
        case.finish(F.layer_norm(x, norm.normalized_shape, gain, offset, epsilon))

    for name, smoothing, biased in [("cross_entropy", 0.0, False), ("cross_entropy_smoothed", 0.1, True)]:
        rows, features, classes = 23, 16, 61
        case = Case(f"ops/golden/{name}", label_smoothing=smoothing, reduction="mean")
        x = case.input("input", rows, features)
        weight = case.leaf("param.weight", case.draw(classes, features, scale=0.5))
        bias = case.leaf("param.bias", case.draw(classes)) if biased else None
        labels = torch.from_numpy(case.random.integers(0, classes, rows))
        case.keep("labels", labels.to(torch.int32))
        logits = F.linear(x, weight, bias)
        logits.retain_grad()
        case.leaves["logits"] = case.keep("logits", logits)
        case.keep("row_loss", F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="none"))
        case.keep("row_nll", F.cross_entropy(logits, labels, reduction="none"))
        case.finish(F.cross_entropy(logits, labels, label_smoothing=smoothing).reshape(1))

    # With the factor sqrt(d_model) and positions, as in a model's first layer. Sinusoids of the paper (section 3.5) in
    # both layouts: alternating sin and cos (added here), and all sines before all cosines as in Marian.
    vocabulary, features, places = 19, 24, 40
    case = Case("ops/golden/embedding", factor=math.sqrt(features))
    angle = torch.arange(places, dtype=F64)[:, None] / 10000.0 ** (torch.arange(0, features, 2, dtype=F64) / features)
    interleaved = torch.stack([angle.sin(), angle.cos()], -1).reshape(places, features)
    positions = case.keep("sinusoids_interleaved", interleaved).float().to(F64)
    case.keep("sinusoids_halves", torch.cat([angle.sin(), angle.cos()], -1))
    table = case.leaf("param.weight", case.draw(vocabulary, features))
    ids = torch.from_numpy(case.random.integers(0, vocabulary, 31))
    position = torch.cat([torch.arange(17), torch.arange(14)])
    case.keep("ids", ids.to(torch.int32))
    case.keep("position", position.to(torch.int32))
    case.finish(F.embedding(ids, table) * math.sqrt(features) + positions[position])

    case = Case("ops/golden/linear")
    linear = case.module(nn.Linear(21, 34))
    case.finish(linear(case.input("input", 11, 21)))


# --- nn.MultiheadAttention --------------------------------------------------------------------------------------------
# query, key, value [batch, length, features]; in self-attention all three are `query`.


def multihead(name, heads, d_model=16, cross=False, lengths=None, key_lengths=None, causal=False, keep=False, bias=False,
              bias_terms=True):
    case = Case(f"nn/golden/multihead_{name}", heads=heads, d_model=d_model, causal=causal, cross=cross,
                bias=bias_terms)
    batch, queries, keys = 3, 7, 5 if cross else 7
    module = case.module(nn.MultiheadAttention(d_model, heads, bias=bias_terms, batch_first=True))
    query = case.input("query", batch, queries, d_model)
    key = case.input("key", batch, keys, d_model) if cross else query
    value = case.input("value", batch, keys, d_model) if cross else query

    valid = case.lengths("lengths", *lengths) if lengths else None
    key_valid = case.lengths("key_lengths", *key_lengths) if key_lengths else valid if not cross else None
    mask = torch.zeros(batch, heads, queries, keys, dtype=F64)
    if bias:
        mask = mask + case.input("bias", batch, heads, queries, keys)
    if keep:
        allowed = random_keep(1, 1, queries, keys)(case)
        case.keep("keep", u8(allowed))
        mask = mask.masked_fill(~allowed, -math.inf)
    if causal:
        mask = mask.masked_fill(~causal_mask(queries, keys), -math.inf)
    padding = None if key_valid is None else torch.zeros(batch, keys, dtype=F64).masked_fill(~key_valid, -math.inf)
    output, weights = module(query, key, value, key_padding_mask=padding, average_attn_weights=False,
                             attn_mask=mask.flatten(0, 1) if bias or keep or causal else None)
    case.keep("weights", weights)  # [batch, heads, queries, keys]
    case.finish(output, valid)


def multihead_cases():
    multihead("self", heads=4)
    multihead("self_one_head", heads=1)
    multihead("self_no_bias", heads=4, bias_terms=False)
    multihead("self_causal", heads=4, causal=True)
    multihead("self_lengths", heads=4, lengths=(7, 5, 2))
    multihead("self_causal_lengths", heads=2, d_model=24, lengths=(4, 7, 1), causal=True)
    multihead("self_keep", heads=2, keep=True)
    multihead("self_bias", heads=4, bias=True)
    multihead("self_bias_lengths", heads=2, lengths=(3, 7, 6), causal=True, bias=True)
    multihead("cross", heads=4, cross=True)
    multihead("cross_lengths", heads=4, cross=True, lengths=(7, 2, 5), key_lengths=(3, 5, 4))


# --- Layers and the whole Transformer -----------------------------------------------------------------------------------
# src, tgt [batch, length, d_model]; rows of src beyond src_lengths are masked as keys, the target's self-attention is
# causal. Each layer normalises first (norm = pre) or last (norm = post).

SHAPE = dict(d_model=16, nhead=4, dim_feedforward=32, dropout=0.0, batch_first=True)


def layer_cases():
    for norm, activation in [("post", "relu"), ("pre", "gelu")]:
        how = dict(activation=activation, norm_first=norm == "pre")
        what = dict(norm=norm, activation=activation, heads=SHAPE["nhead"], d_model=SHAPE["d_model"],
                    d_ff=SHAPE["dim_feedforward"], epsilon=1e-5)

        case = Case(f"nn/golden/encoder_layer_{norm}", **what)
        layer = case.module(nn.TransformerEncoderLayer(**SHAPE, **how))
        src = case.input("src", 3, 7, 16)
        valid = case.lengths("src_lengths", 7, 4, 1)
        case.finish(layer(src, src_key_padding_mask=~valid), valid)

        case = Case(f"nn/golden/decoder_layer_{norm}", **what)
        layer = case.module(nn.TransformerDecoderLayer(**SHAPE, **how))
        tgt, memory = case.input("tgt", 3, 5, 16), case.input("memory", 3, 7, 16)
        valid = case.lengths("tgt_lengths", 3, 5, 1)
        memory_valid = case.lengths("src_lengths", 4, 2, 7)
        output = layer(tgt, memory, tgt_mask=~causal_mask(5, 5), tgt_key_padding_mask=~valid,
                       memory_key_padding_mask=~memory_valid)
        case.finish(output, valid)

        case = Case(f"nn/golden/transformer_{norm}", **what, encoder_layers=2, decoder_layers=2, final_norm=True)
        model = case.module(nn.Transformer(**SHAPE, **how, num_encoder_layers=2, num_decoder_layers=2))
        src, tgt = case.input("src", 3, 7, 16), case.input("tgt", 3, 6, 16)
        src_valid, tgt_valid = case.lengths("src_lengths", 5, 7, 2), case.lengths("tgt_lengths", 6, 3, 4)
        model.encoder.enable_nested_tensor = False
        memory = model.encoder(src, src_key_padding_mask=~src_valid)
        output = model(src, tgt, tgt_mask=~causal_mask(6, 6), src_key_padding_mask=~src_valid,
                       tgt_key_padding_mask=~tgt_valid, memory_key_padding_mask=~src_valid)
        case.keep("memory", memory)
        case.finish(output, tgt_valid)


if __name__ == "__main__":
    attention_cases()
    function_cases()
    multihead_cases()
    layer_cases()
