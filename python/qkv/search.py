"""Search with models of token ids, and constraints on outputs."""

from ._qkv import Hypothesis, NextTokens, StepContext, capture, search


class Constraint:
    """The base of constraints, which edit the set of tokens that may follow a hypothesis: pass objects in
    constraints=[...] of generate(), complete() or translate()."""

    def apply(self, context: StepContext, next: NextTokens) -> None:
        """Called once for each hypothesis and token; what it does may depend on the context alone."""
        raise NotImplementedError


__all__ = ["Constraint", "Hypothesis", "NextTokens", "StepContext", "capture", "search"]
