"""Writes tests/pipelines/golden/sentence_vectors.json: sentence-transformers files for the model in tests/models/golden/bert_base,
and the vectors of PyPI's sentence-transformers for some texts.

    python tests/golden/sentence_vectors.py   # needs sentence-transformers (6.2 made the committed file) and torch
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

MODEL = Path("tests/models/golden/bert_base")
RESULT = Path("tests/pipelines/golden/sentence_vectors.json")
TEXTS = ["the man sleeps in the house.", "A RED dog", "", "a dog runs, a dog sleeps, a man runs, a man sleeps."]
torch.set_num_threads(1)

# Paths of the module classes in its first versions and from version 6 on.
OLD = {name: f"sentence_transformers.models.{name}" for name in ("Transformer", "Pooling", "Normalize")}
NEW = {"Transformer": "sentence_transformers.base.modules.transformer.Transformer",
       "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
       "Normalize": "sentence_transformers.base.modules.normalize.Normalize"}


def modules(types, normalize):
    paths = {"Transformer": "", "Pooling": "1_Pooling"} | ({"Normalize": "2_Normalize"} if normalize else {})
    return [{"idx": i, "name": str(i), "path": path, "type": types[name]} for i, (name, path) in enumerate(paths.items())]


def flags(**chosen):
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    return {"word_embedding_dimension": 8} | {f"pooling_mode_{name}": chosen.get(name, False) for name in names}


def limited(limit):
    return json.loads((MODEL / "tokenizer_config.json").read_text()) | {"model_max_length": limit}


# Like the folders of all-MiniLM-L6-v2 (here shorter), bge-small-en, and those written by version 6.
CASES = {
    "mean_normalized": {
        "modules.json": modules(OLD, True), "1_Pooling/config.json": flags(mean_tokens=True),
        "sentence_bert_config.json": {"max_seq_length": 9, "do_lower_case": False},
        "config_sentence_transformers.json": {"__version__": {"sentence_transformers": "2.0.0"}}},
    "first_token_normalized": {
        "modules.json": modules(OLD, True), "1_Pooling/config.json": flags(cls_token=True),
        "sentence_bert_config.json": {"max_seq_length": 20, "do_lower_case": True}},
    "max_as_version_6_writes_it": {
        "modules.json": modules(NEW, False),
        "1_Pooling/config.json": {"embedding_dimension": 8, "pooling_mode": "max", "include_prompt": True},
        "tokenizer_config.json": limited(7),
        "sentence_bert_config.json": {
            "transformer_task": "feature-extraction", "module_output_name": "token_embeddings",
            "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}},
        "config_sentence_transformers.json": {"prompts": {"query": "a blue ", "document": ""}, "default_prompt_name": None}},
    "prompted_to_the_positions": {
        "modules.json": modules(NEW, True),
        "1_Pooling/config.json": {"embedding_dimension": 8, "pooling_mode": "mean", "include_prompt": True},
        "2_Normalize/config.json": {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"},
        "config_sentence_transformers.json": {"prompts": {"query": "a blue "}, "default_prompt_name": "query"}},
}


def vectors(files):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder) / "model"
        shutil.copytree(MODEL, folder)
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(json.dumps(content))
        model = SentenceTransformer(str(folder), device="cpu")
        return [model.encode(text).tolist() for text in TEXTS]


def main():
    cases = [{"name": name, "files": files, "vectors": vectors(files)} for name, files in CASES.items()]
    RESULT.write_text(json.dumps({"texts": TEXTS, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
