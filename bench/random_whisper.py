"""A Whisper folder with random weights in the sizes of the published ones, for compare_transcription.py.

    python bench/random_whisper.py OUT [--size base]
"""

import argparse
import itertools
import json
from pathlib import Path

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers.models.whisper.tokenization_whisper import LANGUAGES

# d_model, layers of the encoder and of the decoder, heads, mel bins (Radford et al. 2022, table 1; large-v3-turbo)
SIZES = {"tiny": (384, 4, 4, 6, 80), "base": (512, 6, 6, 8, 80), "small": (768, 12, 12, 12, 80), "medium": (1024, 24, 24, 16, 80),
         "turbo": (1280, 32, 4, 20, 128)}
WORDS = 50257


def write_tokenizer(out):
    """Byte-level BPE of invented merges, and Whisper's special tokens. Returns the number of tokens."""
    bytes_ = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = {token: i for i, token in enumerate(bytes_)}
    merges = []
    for length in (2, 3, 4):
        for token in map("".join, itertools.product(letters, repeat=length)):
            if len(words) < WORDS:
                words[token] = len(words)
                merges.append((token[:-1], token[-1]))
    made = Tokenizer(models.BPE(words, merges))
    special = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in list(LANGUAGES)[:99]), "<|translate|>", "<|transcribe|>",
               "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    made.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    made.add_tokens([AddedToken(f"<|{i * 0.02:.2f}|>", normalized=False) for i in range(1501)])
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(out / "tokenizer.json"), pretty=False)
    (out / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "WhisperTokenizer", "eos_token": special[0],
                                                           "bos_token": special[0], "pad_token": special[0], "unk_token": special[0]}))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", choices=SIZES, default="base")
    arguments = parser.parse_args()
    width, encoder, decoder, heads, bins = SIZES[arguments.size]
    arguments.out.mkdir(parents=True, exist_ok=True)
    tokenizer = write_tokenizer(arguments.out)
    end, start = (tokenizer.token_to_id(f"<|{name}|>") for name in ("endoftext", "startoftranscript"))
    torch.manual_seed(1)
    config = transformers.WhisperConfig(
        vocab_size=tokenizer.get_vocab_size(), d_model=width, encoder_layers=encoder, decoder_layers=decoder, encoder_attention_heads=heads,
        decoder_attention_heads=heads, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, num_mel_bins=bins,
        decoder_start_token_id=start, pad_token_id=end, bos_token_id=end, eos_token_id=end, begin_suppress_tokens=None)
    model = transformers.WhisperForConditionalGeneration(config)
    known = model.generation_config
    known._from_model_config = False
    known.is_multilingual = True
    known.lang_to_id = {f"<|{code}|>": tokenizer.token_to_id(f"<|{code}|>") for code in list(LANGUAGES)[:99]}
    known.task_to_id = {name: tokenizer.token_to_id(f"<|{name}|>") for name in ("transcribe", "translate")}
    known.no_timestamps_token_id = tokenizer.token_to_id("<|notimestamps|>")
    known.prev_sot_token_id = tokenizer.token_to_id("<|startofprev|>")
    known.begin_suppress_tokens = None
    model.save_pretrained(arguments.out)
    transformers.WhisperFeatureExtractor(feature_size=bins).save_pretrained(arguments.out)


if __name__ == "__main__":
    main()
