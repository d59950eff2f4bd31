"""The classes of options of modules and models. Their stub, which python/make_stubs.py makes, has the fields with their types, and
the options of methods."""

from ._options import options_class

LinearOptions = options_class("LinearOptions")
NormOptions = options_class("NormOptions")
RotaryScaling = options_class("RotaryScaling")
PositionOptions = options_class("PositionOptions")
AttentionVariant = options_class("AttentionVariant")
MultiheadAttentionOptions = options_class("MultiheadAttentionOptions")
AttentionMask = options_class("AttentionMask")
FeedForwardOptions = options_class("FeedForwardOptions")
ExpertOptions = options_class("ExpertOptions")
LayerOptions = options_class("LayerOptions")
StackOptions = options_class("StackOptions")
EmbeddingConfig = options_class("EmbeddingConfig")
TextEncoderConfig = options_class("TextEncoderConfig")
LanguageModelConfig = options_class("LanguageModelConfig")
TransformerConfig = options_class("TransformerConfig")
