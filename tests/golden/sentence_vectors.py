"""Writes tests/pipelines/golden/dense, modules with random weights, and tests/pipelines/golden/sentence_vectors.json:
sentence-transformers files for models in tests/models/golden (bert_base, and decoders), and the vectors of PyPI's
sentence-transformers for some texts.

    python tests/golden/sentence_vectors.py   # needs sentence-transformers (6.2 made the committed file) and torch
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.dense import Dense
from tokenizers import Tokenizer, models, pre_tokenizers, processors

MODELS = Path("tests/models/golden")
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


DENSE = Path("tests/pipelines/golden/dense")


def write_dense(name, inputs, outputs, activation, bias):
    """A Dense module with random weights."""
    torch.manual_seed(inputs)
    layer = Dense(inputs, outputs, bias=bias, activation_function=activation)
    (DENSE / name).mkdir(parents=True, exist_ok=True)
    layer.save(str(DENSE / name))


def with_dense(names, normalize):
    paths = {"Transformer": "", "Pooling": "1_Pooling"} | {name: name for name in names}
    paths |= {"Normalize": "9_Normalize"} if normalize else {}
    types = OLD | {name: "sentence_transformers.models.Dense" for name in names}
    return [{"idx": i, "name": str(i), "path": path, "type": types[name]} for i, (name, path) in enumerate(paths.items())]


def flags(**chosen):
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    return {"word_embedding_dimension": 8} | {f"pooling_mode_{name}": chosen.get(name, False) for name in names}


def limited(limit):
    return json.loads((MODELS / "bert_base/tokenizer_config.json").read_text()) | {"model_max_length": limit}


def words():
    """The files of a tokenizer that appends an end token, like Qwen3-Embedding's."""
    vocabulary = ["<unk>", "<s>", "</s>", *"the a man dog house sleep runs red blue in of and sleeps good bad sings . , A RED".split()]
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="<unk>"))
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", 2)])])
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "pad_token": "</s>", "unk_token": "<unk>",
              "padding_side": "left", "model_max_length": 131072}
    return {"tokenizer.json": json.loads(tokenizer.to_str()), "tokenizer_config.json": config}


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
    "weighted_mean": {
        "modules.json": modules(OLD, False), "1_Pooling/config.json": flags(weightedmean_tokens=True)},
    "mean_sqrt_len": {
        "modules.json": modules(OLD, False), "1_Pooling/config.json": flags(mean_sqrt_len_tokens=True)},
}

# Like Qwen3-Embedding.
DECODER = words() | {
    "modules.json": modules(OLD, True), "1_Pooling/config.json": flags(lasttoken=True) | {"include_prompt": True},
    "config_sentence_transformers.json": {"prompts": {"query": "the blue dog: ", "document": ""}, "default_prompt_name": None,
                                          "similarity_fn_name": "cosine"}}

# The model, its files, and the options of encode().
OTHERS = {
    "decoder_last_token": ("qwen3", DECODER, {}),
    "decoder_named_prompt": ("qwen3_windows", DECODER, {"prompt_name": "query"}),
    "decoder_cut": ("llama_grouped", DECODER | {"sentence_bert_config.json": {"max_seq_length": 4, "do_lower_case": False}}, {}),
    "decoder_dimensions": ("mistral", DECODER, {"truncate_dim": 3, "normalize_embeddings": True}),
    "decoder_learned_positions": ("gpt2", DECODER, {}),
    # Like EmbeddingGemma.
    "both_directions_and_dense": ("gemma3_text_both", DECODER | {
        "modules.json": with_dense(("2_Dense", "3_Dense"), True), "1_Pooling/config.json": flags(mean_tokens=True)},
        {"prompt_name": "query"}),
    "dense_activations": ("bert_base", {
        "modules.json": with_dense(("2_Dense", "4_Dense"), False), "1_Pooling/config.json": flags(cls_token=True)}, {}),
}


def vectors(model, files, options):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder) / "model"
        shutil.copytree(MODELS / model, folder)
        shutil.copytree(DENSE, folder, dirs_exist_ok=True)
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(json.dumps(content))
        model = SentenceTransformer(str(folder), device="cpu")
        return [model.encode(text, **options).tolist() for text in TEXTS]


def main():
    write_dense("2_Dense", 8, 12, torch.nn.Identity(), False)
    write_dense("3_Dense", 12, 8, torch.nn.Identity(), False)
    write_dense("4_Dense", 12, 5, torch.nn.Tanh(), True)
    cases = [{"name": name, "model": model, "files": files, "options": options, "vectors": vectors(model, files, options)}
             for name, (model, files, options) in ({name: ("bert_base", files, {}) for name, files in CASES.items()} | OTHERS).items()]
    RESULT.write_text(json.dumps({"texts": TEXTS, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
