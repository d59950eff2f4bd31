"""Modules, their parameters, and their options. See docs/python.md and docs/library.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._option_types import (
    AttentionMask,
    AttentionVariant,
    EmbeddingConfig,
    ExpertOptions,
    FeedForwardOptions,
    LayerOptions,
    LinearOptions,
    MultiheadAttentionOptions,
    NormOptions,
    PositionOptions,
    RotaryScaling,
    StackOptions,
)
from ._options import Options
from ._qkv import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    ForwardContext,
    Linear,
    Memory,
    MultiheadAttention,
    Norm,
    Parameter,
    count_parameters,
    initialise,
    load,
    parameters_of,
    save,
    scale_residual_branches,
    set_requires_grad,
)


def alike(count: int, layer: Options) -> list[Options]:
    """`count` layers with the same options."""
    return [layer] * count


class Module:
    """The base of modules in Python: its attributes that are parameters, modules, or lists and dicts of them have
    their names in files: "encoder.layers.0.weight"."""

    def visit(self, visitor: Callable[[str, Parameter], Any]) -> None:
        """Calls visitor(name, Parameter) for each parameter."""
        for name, value in vars(self).items():
            _visit(visitor, name, value)


def _visit(visitor: Callable[[str, Parameter], Any], name: str, value: Any) -> None:
    if isinstance(value, Parameter):
        visitor(name, value)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            _visit(visitor, f"{name}.{index}", one)
    elif isinstance(value, dict) and not isinstance(value, Options):
        for key, one in value.items():
            _visit(visitor, f"{name}.{key}", one)
    elif hasattr(value, "visit"):
        value.visit(lambda inner, parameter: visitor(f"{name}.{inner}", parameter))


__all__ = [name for name in globals() if not name.startswith("_") and name not in {"annotations", "Any", "Callable"}]
