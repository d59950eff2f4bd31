"""Writes tests/pipelines/golden/sparse_vectors.json: sentence-transformers files for small models with a masked-language head in
tests/models/golden, and the sparse embeddings of PyPI's sentence-transformers (SparseEncoder) in double precision for some texts.

    python tests/golden/sparse_vectors.py   # after families.py; needs sentence-transformers (6.2 made the committed file) and torch
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from sentence_transformers import SparseEncoder

MODELS = Path("tests/models/golden")
RESULT = Path("tests/pipelines/golden/sparse_vectors.json")
TEXTS = ["the man sleeps in the house.", "A RED dog", "", "a dog runs, a dog sleeps, a man runs, a man sleeps."]
torch.set_num_threads(1)

# Paths of the module classes in version 5 and from version 6 on.
OLD = ("sentence_transformers.sparse_encoder.models.MLMTransformer", "sentence_transformers.sparse_encoder.models.SpladePooling")
NEW = ("sentence_transformers.base.modules.transformer.Transformer",
       "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling")


def sparse(types, pooling, **prompts):
    """The files of a SparseEncoder."""
    modules = [{"idx": i, "name": str(i), "path": path, "type": name}
               for i, (path, name) in enumerate(zip(("", "1_SpladePooling"), types))]
    return {"modules.json": modules, "1_SpladePooling/config.json": pooling,
            "config_sentence_transformers.json": {"model_type": "SparseEncoder", "similarity_fn_name": "dot"} | prompts}


def tokenizer(limit, **other):
    files = {name: json.loads((MODELS / "bert_masked" / name).read_text()) for name in ("tokenizer.json", "tokenizer_config.json")}
    files["tokenizer_config.json"] |= {"model_max_length": limit} | other
    return files


ONE_TYPE = {"model_input_names": ["input_ids", "attention_mask"]}  # of families without token types
SIX = {"sentence_bert_config.json": {
    "transformer_task": "fill-mask", "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}}}}

# The model and its files. The first is a folder like those of SPLADE's authors, the others are as sentence-transformers writes them.
CASES = {
    "no_modules": ("bert_masked", {}),
    "of_version_5": ("bert_masked", sparse(
        OLD, {"pooling_strategy": "max", "activation_function": "relu", "word_embedding_dimension": 23})
        | {"sentence_bert_config.json": {"max_seq_length": 9, "do_lower_case": False}}),
    "sum_of_a_prompted_text": ("distilbert_masked", tokenizer(12, **ONE_TYPE) | SIX | sparse(
        NEW, {"pooling_strategy": "sum", "activation_function": "relu", "embedding_dimension": 23},
        prompts={"query": "a blue "}, default_prompt_name="query")),
    "logarithm_twice": ("roberta_masked", tokenizer(20, **ONE_TYPE) | SIX | sparse(
        NEW, {"pooling_strategy": "max", "activation_function": "log1p_relu"})),
    "sum_of_logarithms_twice": ("modernbert_masked", tokenizer(20, **ONE_TYPE) | SIX | sparse(
        NEW, {"pooling_strategy": "sum", "activation_function": "log1p_relu"})),
}


def vectors(model, files):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder) / "model"
        shutil.copytree(MODELS / model, folder)
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(json.dumps(content))
        encoder = SparseEncoder(str(folder), device="cpu", model_kwargs={"dtype": torch.float64})
        return [encoder.encode(text, convert_to_sparse_tensor=False).tolist() for text in TEXTS]


def main():
    cases = [{"name": name, "model": model, "files": files, "vectors": vectors(model, files)}
             for name, (model, files) in CASES.items()]
    RESULT.write_text(json.dumps({"texts": TEXTS, "cases": cases}, indent=1) + "\n")


main()
