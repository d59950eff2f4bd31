# A Transformer that learns to reverse sequences of digits, and its attention. `qkv train` does the same for
# text, with checkpoints, validation and a model folder.
import qkv
from qkv import models, nn, optim, search

END, START, FIRST_DIGIT, VOCABULARY = 0, 1, 2, 12


def random_digits():
    return [FIRST_DIGIT + random.below(10) for _ in range(3 + random.below(6))]


config = models.preset("tiny")
config.source_vocabulary = config.target_vocabulary = VOCABULARY
config.d_model, config.d_ff, config.heads = 64, 128, 4
config.encoder_layers = config.decoder_layers = 1
config.dropout = config.embedding_dropout = 0.0
config.eos_id, config.pad_id, config.decoder_start_id = END, START, START
model = models.Transformer(config)
nn.initialise(model, seed=1)
adam = optim.Adam(model, clip_norm=1.0)

random = qkv.RandomStream(seed=2)
for step in range(1, 601):
    sources = [random_digits() for _ in range(64)]
    targets = [ids[::-1] for ids in sources]
    labels = qkv.Ragged([ids + [END] for ids in targets])
    context = nn.ForwardContext(training=True, step=step)
    with qkv.Tape() as tape:
        memory = model.encode(qkv.Ragged([ids + [END] for ids in sources]), context)
        hidden = model.decode(qkv.Ragged([[START] + ids for ids in targets]), memory, context)
        result = model.logits.cross_entropy(hidden, labels.values, context, factor=1 / labels.offsets.tokens)
        tape.backward(result.loss)
    adam.step(optim.learning_rate(step, warmup_steps=100, learning_rate=3e-3))
    if step % 100 == 0:
        print(f"step {step}  loss {result.loss.item():.6g}")

# Most likely unseen: there are over a hundred million sequences.
sources = [random_digits() + [END] for _ in range(100)]
outputs = search.search(model, sources, beam=1)
right = sum(output[0].ids == source[-2::-1] + [END] for output, source in zip(outputs, sources))
print(right, "of", len(sources), "new sequences reversed correctly")

# Position t of the output attends to position n - t of the input.
name, cross = search.capture(model, sources[0], outputs[0][0].ids)[-1]  # [heads, queries, keys]
print(f"{name}, mean of its heads:")
for row in cross.numpy().mean(0):
    print("".join("#" if weight > 0.5 else "+" if weight > 0.25 else "." for weight in row))
