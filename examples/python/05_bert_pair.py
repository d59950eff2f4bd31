# BERT's attention between two texts.
import sys

import qkv
from qkv import nn

folder = qkv.open(sys.argv[1])
pair = folder.tokenizer.encode("the red dog runs.", "a man sleeps in the house.")

attention = []  # by layer: [heads, queries, keys]
context = nn.ForwardContext(observer=lambda layer, weights: attention.append(weights[0]))
types = qkv.Tensor(pair.type_ids)  # 0: of the first text, 1: of the second
hidden = folder.model(qkv.Ragged([pair.ids]), context, types).value
mean_of_heads = qkv.mean(attention[-1], 0).numpy()  # [queries, keys]

print("hidden states", hidden)
print(len(attention), "layers of attention")
for i, weights in enumerate(mean_of_heads):
    most = weights.argmax()
    names = [folder.tokenizer.token(pair.ids[at]) for at in (i, most)]
    print(types.at(i), names[0], "->", names[1], f"{weights[most]:.6g}")
