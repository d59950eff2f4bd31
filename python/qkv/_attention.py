"""The attention of models, and attention on arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _qkv

if TYPE_CHECKING:
    from typing import Literal

    import numpy


class Layer(NamedTuple):
    """The attention of one layer."""

    part: str  # "encoder", "decoder" or "cross"
    index: int  # type: ignore[assignment]  # from 0
    weights: numpy.ndarray  # float32 [heads, queries, keys]; a query's weights sum to 1


class Attention:
    """The attention weights of one input. In a notebook it is shown as a page of every layer and head."""

    def __init__(self, report: Any) -> None:
        self._report = report
        self.title: str = report.title
        self.source_tokens: list[str] = report.source_tokens  # queries and keys of encoders, keys of cross attention
        self.target_tokens: list[str] = report.target_tokens  # queries of decoders
        # Keys of decoders, which have read them.
        self.target_inputs: list[str] = report.target_inputs or report.target_tokens
        self.layers: list[Layer] = [Layer(*layer) for layer in report.layers]  # they share memory with the report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page (.html), a drawing (.svg) or the numbers (.json)."""
        self._report.save(path)

    def html(self) -> str:
        """The page, without network access."""
        return self._report.html()

    def svg(
        self,
        *,
        part: Literal["encoder", "decoder", "cross"] | None = None,
        layer: int | None = None,
        head: int | None = None,
        dark: bool = False,
    ) -> str:
        """A drawing of all heads, or of a part, layer or head, counted from 0 as in layers; the options are for texts.

        Raises UsageError if there is no such head.
        """
        if (part, layer, head, dark) == (None, None, None, False):
            return self._report.svg()
        if not hasattr(self._report, "draw"):
            raise _qkv.UsageError("part, layer, head and dark: expected the attention of a text, found that of an image")
        return self._report.draw(part, layer, head, dark)

    def _repr_html_(self) -> str:
        import html

        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 640px; border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"<qkv.Attention {self.title!r}: {len(self.layers)} layers>"


def attention(query: Any, key: Any, value: Any, *, return_weights: bool = False, **options: Any) -> Any:
    """softmax(Q K^T / sqrt(d_k)) V for each head.

    query [batch, queries, heads, d_k], key [batch, keys, heads, d_k], value [batch, keys, heads, d_v], float32 arrays,
    whose memory is read in place -> [batch, queries, heads, d_v], a numpy array; with return_weights (output,
    weights), of each sequence [heads, queries, keys]. Keys and values may have fewer heads. For a Variable the
    output is a Variable, with gradients.

    Options: causal, window, keep, bias, scale, softcap, ..., those of scaled_dot_product_attention().
    Raises ShapeError, also for another dtype such as float64, and UsageError.
    """
    result = _qkv.scaled_dot_product_attention(query, key, value, return_weights=return_weights, **options)
    differentiable = any(isinstance(one, _qkv.Variable) for one in (query, key, value))
    output = result.output if differentiable else result.output.numpy()
    return (output, [weights.numpy() for weights in result.weights]) if return_weights else output
