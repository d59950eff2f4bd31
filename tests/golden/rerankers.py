"""Writes tests/pipelines/golden/rerankers.json: files beside small classifiers with one label in tests/models/golden, and the scores
of PyPI's sentence-transformers (CrossEncoder) for a query and some texts.

    python tests/golden/rerankers.py   # after families.py; needs sentence-transformers (6.2 made the committed file)
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer, models, pre_tokenizers, processors

MODELS = Path("tests/models/golden")
RESULT = Path("tests/pipelines/golden/rerankers.json")
QUERY = "the dog runs in the house"
TEXTS = ["a red dog", "the man sleeps . the man sings", "", "a dog runs in and of the house , a dog sleeps , a man runs , a man sings"]
WORDS = "the a man dog house sleep runs red blue in of and sleeps good bad sings . , two three".split()
torch.set_num_threads(1)


def tokenizer(symbols, single, pair, limit):
    vocabulary = [*symbols, *WORDS][:23]
    made = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="<unk>"))
    made.add_special_tokens([symbol for symbol in symbols])
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(symbol, i) for i, symbol in enumerate(symbols)])
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": symbols[0] if "<pad>" not in symbols else "<pad>",
              "unk_token": "<unk>", "model_max_length": limit, "model_input_names": ["input_ids", "attention_mask"]}
    return {"tokenizer.json": json.loads(made.to_str()), "tokenizer_config.json": config}


XLM_ROBERTA = tokenizer(["<s>", "<pad>", "</s>", "<unk>"], "<s> $A </s>", "<s> $A </s> </s> $B </s>", 16)
# The end token is the padding, which transformers does not classify.
DECODER = tokenizer(["</s>", "<unk>", "<s>"], "$A </s>", "$A $B </s>", 1000)

# The model, its files, and fields of config.json.
CASES = {
    "sigmoid": ("xlm-roberta_texts", XLM_ROBERTA, {}),
    "identity": ("xlm-roberta_texts", XLM_ROBERTA,
                 {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.0.1"}}),
    "older_identity": ("xlm-roberta_texts", XLM_ROBERTA,
                       {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}),
    "decoder": ("llama_texts", DECODER, {}),
    "of_version_6": ("xlm-roberta_texts", XLM_ROBERTA | {
        "modules.json": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}],
        "sentence_bert_config.json": {
            "transformer_task": "sequence-classification", "module_output_name": "scores",
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}}}}, {}),
}


def scores(model, files, config):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder) / "model"
        shutil.copytree(MODELS / model, folder)
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content))
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | config))
        encoder = CrossEncoder(str(folder), device="cpu")
        return [float(encoder.predict([(QUERY, text)])[0]) for text in TEXTS]


def main():
    cases = [{"name": name, "model": model, "files": files, "config": config, "scores": scores(model, files, config)}
             for name, (model, files, config) in CASES.items()]
    RESULT.write_text(json.dumps({"query": QUERY, "texts": TEXTS, "cases": cases}, indent=1) + "\n")


main()
