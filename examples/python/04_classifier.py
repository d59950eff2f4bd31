# A classifier with mean pooling: do the digits of a sequence rise?
import qkv
from qkv import models, nn, optim

LAYER = nn.LayerOptions(d_model=32, heads=4, d_ff=64)


class Classifier(nn.Module):
    def __init__(self):
        self.encoder = models.TextEncoder(
            vocabulary=10, embedding=nn.EmbeddingConfig(d_model=32), encoder=nn.StackOptions(layers=nn.alike(2, LAYER))
        )
        self.output = nn.Linear(inputs=32, outputs=2)

    def __call__(self, ids, context):
        return self.output(qkv.segment_mean(self.encoder(ids, context), ids.offsets))


def learn(model, digits, labels):
    optimizer = optim.AdamW(model, weight_decay=0.01)
    for step in range(1, 101):
        context = nn.ForwardContext(training=True, step=step)
        with qkv.Tape() as tape:
            loss = qkv.cross_entropy(model(digits, context), labels)
            tape.backward(loss)
        optimizer.step(0.01)
    print("after 100 steps the loss is", loss.value)


digits = qkv.Ragged([[1, 2, 3], [7, 4, 1], [2, 8], [9, 5, 2], [0, 4, 6], [6, 0]])
model, loaded = Classifier(), Classifier()
nn.initialise(model, seed=1)
learn(model, digits, [1, 0, 1, 0, 1, 0])  # do the digits rise?
nn.save(model, "classifier.safetensors")
nn.load(loaded, "classifier.safetensors")
nn.set_requires_grad(loaded.encoder, False)
learn(loaded, digits, [0, 1, 0, 1, 0, 1])  # do they fall?
