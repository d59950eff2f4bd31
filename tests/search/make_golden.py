"""Writes beam_search.json and controls.json: results of transformers' generate() for models that are tables of random
logits, and its sampling distributions.

    python tests/search/make_golden.py   # needs torch and transformers (5.23 made the committed files)
"""

import json
import pathlib

import torch
import transformers
from transformers import (GenerationConfig, GenerationMixin, LogitsProcessorList, MinPLogitsWarper, PretrainedConfig,
                          PreTrainedModel, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)
from transformers.modeling_outputs import CausalLMOutput

START, EOS, PAD = 2, 0, 1


class TableConfig(PretrainedConfig):
    model_type = "table"

    def __init__(self, vocab_size=4, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.num_hidden_layers = 1


class TableModel(PreTrainedModel, GenerationMixin):
    """The next token's logits are a table's row, selected by (number of tokens so far, last token)."""

    config_class = TableConfig

    def __init__(self, config, table):
        super().__init__(config)
        self.table = torch.nn.Parameter(table)

    def forward(self, input_ids, **kwargs):
        places = torch.arange(input_ids.shape[1]) % self.table.shape[0]
        return CausalLMOutput(logits=self.table[places, input_ids])

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        return {"input_ids": input_ids}


def rounded(values, digits=7):
    return [round(float(value), digits) for value in values]


def random_table(vocabulary, places, eos_bonus):
    # Three decimals, so that the file has the exact values.
    table = torch.randn(places, vocabulary, vocabulary) * 1.5
    table[:, :, EOS] += eos_bonus
    return (table * 1000).round() / 1000


def controls():
    torch.manual_seed(21)
    table = random_table(14, 4, 0.3)
    model = TableModel(TableConfig(vocab_size=14), table.float()).eval()
    searches = []
    for beam in (1, 3, 5):
        for prefix in ([], [5], [7, 3, 7]):
            for ngram, penalty, sequences in ((0, 1.0, []), (2, 1.0, []), (1, 1.0, []), (0, 1.7, []), (0, 0.6, []),
                                              (0, 1.0, [[4], [3, 9], [7, 3]]), (3, 1.3, [[9, 9]])):
                bad = {"bad_words_ids": [[PAD]] + sequences}
                config = GenerationConfig(
                    num_beams=beam, num_return_sequences=beam, length_penalty=0.8, max_length=12,
                    no_repeat_ngram_size=ngram, repetition_penalty=penalty, eos_token_id=EOS, pad_token_id=PAD,
                    forced_eos_token_id=EOS, do_sample=False, use_cache=False, return_dict_in_generate=True,
                    output_scores=True, **bad)
                with torch.no_grad():
                    out = model.generate(torch.tensor([[START] + prefix]), generation_config=config)
                hypotheses = []
                for place, ids in enumerate(out.sequences.tolist()):
                    ids = ids[1:]
                    hypotheses.append({"ids": ids[: ids.index(EOS) + 1]})
                    if beam > 1:
                        hypotheses[-1]["score"] = rounded([out.sequences_scores[place]])[0]
                searches.append({"beam": beam, "prefix": prefix, "no_repeat_ngram": ngram, "repetition_penalty": penalty,
                                 "forbidden_sequences": sequences, "hypotheses": hypotheses})
    warped = []
    logits = (torch.randn(1, 40) * 2 * 1000).round() / 1000
    for temperature, top_k, top_p, min_p in ((1.0, 0, 1.0, 0.0), (0.7, 0, 1.0, 0.0), (1.0, 5, 1.0, 0.0),
                                             (1.0, 0, 0.8, 0.0), (1.0, 0, 1.0, 0.1), (1.5, 20, 0.9, 0.05),
                                             (0.5, 3, 0.3, 0.5), (1.0, 0, 0.01, 0.0)):
        warpers = LogitsProcessorList()
        if temperature != 1:
            warpers.append(TemperatureLogitsWarper(temperature))
        if top_k > 0:
            warpers.append(TopKLogitsWarper(top_k))
        if top_p < 1:
            warpers.append(TopPLogitsWarper(top_p))
        if min_p > 0:
            warpers.append(MinPLogitsWarper(min_p))
        probabilities = warpers(torch.tensor([[START]]), logits.clone()).softmax(-1)[0]
        warped.append({"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
                       "probabilities": rounded(probabilities)})
    return {"transformers": transformers.__version__, "start": START, "eos": EOS, "pad": PAD,
            "table": [[rounded(row, 3) for row in place] for place in table.tolist()], "searches": searches,
            "logits": rounded(logits[0], 3), "distributions": warped}


def main():
    path = pathlib.Path(__file__).parent / "controls.json"
    path.write_text(json.dumps(controls(), separators=(",", ":")) + "\n")
    torch.manual_seed(20)
    cases = []
    for number, (vocabulary, places, eos_bonus) in enumerate([(8, 3, 0.0), (12, 5, 0.7), (20, 4, 1.5), (9, 2, -1.0)]):
        table = random_table(vocabulary, places, eos_bonus)
        model = TableModel(TableConfig(vocab_size=vocabulary), table.float()).eval()
        searches = []
        for beam in (2, 3, 4, 6):
            if 2 * beam > vocabulary - 1:
                continue  # the first step needs 2 * beam different continuations
            for alpha in (0.0, 0.6, 1.0, 2.0, -0.5):
                for early in (False, True, "never"):
                    for max_length, min_length in ((12, 0), (25, 0), (9, 5)):
                        config = GenerationConfig(
                            num_beams=beam, num_return_sequences=beam, length_penalty=alpha, early_stopping=early,
                            max_length=max_length, min_length=min_length, eos_token_id=EOS, pad_token_id=PAD,
                            forced_eos_token_id=EOS, bad_words_ids=[[PAD]], do_sample=False, use_cache=False,
                            return_dict_in_generate=True, output_scores=True)
                        with torch.no_grad():
                            out = model.generate(torch.tensor([[START]]), generation_config=config)
                        hypotheses = []
                        for ids, score in zip(out.sequences.tolist(), rounded(out.sequences_scores)):
                            ids = ids[1:]
                            hypotheses.append({"ids": ids[: ids.index(EOS) + 1], "score": score})
                        searches.append({"beam": beam, "alpha": alpha, "early_stopping": str(early).lower(),
                                         "max_length": max_length, "min_length": min_length,
                                         "hypotheses": hypotheses})
        cases.append({"logits": [[rounded(row, 3) for row in place] for place in table.tolist()],
                      "searches": searches})
    path = pathlib.Path(__file__).parent / "beam_search.json"
    path.write_text(json.dumps({"transformers": transformers.__version__, "start": START, "eos": EOS, "pad": PAD,
                                "cases": cases}, separators=(",", ":")) + "\n")
    print(path.stat().st_size, "bytes,", sum(len(case["searches"]) for case in cases), "searches")


if __name__ == "__main__":
    main()
