# An encoder layer on a ragged batch: two concatenated sentences of different lengths, without padding. The
# second sentence has the same result alone, bit for bit.
import numpy as np

import qkv
from qkv import nn

d_model = 64
layer = nn.EncoderLayer(d_model=d_model, heads=4, d_ff=256, dropout=0.1)
nn.initialise(layer, seed=1)

offsets = qkv.Offsets.of_lengths([5, 3])
x = qkv.Tensor.empty([offsets.tokens, d_model])
x.numpy()[...] = np.sin(np.float32(0.37) * np.arange(x.numel, dtype=np.float32)).reshape(x.shape)

context = nn.ForwardContext()  # inference: no dropout
both = layer(x, offsets, None, context).value

layer.visit(lambda name, parameter: print(name, str(list(parameter.shape))))
print(nn.count_parameters(layer), "parameters")

alone = layer(x.slice_rows(offsets.begin(1), 3), qkv.Offsets.uniform(1, 3)).value
in_batch = both.slice_rows(offsets.begin(1), 3)
same = alone.numpy().tobytes() == in_batch.numpy().tobytes()
print(f"[5 + 3 tokens, {d_model}] -> {list(both.shape)}; alone and in the batch {'the same bits' if same else 'different'}")
