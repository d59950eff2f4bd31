"""Folders of models that transcribe audio, for hub_folders.py, which read tests/apps/golden/audio/talk.flac.

    python tests/golden/speech_folders.py

writes that file: no speech, but tones with harmonics and noise, as loud as syllables."""

import json
from pathlib import Path

import hub_tokenizers as tokenizers
import numpy as np
import soundfile
import torch
import transformers as hf
from hub_tokenizers import write_json
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers.models.whisper.generation_whisper import _dynamic_time_warping, _median_filter

TALK = Path("tests/apps/golden/audio/talk.flac")
RATE, SECONDS = 16000, 5.3
CHUNK = 2  # seconds of a window: 100 positions
LANGUAGES = ["en", "de", "fr", "yue"]
TASKS = ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]


def write_talk():
    random = np.random.default_rng(1)
    t = np.arange(int(RATE * SECONDS)) / RATE
    pitch = np.cumsum(140 + 60 * np.sin(2 * np.pi * 0.7 * t)) / RATE
    voice = sum(np.sin(2 * np.pi * k * pitch) / k for k in (1, 2, 3, 5, 8))
    loudness = np.clip(np.sin(2 * np.pi * 2.3 * t), 0, 1) * (t % 2.6 < 2.1)
    samples = 0.25 * voice * loudness + 0.01 * random.standard_normal(t.size)
    coarse = np.round(np.clip(samples, -1, 1) * 127).astype(np.int16) * 256  # small files
    TALK.parent.mkdir(exist_ok=True)
    soundfile.write(TALK, coarse, RATE, subtype="PCM_16")


def tokenizer(folder, multilingual, no_speech="<|nospeech|>"):
    """Byte-level BPE. Returns the ids of special tokens, and the number of all."""
    merges, tokens = tokenizers.merges_of([*(f"Ġ{word}" for word in tokenizers.WORDS), "the", "Paris"])
    words = {token: i for i, token in enumerate([*tokenizers.BYTES, *dict.fromkeys(tokens)])}
    end = len(words)
    if not multilingual:  # part of the vocabulary
        words["<|endoftext|>"] = end
    (folder / "vocab.json").write_text(json.dumps(words, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    made = Tokenizer(models.BPE(words, merges))
    special = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in LANGUAGES), *TASKS]
    special = [no_speech if token == "<|nospeech|>" else token for token in special]
    made.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    times = [f"<|{i * 0.02:.2f}|>" for i in range(CHUNK * 50 + 1)]
    made.add_tokens([AddedToken(token, normalized=False) for token in times])
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    ids = {token: made.token_to_id(token) for token in special}
    start = ["<|startoftranscript|>", "<|notimestamps|>"]
    made.post_processor = processors.TemplateProcessing(
        single=f"{start[0]} {start[1]} $A <|endoftext|>", pair=f"{start[0]} {start[1]} $A $B <|endoftext|>",
        special_tokens=[(token, ids[token]) for token in (*start, "<|endoftext|>")])
    made.save(str(folder / "tokenizer.json"), pretty=False)
    write_json(folder / "tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False, "additional_special_tokens": special[1:],
        "bos_token": "<|endoftext|>", "clean_up_tokenization_spaces": True, "eos_token": "<|endoftext|>", "errors": "replace",
        "model_max_length": 448, "pad_token": "<|endoftext|>", "processor_class": "WhisperProcessor", "return_attention_mask": False,
        "tokenizer_class": "WhisperTokenizer", "unk_token": "<|endoftext|>"})
    return ids, made.get_vocab_size()


def config(ids, size, **fields):
    end = ids["<|endoftext|>"]
    return {"_name_or_path": "openai/whisper", "activation_dropout": 0.0, "activation_function": "gelu", "apply_spec_augment": False,
            "architectures": ["WhisperForConditionalGeneration"], "attention_dropout": 0.0, "begin_suppress_tokens": [220, end],
            "bos_token_id": end, "classifier_proj_size": 256, "d_model": 16, "decoder_attention_heads": 2, "decoder_ffn_dim": 24,
            "decoder_layerdrop": 0.0, "decoder_layers": 2, "decoder_start_token_id": ids["<|startoftranscript|>"], "dropout": 0.0,
            "encoder_attention_heads": 2, "encoder_ffn_dim": 24, "encoder_layerdrop": 0.0, "encoder_layers": 2, "eos_token_id": end,
            "forced_decoder_ids": [[1, ids["<|en|>"]], [2, ids["<|transcribe|>"]], [3, ids["<|notimestamps|>"]]], "init_std": 0.02,
            "is_encoder_decoder": True, "mask_feature_length": 10, "mask_feature_min_masks": 0, "mask_feature_prob": 0.0,
            "mask_time_length": 10, "mask_time_min_masks": 2, "mask_time_prob": 0.05, "max_length": 40,
            "max_source_positions": CHUNK * 50, "max_target_positions": 40, "median_filter_width": 7, "model_type": "whisper",
            "num_hidden_layers": 2, "num_mel_bins": 80, "pad_token_id": end, "scale_embedding": False,
            "torch_dtype": "float32", "transformers_version": "4.31.0.dev0", "use_cache": True, "use_weighted_layer_sum": False,
            "vocab_size": size, **fields}


def generation(folder, ids, multilingual, **fields):
    end = ids["<|endoftext|>"]
    of_languages = {"forced_decoder_ids": [[1, None], [2, ids["<|transcribe|>"]]],
                    "lang_to_id": {f"<|{code}|>": ids[f"<|{code}|>"] for code in LANGUAGES},
                    "task_to_id": {"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]}}
    write_json(folder / "generation_config.json", {
        "_from_model_config": False, "alignment_heads": [[0, 1], [1, 0]], "begin_suppress_tokens": [len(tokenizers.BYTES), end], "bos_token_id": end,
        "decoder_start_token_id": ids["<|startoftranscript|>"], "eos_token_id": end,
        **(of_languages if multilingual else {"forced_decoder_ids": [[1, ids["<|notimestamps|>"]]]}),
        "is_multilingual": multilingual, "max_initial_timestamp_index": 20, "max_length": 40,
        "no_timestamps_token_id": ids["<|notimestamps|>"], "pad_token_id": end, "prev_sot_token_id": ids["<|startofprev|>"],
        "return_timestamps": False, "suppress_tokens": [*range(len(tokenizers.BYTES)), *range(ids["<|startoftranscript|>"], ids["<|notimestamps|>"])],
        "transformers_version": "4.31.0.dev0", **fields})


def processor(folder, bins):
    write_json(folder / "preprocessor_config.json", {
        "chunk_length": CHUNK, "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": bins, "hop_length": 160,
        "n_fft": 400, "n_samples": CHUNK * RATE, "nb_max_frames": CHUNK * 100, "padding_side": "right", "padding_value": 0.0,
        "processor_class": "WhisperProcessor", "return_attention_mask": False, "sampling_rate": RATE})


def varied(model):
    """Outputs depend less on the last token."""
    with torch.no_grad():
        model.model.decoder.embed_tokens.weight *= 0.4


def add_words(model, tokens, features, begin, start, segments):
    """openai/whisper's timing.py with the cross attention of transformers: the words of the segments of a window that begins at this
    frame and whose output begins with these tokens."""
    frames = features[:, :, begin:begin + 100 * CHUNK]
    steps = frames.shape[-1] // 2
    features = torch.nn.functional.pad(frames, (0, 100 * CHUNK - frames.shape[-1]))
    ids = [id for one in segments for id in one["ids"]]
    prefix = [*start, model.generation_config.no_timestamps_token_id]
    with torch.no_grad():
        found = model(features, decoder_input_ids=torch.tensor([[*prefix, *ids]]), output_attentions=True).cross_attentions
    weights = torch.stack([found[layer][0, head] for layer, head in model.generation_config.alignment_heads])[:, :, :steps].double()
    weights = weights / weights.sum(-1, keepdim=True)
    deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    weights = _median_filter(((weights - mean) / deviation).unsqueeze(0), 7).squeeze(0)
    matrix = weights.mean(0)[len(start):]
    rows, columns = _dynamic_time_warping(-matrix.numpy())
    times = columns[np.diff(rows, prepend=-1) > 0] * 0.02 + begin / 100
    place = 0
    for one in segments:
        one["words"] = []
        pieces = [tokens.decode([id]) for id in one["ids"]]
        for i, piece in enumerate(pieces):
            if i == 0 or piece.startswith(" "):
                one["words"].append({"text": "", "begin": float(times[place + i])})
            one["words"][-1]["text"] += piece
            one["words"][-1]["end"] = float(times[place + i + 1])
        place += len(pieces)


def transcriptions(folder, cases):
    """Of (command, arguments of generate()). Without temperatures: the first attempt counts. Times are within the audio."""
    model = hf.WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    tokens = hf.AutoTokenizer.from_pretrained(folder)
    extract = hf.WhisperFeatureExtractor.from_pretrained(folder)
    samples, _ = soundfile.read(TALK, dtype="float32")
    first_time = model.generation_config.no_timestamps_token_id + 1
    known = model.generation_config
    result = []
    for command, arguments in cases:
        features = extract(samples, sampling_rate=RATE, truncation=False, padding="longest", return_tensors="pt").input_features
        with torch.no_grad():
            found = model.generate(features, return_timestamps=True, return_segments=True, **arguments)
        segments, windows = [], {}
        for one in found["segments"][0]:
            ids = [int(id) for id in one["tokens"]]
            assert ids[0] >= first_time
            texts = [id for id in ids if id < model.config.eos_token_id]
            segments.append({"begin": min(float(one["start"]), SECONDS), "end": min(float(one["end"]), SECONDS),
                             "text": tokens.decode(texts), "ids": texts})
            if texts:
                begin = round(100 * float(one["start"])) - 2 * (ids[0] - first_time)
                windows.setdefault(begin, []).append(segments[-1])
        if "--words" in command:
            start = [known.decoder_start_token_id]
            if known.is_multilingual:
                start += [known.lang_to_id[f"<|{arguments['language']}|>"], known.task_to_id["transcribe"]]
            for begin, own in windows.items():
                add_words(model, tokens, features, begin, start, own)
        for one in segments:
            del one["ids"]
        print(folder.name, command, segments)
        result.append({"command": ["transcribe", "--temperatures", "0", *command], "audio": TALK.name,
                       "segments": [one for one in segments if one["text"].strip()]})
    return result


def whisper_tiny(folder, model):
    ids, size = tokenizer(folder, multilingual=True, no_speech="<|nocaptions|>")
    model(folder, config(ids, size), tune=varied)
    generation(folder, ids, multilingual=True)
    processor(folder, 80)
    return transcriptions(folder, [
        (["--language", "german", "--words"], {"language": "de"}), (["--language", "yue", "--translate"], {"language": "yue", "task": "translate"}),
        (["--language", "en", "--beam", "3"], {"language": "en", "num_beams": 3}), ([], {"task": "transcribe"})])


def whisper_tiny_en(folder, model):
    ids, size = tokenizer(folder, multilingual=False)
    model(folder, config(ids, size, apply_spec_augment=True), tune=varied)
    generation(folder, ids, multilingual=False)
    processor(folder, 80)
    return transcriptions(folder, [(["--words"], {}), (["--beam", "2", "--max-new-tokens", "12"], {"num_beams": 2, "max_new_tokens": 12})])


def whisper_large_v3_turbo(folder, model):
    """128 mel bins, f16, fewer layers of the decoder, and the names of transformers 5."""
    ids, size = tokenizer(folder, multilingual=True)
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    model(folder, config(ids, size, decoder_layers=1, num_mel_bins=128, torch_dtype="float16", max_target_positions=48),
          dtype=torch.float16, tune=varied)
    generation(folder, ids, multilingual=True, alignment_heads=[[0, 0], [0, 1]])
    processor(folder, 128)
    return transcriptions(folder, [(["--language", "fr", "--words"], {"language": "fr"}),
                                   (["--language", "en", "--previous-text"], {"language": "en", "condition_on_prev_tokens": True})])


if __name__ == "__main__":
    write_talk()
