"""Writes tests/io/golden/types.gguf, with metadata of each kind and a tensor of each type that is read, and types.safetensors, the
numbers of these tensors as PyPI's gguf dequantises them. Also tests/io/golden/quantized.safetensors: weights of several
distributions, and the blocks that gguf and, for the types that it does not write, ggml (ggml_quantize_chunk) make of them.

Run from the repository root, with gguf, numpy, safetensors and xllamacpp installed:

    python tests/golden/gguf_types.py
"""

import ctypes
from pathlib import Path

import gguf
import numpy as np
import xllamacpp
from safetensors.numpy import save_file

FOLDER = Path("tests/io/golden")
ROWS, COLUMNS = 2, 256
# The bytes of a block that are a number of 16 bits: random bits there may be infinite.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "IQ4_NL": [0]}


def random_blocks(name, random):
    kind = getattr(gguf.GGMLQuantizationType, name)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = random.integers(0, 256, (ROWS * COLUMNS // block, size), dtype=np.uint8)
    for column in HALVES[name]:
        raw[:, column:column + 2] = random.normal(0, 1, len(raw)).astype(np.float16).view(np.uint8).reshape(-1, 2)
    return kind, raw.reshape(ROWS, -1)


def ggml_blocks(numbers, kind):
    library = ctypes.CDLL(str(next(Path(xllamacpp.__file__).parent.glob("*.so"))))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                            ctypes.c_int64, ctypes.c_void_p]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.zeros((len(numbers), numbers.shape[1] // block * size), dtype=np.uint8)
    library.ggml_quantize_chunk(kind.value, numbers.ctypes.data, raw.ctypes.data, 0, *numbers.shape, None)
    return raw


def write_quantized():
    random = np.random.default_rng(2)
    rows = [random.normal(0, 0.02, (4, 256)), random.laplace(0, 0.02, (3, 256)), np.abs(random.normal(0, 1, (1, 256))),
            random.normal(3, 0.1, (1, 256)), random.normal(-3, 0.1, (1, 256)), np.repeat([[0, 0.7]], 128, axis=1),
            random.normal(0, 1e-6, (1, 256)), random.normal(0, 3000, (1, 256))]
    rows.append(random.normal(0, 0.02, (1, 256)) * np.where(np.arange(256) % 50 == 7, 20, 1))
    numbers = np.concatenate(rows).astype(np.float32)
    blocks = {"numbers": numbers}
    for name in HALVES:
        kind = getattr(gguf.GGMLQuantizationType, name)
        known = name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
        blocks[name.lower()] = gguf.quants.quantize(numbers, kind) if known else ggml_blocks(numbers, kind)
    save_file(blocks, FOLDER / "quantized.safetensors")


def main():
    write_quantized()
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(FOLDER / "types.gguf", "llama")
    writer.add_uint8("kind.u8", 200)
    writer.add_int8("kind.i8", -100)
    writer.add_uint16("kind.u16", 60000)
    writer.add_int16("kind.i16", -30000)
    writer.add_uint32("kind.u32", 4000000000)
    writer.add_int32("kind.i32", -2000000000)
    writer.add_uint64("kind.u64", 1 << 40)
    writer.add_int64("kind.i64", -(1 << 40))
    writer.add_float32("kind.f32", 0.1)
    writer.add_float64("kind.f64", 0.1)
    writer.add_bool("kind.bool", True)
    writer.add_string("kind.text", "Grüße")
    writer.add_array("list.integers", [3, -1, 4])
    writer.add_array("list.numbers", [0.5, -2.0])
    writer.add_array("list.texts", ["a", "", "ß"])
    expected = {}
    for dtype in (np.float32, np.float16):
        name = {np.float32: "f32", np.float16: "f16"}[dtype]
        values = random.normal(0, 1, (ROWS, COLUMNS)).astype(dtype)
        writer.add_tensor(name, values)
        expected[name] = values.astype(np.float32)
    kind = gguf.GGMLQuantizationType.BF16
    raw = gguf.quants.quantize(random.normal(0, 1, (ROWS, COLUMNS)).astype(np.float32), kind)
    writer.add_tensor("bf16", raw, raw_dtype=kind)
    expected["bf16"] = gguf.quants.dequantize(raw, kind)
    for name in HALVES:
        kind, raw = random_blocks(name, random)
        writer.add_tensor(name.lower(), raw, raw_dtype=kind)
        expected[name.lower()] = gguf.quants.dequantize(raw, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file({name: np.ascontiguousarray(values) for name, values in expected.items()}, FOLDER / "types.safetensors")


main()
