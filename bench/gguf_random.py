"""A LLaMA of 1.1 billion random parameters as a GGUF file, for timings: f16, q8_0, q4_0 or q4_k.

    python bench/gguf_random.py TOKENIZER.gguf FORM NEW_FILE

The tokenizer is that of a GGUF file of a LLaMA with a byte-pair vocabulary. Blocks have random bits, and scales that keep activations
finite; the token table, which is the output matrix too, is q6_k beside q4_0 and q4_k. Needs gguf from PyPI.
"""

import sys

LAYERS, WIDTH, INNER, HEADS, KEY_HEADS = 22, 2048, 5632, 32, 4
# Bytes of a block's scales: their places, and the middle of their range.
SCALES = {"q8_0": [(0, 0.0003)], "q4_0": [(0, 0.004)], "q4_k": [(0, 0.0001), (2, 0.0008)], "q6_k": [(208, 0.00001)]}


def matrix(generator, rows, cols, form):
    import gguf
    import numpy as np
    if form == "f16":
        return (generator.standard_normal((rows, cols), dtype=np.float32) * 0.02).astype(np.float16)
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[form.upper()]]
    blocks = generator.integers(0, 256, (rows * cols // block, size), dtype=np.uint8)
    for place, scale in SCALES[form]:
        scales = ((generator.random(len(blocks), dtype=np.float32) + 0.5) * scale).astype(np.float16)
        blocks[:, place:place + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def write_random(tokenizer, form, file):
    import gguf
    import numpy as np
    from gguf_forms import write_file
    sizes = {"block_count": LAYERS, "embedding_length": WIDTH, "feed_forward_length": INNER, "attention.head_count": HEADS,
             "attention.head_count_kv": KEY_HEADS, "rope.dimension_count": WIDTH // HEADS, "context_length": 2048}
    reader, writer = gguf.GGUFReader(tokenizer), gguf.GGUFWriter(file, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        element = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, sizes.get(name.removeprefix("llama."), field.contents()), field.types[0], element)
    generator = np.random.default_rng(1)

    def add(name, rows, cols, own=form):
        kind = gguf.GGMLQuantizationType[own.upper()]
        writer.add_tensor(f"{name}.weight", matrix(generator, rows, cols, own), raw_dtype=kind)

    tokens = len(reader.fields["tokenizer.ggml.tokens"].data)
    add("token_embd", tokens, WIDTH, "q6_k" if form.startswith("q4") else form)
    keys = WIDTH // HEADS * KEY_HEADS
    for layer in range(LAYERS):
        for name, rows, cols in (("attn_q", WIDTH, WIDTH), ("attn_k", keys, WIDTH), ("attn_v", keys, WIDTH),
                                 ("attn_output", WIDTH, WIDTH), ("ffn_gate", INNER, WIDTH), ("ffn_up", INNER, WIDTH),
                                 ("ffn_down", WIDTH, INNER)):
            add(f"blk.{layer}.{name}", rows, cols)
    for name in ["output_norm"] + [f"blk.{layer}.{norm}" for layer in range(LAYERS) for norm in ("attn_norm", "ffn_norm")]:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    write_file(writer)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in ("f16", "q8_0", "q4_0", "q4_k"):
        sys.exit(__doc__)
    write_random(*sys.argv[1:])
