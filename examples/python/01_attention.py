import qkv

# Three tokens of two features, as queries, keys and values of one head: [batch, tokens, heads, features].
x = qkv.Tensor([1.0, 0.0, 0.0, 2.0, 1.0, 1.0], [1, 3, 1, 2])
y, weights = qkv.attention(x, x, x, causal=True, return_weights=True)  # numpy arrays; weights[0]: [heads, queries, keys]
for i in range(3):
    attended = " ".join(f"{weights[0][0, i, j]:.6g}" for j in range(i + 1))
    print(f"token {i} attends with {attended} and becomes {y[0, i, 0, 0]:.6g} {y[0, i, 0, 1]:.6g}")
