"""The models and losses of qkv's training tasks in PyTorch: transformers' classes, opened from a folder that `qkv train` wrote, and
the translation model of torch_transformer.py.

A task is a module whose forward takes the tensors of a batch and returns its loss: the mean over the predictions, as in qkv.
`tensors(row)` makes them from a line of `qkv train TASK --save-batches`. Lines of unequal length are padded.
"""

import gzip
import json
import struct
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

IGNORED = -100


def padded(sequences, fill=0):
    """[lines, longest] of whole numbers, filled up at the end."""
    length = max(map(len, sequences))
    return torch.tensor([list(ids) + [fill] * (length - len(ids)) for ids in sequences])


def inputs_and_mask(sequences):
    """The mask is None where nothing is padded, which is faster."""
    lengths = torch.tensor([len(ids) for ids in sequences])
    inputs = padded(sequences)
    if int(lengths.min()) == inputs.shape[1]:
        return inputs, None
    return inputs, (torch.arange(inputs.shape[1]) < lengths[:, None]).long()


class Translation(nn.Module):
    def __init__(self, folder, options):
        super().__init__()
        from torch_transformer import from_folder
        self.model, self.smoothing = from_folder(folder, options.dropout), options.label_smoothing
        self.start = self.model.config["decoder_start_token_id"]

    def tensors(self, row):
        from torch_transformer import tensors_of
        return tensors_of(row, self.start)

    def forward(self, source, mask, inputs, labels):
        logits = self.model(source, inputs, mask)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=self.smoothing)


class Pretrained(nn.Module):
    """Opens a folder by one of transformers' classes, with the rates of dropout of the command line."""

    def __init__(self, class_name, folder, options):
        super().__init__()
        import transformers
        config = transformers.AutoConfig.from_pretrained(folder)
        for name in ("hidden_dropout_prob", "resid_pdrop", "embd_pdrop", "classifier_dropout"):
            if hasattr(config, name):
                setattr(config, name, options.dropout)
        for name in ("attention_probs_dropout_prob", "attn_pdrop", "attention_dropout"):
            if hasattr(config, name):
                setattr(config, name, options.attention_dropout)
        self.model = getattr(transformers, class_name).from_pretrained(folder, config=config, attn_implementation="sdpa")
        self.smoothing = options.label_smoothing


class PretrainBert(Pretrained):
    """The logits over the vocabulary are computed where a token is to be predicted only, as in qkv."""

    def __init__(self, folder, options):
        super().__init__("BertForPreTraining", folder, options)

    def tensors(self, row):
        inputs, mask = inputs_and_mask(row["inputs"])
        # `masked` counts the tokens of the batch without padding.
        places = [line * inputs.shape[1] + place for line, ids in enumerate(row["inputs"]) for place in range(len(ids))]
        return (inputs, mask, padded(row["types"]), torch.tensor([places[at] for at in row["masked"]]),
                torch.tensor(row["labels"]), torch.tensor(row["not_next"]))

    def forward(self, inputs, mask, types, masked, labels, not_next):
        hidden, pooled = self.model.bert(inputs, attention_mask=mask, token_type_ids=types, return_dict=False)
        logits = self.model.cls.predictions(hidden.flatten(0, 1)[masked])
        return F.cross_entropy(logits, labels) + F.cross_entropy(self.model.cls.seq_relationship(pooled), not_next)


class LanguageModel(Pretrained):
    def __init__(self, folder, options):
        super().__init__("AutoModelForCausalLM", folder, options)

    def tensors(self, row):
        # Each token predicts the next one; the last one of a sequence has none.
        inputs = [ids[:-1] for ids in row["sequences"]]
        return (*inputs_and_mask(inputs), padded([ids[1:] for ids in row["sequences"]], IGNORED))

    def forward(self, inputs, mask, labels):
        logits = self.model(inputs, attention_mask=mask, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


class Labels(Pretrained):
    """Classes of texts, or tags of tokens."""

    def tensors(self, row):
        if not isinstance(self, Tag):
            return (*inputs_and_mask(row["texts"]), torch.tensor(row["labels"]))
        labels = iter(row["labels"])
        return (*inputs_and_mask(row["texts"]), padded([[next(labels) for _ in ids] for ids in row["texts"]], IGNORED))

    def forward(self, inputs, mask, labels):
        logits = self.model(inputs, attention_mask=mask).logits
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED, label_smoothing=self.smoothing)


class Classify(Labels):
    def __init__(self, folder, options):
        super().__init__("AutoModelForSequenceClassification", folder, options)


class Tag(Labels):
    def __init__(self, folder, options):
        super().__init__("AutoModelForTokenClassification", folder, options)


class Embed(Pretrained):
    """Mean pooling, and the ranking of the pairs by their scores (CoSENT, temperature 0.05)."""

    def __init__(self, folder, options):
        super().__init__("AutoModel", folder, options)

    def tensors(self, row):
        inputs, mask = inputs_and_mask(row["first"] + row["second"])
        return inputs, torch.ones_like(inputs) if mask is None else mask, torch.tensor(row["scores"])

    def forward(self, inputs, mask, scores):
        hidden = self.model(inputs, attention_mask=mask).last_hidden_state
        weights = mask[..., None].to(hidden.dtype)
        first, second = ((hidden * weights).sum(1) / weights.sum(1)).chunk(2)
        cosines = F.cosine_similarity(first, second) / 0.05
        wrong = (cosines[None, :] - cosines[:, None])[scores[:, None] > scores[None, :]]
        return torch.logsumexp(torch.cat((torch.zeros(1), wrong)), 0)


class Image(Pretrained):
    """Images of an IDX file that gzip compressed, scaled as preprocessor_config.json says."""

    def __init__(self, folder, options):
        super().__init__("ViTForImageClassification", folder, options)
        settings = json.loads((Path(folder) / "preprocessor_config.json").read_text(encoding="utf-8"))
        data = gzip.decompress(Path(options.images).read_bytes())
        count, height, width = struct.unpack(">3I", data[4:16])
        images = torch.frombuffer(bytearray(data[16:]), dtype=torch.uint8).reshape(count, 1, height, width)
        self.images = [images, settings["image_mean"][0], settings["image_std"][0]]  # no parameter, and not moved

    def tensors(self, row):
        images, mean, deviation = self.images
        return (images[row["images"]].float() / 255 - mean) / deviation, torch.tensor(row["labels"])

    def forward(self, images, labels):
        return F.cross_entropy(self.model(images).logits, labels, label_smoothing=self.smoothing)


TASKS = {"translation": Translation, "pretrain-bert": PretrainBert, "lm": LanguageModel, "classify": Classify, "tag": Tag,
         "embed": Embed, "image": Image}
