# A decoder with a custom block, and a mask.
import numpy as np

import qkv
from qkv import nn, optim


class Model(nn.Module):
    def __init__(self):
        self.table = nn.Parameter([128, 64], "normal", 0.3)
        self.norm = nn.Norm(features=64)
        self.attention = nn.MultiheadAttention(
            d_model=64, heads=4, variant=nn.AttentionVariant(positions=nn.PositionOptions(kind="rotary"), softcap=20)
        )

    def __call__(self, ids, mask, context):
        x = qkv.gather(self.table.variable, ids.values)
        return qkv.matmul(x + self.attention.self(self.norm(x), ids.offsets, mask, context), qkv.transpose(self.table.variable))


text = b"she sells sea shells by the sea shore; the shells she sells are sea shells"
ids = qkv.Ragged([list(text[:-1])])
following = qkv.Tensor(list(text[1:]))
i, j = np.indices((len(text) - 1, len(text) - 1))
near = (i - j < 8).astype(np.uint8)[None, None]
model = Model()
nn.initialise(model, seed=1)
optimizer = optim.AdamW(model)
for step in range(1, 201):
    context = nn.ForwardContext(training=True, step=step)
    with qkv.Tape() as tape:
        loss = qkv.cross_entropy(model(ids, nn.AttentionMask(causal=True, keep=near), context), following)
        tape.backward(loss)
    optimizer.step(0.003)
    if step % 50 == 0:
        print(f"step {step}: {loss.value}")
