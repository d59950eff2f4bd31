"""Folders of language models with a vision tower, for hub_folders.py."""

from pathlib import Path

import hub_tokenizers as tokenizers
import torch
import transformers as hf
from hub_tokenizers import write_json
from PIL import Image

IMAGES = Path("tests/data/golden/images")
ENCODER = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2}
TEXT = {"attention_bias": False, "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.02, "intermediate_size": 24,
        "max_position_embeddings": 2048, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "rms_norm_eps": 1e-05, "use_cache": True}
CLIP_PIXELS = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
HALVES = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
NEW = 8


def added(tokens, first, **how):
    """added_tokens_decoder of tokenizer_config.json."""
    return {str(first + i): {"content": token, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                             "special": True, **how} for i, token in enumerate(tokens)}


def continuations(folder, image_class, processor_class, prompts, **of_processor):
    """Of (text, names of images). Their processor replaces placeholders; images are processed by Pillow."""
    model = hf.AutoModelForImageTextToText.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    processor = processor_class(image_class.from_pretrained(folder), tokenizer, **of_processor)
    result = []
    for text, names in prompts:
        images = [Image.open(IMAGES / name).convert("RGB") for name in names]
        encoded = processor(text=text, images=images, return_tensors="pt") if images else processor(text=text, return_tensors="pt")
        with torch.no_grad():
            found = model.generate(**encoded, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0,
                                   output_logits=True, return_dict_in_generate=True)
        ids = found.sequences[0, encoded["input_ids"].shape[1]:]
        scores = torch.stack(found.logits, 1).log_softmax(-1)[0].gather(1, ids[:, None])[:, 0]
        command = ["generate", "--max-new-tokens", str(NEW), "--min-new-tokens", str(NEW)]
        result.append({"command": command, "input": text, "images": names, "prompt_tokens": encoded["input_ids"].shape[1],
                       "texts": [{"ids": ids.tolist(), "token_log_probabilities": scores.tolist()}]})
    return result


def llava(folder, model):
    """Names of tensors as of transformers 4, and f16; the patches of the layer before the last."""
    size = tokenizers.llama2(folder, more=["<image>", "<pad>"])
    model(folder, {
        "architectures": ["LlavaForConditionalGeneration"], "ignore_index": -100, "image_token_index": size - 2,
        "model_type": "llava", "pad_token_id": size - 1, "projector_hidden_act": "gelu",
        "text_config": {**TEXT, "_name_or_path": "lmsys/vicuna-7b-v1.5", "architectures": ["LlamaForCausalLM"],
                        "max_position_embeddings": 4096, "model_type": "llama", "torch_dtype": "float16", "vocab_size": size},
        "tie_word_embeddings": False, "torch_dtype": "float16", "transformers_version": "4.36.0.dev0",
        "vision_config": {**ENCODER, "num_hidden_layers": 3, "image_size": 24, "model_type": "clip_vision_model", "patch_size": 8,
                          "projection_dim": 12, "vocab_size": 32000},
        "vision_feature_layer": -2, "vision_feature_select_strategy": "default"}, change=lambda tensors: {
            name.replace("vision_tower.", "vision_tower.vision_model."): tensor for name, tensor in tensors.items()},
        dtype=torch.float16)
    write_json(folder / "preprocessor_config.json", {
        "crop_size": {"height": 24, "width": 24}, "do_center_crop": True, "do_convert_rgb": True, "do_normalize": True,
        "do_rescale": True, "do_resize": True, **CLIP_PIXELS, "image_processor_type": "CLIPImageProcessor",
        "processor_class": "LlavaProcessor", "resample": 3, "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 24}})
    write_json(folder / "tokenizer_config.json", {
        "add_bos_token": True, "add_eos_token": False,
        "added_tokens_decoder": added(("<unk>", "<s>", "</s>"), 0) | added(("<image>", "<pad>"), size - 2),
        "bos_token": "<s>", "clean_up_tokenization_spaces": False, "eos_token": "</s>", "legacy": False, "model_max_length": 4096,
        "pad_token": "<pad>", "padding_side": "left", "processor_class": "LlavaProcessor", "tokenizer_class": "LlamaTokenizer",
        "unk_token": "<unk>"})
    write_json(folder / "chat_template.json", {"chat_template":
        "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}"
        "{# Render all images first #}{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}"
        "{{ '<image>\n' }}{% endfor %}{# Render all text next #}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}"
        "{% endfor %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"})
    write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": size - 1})
    return continuations(folder, hf.CLIPImageProcessorPil, hf.LlavaProcessor, [
        ("USER: <image> the man in the house ASSISTANT:", ["rgb.png"]),
        ("<image>a dog <image> and the red dog", ["rgba.png", "gray.png"]),
        ("a man of france", [])], patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1)


def llava_next(folder, model):
    """Tiles of the resolution that suits an image, and a learned row after each row of patches."""
    size = tokenizers.llama2(folder, more=["<image>", "<pad>"])
    resolutions = [[24, 48], [48, 24], [48, 48], [72, 24], [24, 72]]
    model(folder, {
        "architectures": ["LlavaNextForConditionalGeneration"], "ignore_index": -100, "image_grid_pinpoints": resolutions,
        "image_token_index": size - 2, "model_type": "llava_next", "projector_hidden_act": "gelu",
        "text_config": {**TEXT, "_name_or_path": "mistralai/Mistral-7B-Instruct-v0.2", "architectures": ["MistralForCausalLM"],
                        "max_position_embeddings": 32768, "model_type": "mistral", "rope_theta": 1000000.0, "sliding_window": None,
                        "torch_dtype": "bfloat16", "vocab_size": size},
        "tie_word_embeddings": False, "torch_dtype": "float16", "transformers_version": "4.39.0.dev0",
        "use_image_newline_parameter": True,
        "vision_config": {**ENCODER, "num_hidden_layers": 3, "image_size": 24, "model_type": "clip_vision_model", "patch_size": 4,
                          "projection_dim": 12, "vocab_size": 32000},
        "vision_feature_layer": -2, "vision_feature_select_strategy": "default"}, change=lambda tensors: {
            name.replace("vision_tower.", "vision_tower.vision_model."): tensor for name, tensor in tensors.items()},
        dtype=torch.float16)
    write_json(folder / "preprocessor_config.json", {
        "aspect_ratio_setting": "anyres", "crop_size": {"height": 24, "width": 24}, "do_center_crop": True, "do_convert_rgb": True,
        "do_normalize": True, "do_rescale": True, "do_resize": True, "image_grid_pinpoints": resolutions, **CLIP_PIXELS,
        "image_processor_type": "LlavaNextImageProcessor", "processor_class": "LlavaNextProcessor", "resample": 3,
        "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 24}})
    write_json(folder / "processor_config.json", {
        "image_token": "<image>", "num_additional_image_tokens": 1, "patch_size": 4, "processor_class": "LlavaNextProcessor",
        "vision_feature_select_strategy": "default"})
    write_json(folder / "tokenizer_config.json", {
        "add_bos_token": True, "add_eos_token": False,
        "added_tokens_decoder": added(("<unk>", "<s>", "</s>"), 0) | added(("<image>", "<pad>"), size - 2),
        "additional_special_tokens": [], "bos_token": "<s>", "clean_up_tokenization_spaces": False, "eos_token": "</s>",
        "legacy": True, "model_max_length": 1000000000000000019884624838656, "pad_token": "<pad>", "padding_side": "left",
        "processor_class": "LlavaNextProcessor", "tokenizer_class": "LlamaTokenizer", "unk_token": "<unk>"})
    write_json(folder / "chat_template.json", {"chat_template":
        "{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' }}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] }}{% endfor %}"
        "{{ ' [/INST]' }}{% else %}{{ ' ' + message['content'][0]['text'] + '</s>' }}{% endif %}{% endfor %}"})
    write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": size - 1})
    return continuations(folder, hf.LlavaNextImageProcessorPil, hf.LlavaNextProcessor, [
        ("[INST] <image> the man in the house [/INST]", ["rgb.png"]),
        ("a dog <image> and", ["resized_3_43x17.png"]),
        ("<image>a dog <image> and the red dog", ["rgba.png", "gray.png"])], patch_size=4,
        vision_feature_select_strategy="default", num_additional_image_tokens=1)


def smolvlm(folder, model):
    """Tiles of a grid, each with the row and column of its own."""
    grid = [f"<row_{i}_col_{j}>" for i in range(1, 4) for j in range(1, 4)]
    more = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *grid]
    size = tokenizers.smollm(folder, more=more)
    first = size - len(more)
    model(folder, {
        "architectures": ["Idefics3ForConditionalGeneration"], "image_seq_len": 9, "image_token_id": first + 1,
        "model_type": "idefics3", "scale_factor": 2,
        "text_config": {**TEXT, "_flash_attn_2_enabled": True, "_name_or_path": "None", "architectures": ["VLlama3ForCausalLM"],
                        "head_dim": 4, "is_llama_config": True, "model_type": "llama", "neftune_noise_alpha": 0.0,
                        "pad_token_id": 2, "perceiver_config": {"_attn_implementation_autoset": False, "attention_dropout": 0.0,
                                                                "model_type": "vllama3"},
                        "pixel_shuffle_factor": 4, "qk_layer_norms": False, "rope_interleaved": False, "rope_theta": 100000,
                        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_resampler": False, "vocab_size": size},
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.46.0", "use_cache": True,
        "vision_config": {**ENCODER, "image_size": 24, "max_image_size": {"longest_edge": 24}, "model_type": "idefics3",
                          "patch_size": 4, "size": {"longest_edge": 96}, "tie_word_embeddings": False, "use_base_siglip": False},
        "vocab_size": size}, dtype=torch.bfloat16)
    write_json(folder / "preprocessor_config.json", {
        "do_convert_rgb": True, "do_image_splitting": True, "do_normalize": True, "do_pad": True, "do_rescale": True,
        "do_resize": True, **HALVES, "image_processor_type": "Idefics3ImageProcessor", "max_image_size": {"longest_edge": 24},
        "processor_class": "Idefics3Processor", "resample": 1, "rescale_factor": 0.00392156862745098,
        "size": {"longest_edge": 72}})
    write_json(folder / "processor_config.json", {"image_seq_len": 9, "processor_class": "Idefics3Processor"})
    write_json(folder / "tokenizer_config.json", {
        "add_prefix_space": False,
        "added_tokens_decoder": added(("<|endoftext|>", "<|im_start|>", "<|im_end|>"), 0) | added(more, first),
        "additional_special_tokens": ["<fake_token_around_image>", "<image>", "<end_of_utterance>"],
        "bos_token": "<|im_start|>", "clean_up_tokenization_spaces": False, "eos_token": "<end_of_utterance>",
        "legacy": False, "model_max_length": 8192, "pad_token": "<|im_end|>", "processor_class": "Idefics3Processor",
        "tokenizer_class": "GPT2Tokenizer", "truncation_side": "left", "unk_token": "<|endoftext|>", "vocab_size": size})
    write_json(folder / "chat_template.json", {"chat_template":
        "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
        "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
        "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
        "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
        "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"})
    write_json(folder / "generation_config.json", {"_from_model_config": True, "bos_token_id": 1,
                                                   "eos_token_id": [2, first + 2], "pad_token_id": 2})
    return continuations(folder, hf.Idefics3ImageProcessorPil, hf.Idefics3Processor, [
        ("<|im_start|>User:<image>the man<end_of_utterance>Assistant:", ["rgb.png"]),
        ("User:<image>a dog<image> in the house", ["rgba.png", "gray.png"])], image_seq_len=9)


class WithoutVideos(hf.InternVLProcessor):
    """The processor of videos needs torchvision."""

    def check_argument_for_proper_class(self, name, argument):
        if argument is not None:
            super().check_argument_for_proper_class(name, argument)


def internvl(folder, model):
    """Tiles of the grid of the nearest aspect ratio, and an encoder with factors of its sublayers' results."""
    more = ["<img>", "</img>", "<IMG_CONTEXT>", "<video>"]
    size = tokenizers.smollm(folder, more=more)
    first = size - len(more)
    text = {key: value for key, value in TEXT.items() if key != "attention_bias"}
    model(folder, {
        "architectures": ["InternVLForConditionalGeneration"], "downsample_ratio": 0.5, "image_seq_length": 9,
        "image_token_id": first + 2, "model_type": "internvl", "projector_hidden_act": "gelu",
        "text_config": {**text, "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 0,
                        "eos_token_id": 2, "max_window_layers": 70, "model_type": "qwen2", "rms_norm_eps": 1e-06,
                        "rope_scaling": {"factor": 2.0, "rope_type": "dynamic", "type": "dynamic"}, "rope_theta": 1000000.0,
                        "sliding_window": None, "torch_dtype": "bfloat16", "use_sliding_window": False, "vocab_size": size},
        "torch_dtype": "bfloat16", "transformers_version": "4.52.0.dev0", "tie_word_embeddings": False,
        "vision_config": {**ENCODER, "architectures": ["InternVisionModel"], "attention_bias": True, "attention_dropout": 0.0,
                          "dropout": 0.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "image_size": [24, 24],
                          "initializer_factor": 0.1, "initializer_range": 1e-10, "layer_norm_eps": 1e-06,
                          "layer_scale_init_value": 0.1, "model_type": "internvl_vision", "norm_type": "layer_norm",
                          "num_channels": 3, "patch_size": [4, 4], "projection_dropout": 0.0, "torch_dtype": "bfloat16",
                          "use_absolute_position_embeddings": True, "use_mask_token": False, "use_mean_pooling": True,
                          "use_qk_norm": False},
        "vision_feature_layer": -1, "vision_feature_select_strategy": "default"}, dtype=torch.bfloat16)
    write_json(folder / "preprocessor_config.json", {
        "crop_size": None, "crop_to_patches": False, "data_format": "channels_first", "default_to_square": True, "device": None,
        "do_center_crop": None, "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
        "image_mean": [0.485, 0.456, 0.406], "image_processor_type": "GotOcr2ImageProcessorFast",
        "image_std": [0.229, 0.224, 0.225], "input_data_format": None, "max_patches": 12, "min_patches": 1,
        "processor_class": "InternVLProcessor", "resample": 3, "rescale_factor": 0.00392156862745098, "return_tensors": None,
        "size": {"height": 24, "width": 24}})
    write_json(folder / "processor_config.json", {"image_seq_length": 9, "processor_class": "InternVLProcessor"})
    write_json(folder / "tokenizer_config.json", {
        "add_bos_token": False, "add_prefix_space": False,
        "added_tokens_decoder": added(("<|endoftext|>", "<|im_start|>", "<|im_end|>"), 0) | added(more, first),
        "bos_token": None, "clean_up_tokenization_spaces": False, "context_image_token": "<IMG_CONTEXT>",
        "end_image_token": "</img>", "eos_token": "<|im_end|>", "errors": "replace",
        "extra_special_tokens": {"context_image_token": "<IMG_CONTEXT>", "end_image_token": "</img>",
                                 "start_image_token": "<img>", "video_token": "<video>"},
        "model_max_length": 8192, "pad_token": "<|endoftext|>", "processor_class": "InternVLProcessor", "split_special_tokens": False,
        "start_image_token": "<img>", "tokenizer_class": "Qwen2Tokenizer", "unk_token": None, "video_token": "<video>"})
    write_json(folder / "chat_template.json", {"chat_template":
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for content in message['content'] %}"
        "{% if content['type'] == 'image' %}{{ '<IMG_CONTEXT>\n' }}{% elif content['type'] == 'text' %}{{ content['text'] }}"
        "{% endif %}{% endfor %}{% endif %}{{'<|im_end|>\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{'<|im_start|>assistant\n' }}{% endif %}"})
    write_json(folder / "generation_config.json", {"_from_model_config": True, "bos_token_id": 0, "eos_token_id": 2})
    return continuations(folder, hf.GotOcr2ImageProcessorPil, WithoutVideos, [
        ("<|im_start|>user <IMG_CONTEXT> the man in the house<|im_end|>", ["rgb.png"]),
        ("a dog <IMG_CONTEXT> and", ["resized_3_43x17.png"]),
        ("<IMG_CONTEXT>a dog <IMG_CONTEXT> and the red dog", ["rgba.png", "gray.png"])], image_seq_length=9)


def gemma3(folder, model):
    """The patches of an image are averaged and see each other, within a window."""
    more = ["<start_of_image>", "<end_of_image>", "<image_soft_token>"]
    size = tokenizers.gemma(folder, more=more)
    begin, end, soft = range(size - 3, size)
    model(folder, {
        "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": begin, "eoi_token_index": end,
        "eos_token_id": [1], "image_token_index": soft, "initializer_range": 0.02, "mm_tokens_per_image": 9,
        "model_type": "gemma3", "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
        "text_config": {"head_dim": 8, "hidden_size": 16, "intermediate_size": 24, "model_type": "gemma3_text",
                        "num_attention_heads": 4, "num_hidden_layers": 6, "num_key_value_heads": 2, "query_pre_attn_scalar": 8,
                        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 16, "vocab_size": size},
        "vision_config": {**ENCODER, "image_size": 24, "model_type": "siglip_vision_model", "patch_size": 4,
                          "vision_use_head": False}}, change=lambda tensors: {
            name.replace("vision_tower.", "vision_tower.vision_model."): tensor for name, tensor in tensors.items()},
        dtype=torch.bfloat16)
    write_json(folder / "preprocessor_config.json", {
        "do_convert_rgb": None, "do_normalize": True, "do_pan_and_scan": None, "do_rescale": True, "do_resize": True,
        **HALVES, "image_processor_type": "Gemma3ImageProcessor", "image_seq_length": 9, "pan_and_scan_max_num_crops": None,
        "pan_and_scan_min_crop_size": None, "pan_and_scan_min_ratio_to_activate": None, "processor_class": "Gemma3Processor",
        "resample": 2, "rescale_factor": 0.00392156862745098, "size": {"height": 24, "width": 24}})
    write_json(folder / "processor_config.json", {"image_seq_length": 9, "processor_class": "Gemma3Processor"})
    write_json(folder / "tokenizer_config.json", {
        "add_bos_token": True, "add_eos_token": False,
        "added_tokens_decoder": added(("<pad>", "<eos>", "<bos>", "<unk>"), 0) | added(more, begin), "boi_token": "<start_of_image>",
        "bos_token": "<bos>", "clean_up_tokenization_spaces": False, "eoi_token": "<end_of_image>", "eos_token": "<eos>",
        "extra_special_tokens": {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>",
                                 "image_token": "<image_soft_token>"},
        "image_token": "<image_soft_token>", "model_max_length": 1000000000000000019884624838656, "pad_token": "<pad>",
        "processor_class": "Gemma3Processor", "tokenizer_class": "GemmaTokenizer", "unk_token": "<unk>"})
    write_json(folder / "chat_template.json", {"chat_template":
        "{{ bos_token }}{%- for message in messages -%}{{ '<start_of_turn>' + message['role'] + '\n' }}"
        "{%- if message['content'] is string -%}{{ message['content'] | trim }}"
        "{%- elif message['content'] is iterable -%}{%- for item in message['content'] -%}"
        "{%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}{%- elif item['type'] == 'text' -%}"
        "{{ item['text'] | trim }}{%- endif -%}{%- endfor -%}{%- endif -%}{{ '<end_of_turn>\n' }}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"})
    write_json(folder / "generation_config.json", {"bos_token_id": 2, "eos_token_id": [1], "pad_token_id": 0})
    return continuations(folder, hf.Gemma3ImageProcessorPil, hf.Gemma3Processor, [
        ("the man <start_of_image> in the house and the man and a dog and the red house", ["rgb.png"]),
        ("<start_of_image><start_of_image>a dog", ["rgba.png", "gray.png"])], image_seq_length=9)


def tile_grids():
    """Of images of these sizes, in tiles of 364 and of 512 pixels: [height, width, rows, columns]."""
    result = []
    for side, edge in ((364, 1456), (512, 2048), (100, 300)):
        processor = hf.Idefics3ImageProcessorPil(size={"longest_edge": edge}, max_image_size={"longest_edge": side})
        sizes = [(1, 1), (1, 900), (900, 1), (333, 333), (333, 334), (480, 640), (640, 480), (1080, 1920), (17, 3000), (1000, 999),
                 (511, 257), (200, 900), (901, 299)]
        for height, width in sizes:
            found = processor(Image.new("RGB", (width, height)), return_row_col_info=True)
            result.append([edge, side, height, width, found["rows"][0][0], found["cols"][0][0]])
    return result


if __name__ == "__main__":
    lines = ",\n".join(f"  {one}" for one in tile_grids())
    Path("tests/models/golden/images/tile_grids.json").write_text(f"[\n{lines}\n]\n")
