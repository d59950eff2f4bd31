"""Converts the weights of a GGUF file to f32, bf16, int8 (Q8_0: a scale per 32 weights) or q4_0, as ggml rounds them.

    python bench/gguf_forms.py FILE FORM NEW_FILE

Needs gguf from PyPI. Only matrices are converted; everything else is copied.
"""

import sys
from pathlib import Path


def types():
    import gguf
    return {"f32": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16,
            "int8": gguf.GGMLQuantizationType.Q8_0,
            "q4_0": gguf.GGMLQuantizationType.Q4_0}


def write_file(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_form(source, form, file, tables=None):
    """Writes the file unless it exists; tables: the form of the token table and the output matrix, unless `form`."""
    import gguf
    file = Path(file)
    if file.exists():
        return file
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(str(file), reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            element = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], element)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        own = tables if tables and tensor.name in ("token_embd.weight", "output.weight") else form
        kind = types()[own] if values.ndim > 1 else types()["f32"]
        writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    write_file(writer)
    return file


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    write_form(*sys.argv[1:])
