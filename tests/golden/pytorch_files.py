"""Writes tests/io/golden/*.bin by torch.save(), and expected.safetensors with the same tensors.

    python tests/golden/pytorch_files.py

Needs torch and safetensors. Recorded with torch 2.15.0.
"""

from collections import OrderedDict
from pathlib import Path

import torch
from safetensors.torch import save_file

FOLDER = Path(__file__).parent.parent / "io" / "golden"


def tensors():
    torch.manual_seed(1)
    base = torch.randn(40)
    shared = torch.randn(2, 3)
    return OrderedDict(
        f32=torch.randn(3, 4), f16=torch.randn(5).half(), bf16=torch.randn(2, 3).bfloat16(),
        i64=torch.arange(-3, 3), i32=torch.arange(4, dtype=torch.int32), i8=torch.tensor([-128, 127], dtype=torch.int8),
        u8=torch.tensor([0, 255], dtype=torch.uint8), bool=torch.tensor([True, False, True]),
        transposed=torch.randn(3, 4).t(), permuted=torch.randn(2, 3, 4).permute(2, 0, 1), half_transposed=torch.randn(3, 2).half().t(),
        slice=base[7:19].view(3, 4), column=torch.randn(4, 5)[:, 1:3], first=shared, second=shared, row=shared[1],
        number=torch.tensor(2.5), nothing=torch.zeros(0, 3), one_column=torch.randn(4, 1),
        parameter=torch.nn.Parameter(torch.randn(2, 2)))


def module():
    """As a module's state_dict(), which has metadata, with what training scripts add."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    torch.manual_seed(2)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model.state_dict()


def of_other_kinds():
    attributed, parameter = torch.full((2,), 3.0), torch.nn.Parameter(torch.full((2,), 4.0))
    attributed.note = parameter.note = "of a program"
    return {"attributed": attributed, "parameter": parameter, "buffer": torch.nn.Buffer(torch.full((2,), 5.0)),
            "negative": torch._neg_view(torch.ones(2)), "imaginary": torch.ones(2, dtype=torch.complex64).conj().imag,
            "sparse": torch.eye(2).to_sparse(), "f8": torch.ones(2).to(torch.float8_e4m3fn), "u16": torch.ones(2, dtype=torch.uint16),
            "complex": torch.ones(2, dtype=torch.complex64), "deep": torch.ones(1, 1, 1, 1, 1, 1)}


def main():
    FOLDER.mkdir(exist_ok=True)
    all_tensors = tensors()
    torch.save(all_tensors, FOLDER / "archive.bin")
    torch.save(all_tensors, FOLDER / "legacy.bin", _use_new_zipfile_serialization=False)
    torch.save(dict(all_tensors), FOLDER / "protocol4.bin", pickle_protocol=4)
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in all_tensors.items()}, FOLDER / "expected.safetensors")
    torch.save(module(), FOLDER / "module.bin")
    save_file({name: tensor.contiguous() for name, tensor in module().items()}, FOLDER / "module_expected.safetensors")
    # Entries that are no tensors or not of plain numbers, and tensors with attributes of Python.
    torch.save({**of_other_kinds(), "step": 3, "rate": 1e-3, "names": ["a", "b"], "device": torch.device("cpu"), "w": torch.ones(2), "wide": torch.ones(2).double(),
                "repeated": torch.ones(1).expand(1000)}, FOLDER / "others.bin")
    torch.save([torch.ones(2)], FOLDER / "list.bin")
    torch.save({"state_dict": {"w": torch.ones(2)}, "epoch": 3}, FOLDER / "nested.bin")


if __name__ == "__main__":
    main()
