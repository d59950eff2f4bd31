"""Vectors of texts and images, in batches, with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from . import _qkv

if TYPE_CHECKING:
    import numpy


def _texts(texts: str | Iterable[str]) -> tuple[list[str], bool]:
    """A list of texts, and whether it was one text."""
    if isinstance(texts, str):
        return [texts], True
    return list(texts), False


def _encoded(
    core: Any,
    inputs: str | Iterable[str],
    batch_size: int | None,
    show_progress_bar: bool,
    on_progress: Callable[[int], object] | None,
    options: dict[str, Any],
) -> numpy.ndarray:
    all_inputs, single = _texts(inputs)
    if batch_size is not None and batch_size < 1:
        raise _qkv.UsageError(f"batch_size: expected at least 1, found {batch_size}")
    size = batch_size or max(len(all_inputs), 1)
    bar = _Bar(len(all_inputs)) if show_progress_bar else None
    parts = []
    for first in range(0, max(len(all_inputs), 1), size):

        def progress(done: int, first: int = first) -> None:
            if bar:
                bar.show(first + done)
            if on_progress:
                on_progress(first + done)

        wanted = progress if bar or on_progress else None
        parts.append(core.encode(all_inputs[first : first + size], options, wanted))
    if bar:
        bar.end()
    if len(parts) == 1:
        return parts[0][0] if single else parts[0]
    import numpy

    return numpy.concatenate(parts)


class _Bar:
    """A progress bar on standard error."""

    def __init__(self, total: int) -> None:
        self.total = total

    def show(self, done: int) -> None:
        import sys

        filled = 30 * done // max(self.total, 1)
        print(f"\r[{'#' * filled}{' ' * (30 - filled)}] {done}/{self.total} texts", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        import sys

        self.show(self.total)
        print(file=sys.stderr)
