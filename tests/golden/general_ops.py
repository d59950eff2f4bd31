"""Writes tests/ops/golden/general_*.safetensors: PyTorch's values and gradients of operations on any shape.

Run from the repository root, with torch and numpy installed (a second):

    python tests/golden/general_ops.py

Files are as pytorch.py describes them: float32 inputs, float64 arithmetic, one rounding to float32. The metadata's `op`
names the function; further entries are its options (axis, keep, begin, ...).
"""

import math

import torch
import torch.nn.functional as F

from pytorch import Case


def write(name, op, inputs, function, kept=(), **options):
    """One file: inputs by name and shape (or as tensors), and function(*inputs)."""
    case = Case(f"ops/golden/general_{name}", op=op, **options)
    leaves = [case.leaf(key, given(case)) if callable(given) else case.input(key, *given)
              for key, given in inputs.items()]
    for key, tensor in kept:
        case.keep(key, tensor)
    output = function(*leaves)
    case.finish(output if output.dim() else output.reshape(1))


def divisors(*shape):
    """Random numbers that are not close to 0."""

    def draw(case):
        numbers = case.draw(*shape)
        return (numbers + torch.where(numbers > 0, 1.0, -1.0)).float().double()

    return draw


def arithmetic():
    operators = {"add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
                 "divide": lambda x, y: x / y}
    for op, function in operators.items():
        write(op, op, {"x": (3, 5), "y": divisors(3, 5)}, function)
        write(f"{op}_broadcast", op, {"x": (4, 1, 3), "y": divisors(5, 3)}, function)
        write(f"{op}_row", op, {"x": divisors(7), "y": divisors(6, 7)}, function)
    write("scalars", "scalars", {"x": divisors(4, 9)},
          lambda x: (2.5 + x) * 0.75 + (1.5 - x) / 3.0 + 2.0 / x - (x - 0.5) + 1.25 * -x)
    write("used_twice", "used_twice", {"x": (4, 6)}, lambda x: x * x + x)


def reductions():
    for op, function in {"sum": torch.sum, "mean": torch.mean}.items():
        write(f"{op}_all", f"{op}_all", {"x": (5, 7, 3)}, function)
        for axis, keep in [(0, False), (1, True), (-1, False)]:
            write(f"{op}_axis{axis % 3}", op, {"x": (4, 37, 6)},
                  lambda x, axis=axis, keep=keep: function(x, axis, keepdim=keep), axis=axis, keep=keep)


def softmaxes():
    for op, function in {"softmax": F.softmax, "log_softmax": F.log_softmax}.items():
        write(op, op, {"x": lambda case: case.draw(3, 4, 37, scale=3.0)}, lambda x: function(x, -1))
    masked = torch.tensor([[0, 1, 1, 0, 1, 1, 1, 0, 1]] * 5, dtype=torch.bool)
    masked[3, 1:] = False
    masked[3, 0] = True  # a single candidate
    write("softmax_masked", "softmax",
          {"x": lambda case: case.draw(5, 9, scale=2.0).masked_fill(~masked, -math.inf)}, lambda x: F.softmax(x, -1))


def products():
    write("matmul", "matmul", {"x": (7, 19), "y": (19, 5)}, torch.matmul)
    write("matmul_batches", "matmul", {"x": (2, 3, 5, 8), "y": (2, 3, 8, 4)}, torch.matmul)
    write("matmul_shared", "matmul", {"x": (3, 4, 6), "y": (6, 9)}, torch.matmul)
    write("transpose", "transpose", {"x": (2, 5, 3)}, lambda x: x.transpose(-2, -1))


def parts():
    for axis, shapes in enumerate([((2, 3), (1, 3), (4, 3)), ((3, 2), (3, 5), (3, 1))]):
        write(f"concatenate_axis{axis}", "concatenate", dict(zip("xyz", shapes)),
              lambda *parts, axis=axis: torch.cat(parts, axis), axis=axis)
    for axis, begin, count in [(0, 1, 2), (1, 0, 3), (-1, 4, 1)]:
        write(f"slice_axis{axis % 3}", "slice", {"x": (4, 6, 5)},
              lambda x, axis=axis, begin=begin, count=count: x.narrow(axis, begin, count), axis=axis, begin=begin,
              count=count)
    rows = torch.tensor([3, 0, 3, 3, 1, 0])
    write("gather", "gather", {"x": (5, 2, 3)}, lambda x: x[rows], kept=[("rows", rows.int())])
    write("reshape", "reshape", {"x": (4, 6)}, lambda x: x.reshape(2, 3, 4))


def pooling():
    offsets = [0, 3, 3, 8, 9]  # the second sequence is empty
    spans = list(zip(offsets, offsets[1:]))
    for op, function in {"segment_mean": lambda part: part.mean(0), "segment_max": lambda part: part.max(0).values}.items():
        write(op, op, {"x": (9, 6)},
              lambda x: torch.stack([function(x[a:b]) if b > a else torch.zeros(6).double() for a, b in spans]),
              kept=[("offsets", torch.tensor(offsets).int())])


def losses():
    labels = torch.tensor([2, -100, 0, 10, 2, -100, 7])
    for name, weighted, smoothing, reduction, ignored in [
            ("plain", False, 0.0, "mean", -100), ("sum", False, 0.0, "sum", -100), ("weighted", True, 0.0, "mean", -100),
            ("weighted_sum", True, 0.1, "sum", -100), ("smoothed", False, 0.2, "mean", -100),
            ("everything", True, 0.2, "mean", 2), ("items", True, 0.1, "none", -100), ("plain_items", False, 0.0, "none", 0)]:
        case = Case(f"ops/golden/general_cross_entropy_{name}", op="cross_entropy", label_smoothing=smoothing,
                    reduction=reduction, ignored_label=ignored)
        logits = case.input("x", 7, 11, scale=2.0)
        weights = case.keep("class_weights", case.draw(11).abs() + 0.25) if weighted else None
        given = torch.where(labels == -100, ignored, labels) if ignored != -100 else labels
        case.keep("labels", given.int())
        loss = F.cross_entropy(logits, given, weight=weights, label_smoothing=smoothing, reduction=reduction,
                               ignore_index=ignored)
        case.finish(loss if loss.dim() else loss.reshape(1))
    labels = torch.tensor([[1, 4, -100], [0, 0, 3]])
    write("cross_entropy_axes", "cross_entropy", {"x": (2, 3, 5)},
          lambda x: F.cross_entropy(x.transpose(1, 2), labels, reduction="none"), kept=[("labels", labels.int())],
          label_smoothing=0.0, reduction="none", ignored_label=-100)
    for reduction in ("mean", "sum", "none"):
        write(f"mse_{reduction}", "mse", {"x": (5, 9), "y": (5, 9)},
              lambda x, y: F.mse_loss(x, y, reduction=reduction), reduction=reduction)


if __name__ == "__main__":
    arithmetic()
    reductions()
    softmaxes()
    products()
    parts()
    pooling()
    losses()
