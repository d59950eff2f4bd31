"""Small models of transformers' families with random parameters, and their outputs.

Used by tests/golden/families.py, which writes small folders for CTest, and by compare_families.py.
"""

import numpy as np
import torch
import transformers as hf
from transformers.modeling_outputs import MoeCausalLMOutputWithPast
from transformers.models.falcon import modeling_falcon
from transformers.models.granite_swa import modeling_granite_swa
from transformers.models.granitemoe_swa import modeling_granitemoe_swa

# transformers' eager implementation of Falcon's attention adds ALiBi's biases twice, its default one (sdpa) once: halved.
WHOLE_ALIBI = modeling_falcon.build_alibi_tensor
modeling_falcon.build_alibi_tensor = lambda *arguments, **named: WHOLE_ALIBI(*arguments, **named) / 2


# Llama 4's whole reads this field of its language model's results, which have none.
MoeCausalLMOutputWithPast.image_outputs = None


def attention_with_sinks(module):
    """An eager attention that returns the weights with which it multiplies the values; its own have no sink in the divisor."""
    own = module.eager_attention_forward

    def forward(attention, query, key, value, mask, scaling, **other):
        scores = torch.matmul(query, module.repeat_kv(key, attention.num_key_value_groups).transpose(2, 3)) * scaling + mask
        sinks = attention.sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        return own(attention, query, key, value, mask, scaling, **other)[0], torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]

    return forward


for granite in (modeling_granite_swa, modeling_granitemoe_swa):
    granite.eager_attention_forward = attention_with_sinks(granite)


def gpt2(size, tied=True, head="LMHeadModel", **other):
    config = hf.GPT2Config(vocab_size=size["vocabulary"], n_positions=size["positions"], n_embd=size["d_model"],
                           n_layer=size["layers"], n_head=size["heads"], n_inner=size["d_ff"], bos_token_id=1,
                           eos_token_id=2, tie_word_embeddings=tied, **other)
    return getattr(hf, f"GPT2{head}")(config)


def llama_config(size, key_heads=None, family="Llama", **other):
    """Of LLaMA, or a family with its names of the sizes; key_heads=0: one without a field for them."""
    sizes = {"vocab_size": size["vocabulary"], "max_position_embeddings": size["positions"], "hidden_size": size["d_model"],
             "intermediate_size": size["d_ff"], "num_hidden_layers": size["layers"], "num_attention_heads": size["heads"],
             "bos_token_id": 1, "eos_token_id": 2} | ({} if key_heads == 0 else {"num_key_value_heads": key_heads or size["heads"]})
    if family == "Kolibri1":  # has no such layers
        del sizes["intermediate_size"]
    return getattr(hf, f"{family}Config")(**sizes | other)


def llama(size, key_heads=None, family="Llama", head="ForCausalLM", **other):
    config = llama_config(size, key_heads, family, **other)
    # Its registry lacks Mistral 4.
    automatic = head == "ForCausalLM" and family != "Mistral4"
    return hf.AutoModelForCausalLM.from_config(config) if automatic else getattr(hf, f"{family}{head}")(config)


def within(family, text, vision=None, **other):
    """A language model within a model of images, with a small encoder of them."""
    config = getattr(hf, f"{family}Config")(text_config=text.to_dict(), vision_config=SIGLIP | (vision or {}), **other)
    return getattr(hf, f"{family}ForConditionalGeneration")(config)


def qwen_vl(size, family, key_heads, windows=None, **other):
    """Rotary positions of three sections."""
    whole = {key: other.pop(key) for key in ("tie_word_embeddings",) if key in other}
    width = other.get("head_dim", size["d_model"] // size["heads"])
    sections = [width // 2 - 2 * (width // 6), width // 6, width // 6]
    text = llama_config(size, key_heads, f"{family}Text", **{"rope_parameters": {
        "rope_type": "default", "rope_theta": 500.0, "mrope_section": sections}} | other)
    vision = {"model_type": f"{text.model_type.removesuffix('_text')}_vision", "depth": 1, "num_heads": 2, "out_hidden_size": size["d_model"],
              "deepstack_visual_indexes": [0], "num_position_embeddings": 4, "fullatt_block_indexes": [0], "embed_dim": 8}
    if family == "Qwen2VL":
        vision["hidden_size"] = size["d_model"]
    return within(family, text, vision, **whole)


PIXTRAL = {"model_type": "pixtral", "head_dim": 4}

INTERNVL = {"model_type": "internvl_vision", "image_size": [8, 8], "patch_size": [4, 4]}

CLIP = {"model_type": "clip_vision_model", "projection_dim": 8}

SIGLIP = {"model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
          "num_attention_heads": 2, "image_size": 8, "patch_size": 4}


def shared(size, of_four):
    """The share of a head's features that is of_four of its quarters, as an even number of features."""
    width = size["d_model"] // size["heads"]
    return 2 * (of_four * width // 8) / width


def gpt(size, family, width=None, **other):
    """GPT-2's names of the sizes; width: of a head, if not d_model / heads."""
    heads = other.pop("n_head", size["heads"])
    config = getattr(hf, f"{family}Config")(vocab_size=size["vocabulary"], n_positions=size["positions"],
                                            n_embd=heads * width if width else size["d_model"], n_layer=size["layers"], n_head=heads,
                                            n_inner=size["d_ff"], bos_token_id=1, eos_token_id=2, **other)
    return getattr(hf, f"{family}ForCausalLM")(config)


def bases(size):
    """A rotary base for each layer: none in the second, which has no positions, 100 in every other one."""
    return {"layer_rope_theta": [[100.0, 0, 500.0][i % 3] for i in range(size["layers"])]}


def ctrl(size, **other):
    return hf.CTRLLMHeadModel(hf.CTRLConfig(vocab_size=size["vocabulary"], n_positions=size["positions"], n_embd=size["d_model"],
                                            dff=size["d_ff"], n_layer=size["layers"], n_head=size["heads"], bos_token_id=1,
                                            eos_token_id=2, **other))


def openai_gpt(size, **other):
    return hf.OpenAIGPTLMHeadModel._from_config(hf.OpenAIGPTConfig(
        vocab_size=size["vocabulary"], n_positions=size["positions"], n_embd=size["d_model"], n_layer=size["layers"],
        n_head=size["heads"], bos_token_id=1, eos_token_id=2, **other))


def neox_japanese(size, **other):
    return hf.GPTNeoXJapaneseForCausalLM(hf.GPTNeoXJapaneseConfig(
        vocab_size=size["vocabulary"], max_position_embeddings=size["positions"], hidden_size=size["d_model"],
        num_hidden_layers=size["layers"], num_attention_heads=size["heads"], intermediate_multiple_size=2, bos_token_id=1,
        eos_token_id=2, **other))


def width(size):
    return size["d_model"] // size["heads"]


def gpt_neo(size, **other):
    layers = [["local", "global"][i % 2] for i in range(size["layers"])]
    return hf.GPTNeoForCausalLM(hf.GPTNeoConfig(
        vocab_size=size["vocabulary"], max_position_embeddings=size["positions"], hidden_size=size["d_model"],
        intermediate_size=size["d_ff"], num_layers=size["layers"], num_heads=size["heads"], window_size=4,
        attention_types=[[[kind], 1] for kind in layers], bos_token_id=1, eos_token_id=2, **other))


def bloom(size, **other):
    return hf.BloomForCausalLM(hf.BloomConfig(vocab_size=size["vocabulary"], hidden_size=size["d_model"], n_layer=size["layers"],
                                              n_head=size["heads"], bos_token_id=1, eos_token_id=2, **other))


def mpt(size, heads=2, **other):
    return hf.MptForCausalLM(hf.MptConfig(vocab_size=size["vocabulary"], max_seq_len=size["positions"], d_model=heads * width(size),
                                          n_layers=size["layers"], n_heads=heads, bos_token_id=1, eos_token_id=2, **other))


def falcon(size, **other):
    sizes = {"vocab_size": size["vocabulary"], "max_position_embeddings": size["positions"], "hidden_size": size["d_model"],
             "ffn_hidden_size": size["d_ff"], "num_hidden_layers": size["layers"], "num_attention_heads": size["heads"],
             "bos_token_id": 1, "eos_token_id": 2}
    # Its attention cannot be chosen later.
    return hf.FalconForCausalLM._from_config(hf.FalconConfig(**sizes | other), attn_implementation="eager")


def longrope(size):
    """Texts of up to `positions` tokens, a quarter of the model's limit."""
    angles = int(size["d_model"] // size["heads"] * shared(size, 3)) // 2
    return {"max_position_embeddings": 4 * size["positions"], "original_max_position_embeddings": size["positions"],
            "partial_rotary_factor": shared(size, 3),
            "rope_parameters": {"rope_type": "longrope", "short_factor": [1.25 + 0.5 * i for i in range(angles)],
                                "long_factor": [4.0 + i for i in range(angles)]}}


def magnitudes(size):
    """Phi-3.5-MoE's longrope, likewise."""
    return {"max_position_embeddings": 4 * size["positions"], "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 500.0, "short_mscale": 1.3, "long_mscale": 1.7,
        "original_max_position_embeddings": size["positions"],
        "short_factor": [1.25 + 0.5 * i for i in range(width(size) // 2)], "long_factor": [4.0 + i for i in range(width(size) // 2)]}}


def opt(size, **other):
    config = hf.OPTConfig(vocab_size=size["vocabulary"], max_position_embeddings=size["positions"], hidden_size=size["d_model"],
                          ffn_dim=size["d_ff"], num_hidden_layers=size["layers"], num_attention_heads=size["heads"],
                          bos_token_id=1, eos_token_id=2, pad_token_id=0, **other)
    return hf.OPTForCausalLM(config)


def bert(size, head="ForPreTraining", family="Bert", **other):
    config = getattr(hf, f"{family}Config")(vocab_size=size["vocabulary"], max_position_embeddings=size["positions"],
                           hidden_size=size["d_model"], intermediate_size=size["d_ff"],
                           num_hidden_layers=size["layers"], num_attention_heads=size["heads"], **other)
    return getattr(hf, f"{family}{head}")(config)


def deberta(size, head, **other):
    disentangled = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "norm_rel_ebd": "layer_norm",
                    "position_biased_input": False}
    return bert(size, head, "DebertaV2", **(disentangled | other))


def roberta(size, head="ForMaskedLM", family="Roberta", **other):
    config = getattr(hf, f"{family}Config")(vocab_size=size["vocabulary"], max_position_embeddings=size["positions"] + 2,
                              hidden_size=size["d_model"], intermediate_size=size["d_ff"], pad_token_id=1,
                              num_hidden_layers=size["layers"], num_attention_heads=size["heads"], **other)
    return getattr(hf, f"{family}{head}")(config)


def modernbert(size, head="ForMaskedLM", family="ModernBert", **other):
    """As many layers with a window as without, and one more."""
    config = getattr(hf, f"{family}Config")(vocab_size=size["vocabulary"], max_position_embeddings=size["positions"], hidden_size=size["d_model"],
                                 intermediate_size=size["d_ff"], num_hidden_layers=size["layers"], num_attention_heads=size["heads"],
                                 local_attention=6, global_attn_every_n_layers=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                 cls_token_id=1, sep_token_id=2, **other)
    return getattr(hf, f"{family}{head}")(config)


def nomic_bert(size, head="ForMaskedLM", **other):
    config = hf.NomicBertConfig(vocab_size=size["vocabulary"], max_position_embeddings=size["positions"], hidden_size=size["d_model"],
                                intermediate_size=size["d_ff"], num_hidden_layers=size["layers"], num_attention_heads=size["heads"],
                                **other)
    return getattr(hf, f"NomicBert{head}")(config)


def distilbert(size, head="ForMaskedLM", **other):
    config = hf.DistilBertConfig(vocab_size=size["vocabulary"], max_position_embeddings=size["positions"],
                                 dim=size["d_model"], hidden_dim=size["d_ff"], n_layers=size["layers"],
                                 n_heads=size["heads"], **other)
    return getattr(hf, f"DistilBert{head}")(config)


def vit(size, head="ForImageClassification", family="ViT", **other):
    config = getattr(hf, f"{family}Config")(hidden_size=size["d_model"], intermediate_size=size["d_ff"],
                                            num_hidden_layers=size["layers"], num_attention_heads=size["heads"],
                                            image_size=12, patch_size=4, **other)
    return getattr(hf, f"{family}{head}")(config)


def dual(size, family, head="Model", **other):
    """Of CLIP or SigLIP: both encoders, or one of them."""
    blocks = {"hidden_size": size["d_model"], "intermediate_size": size["d_ff"], "num_hidden_layers": size["layers"],
              "num_attention_heads": size["heads"]}
    text = blocks | {"vocab_size": size["vocabulary"], "max_position_embeddings": size["positions"], "eos_token_id": 1}
    vision = blocks | {"image_size": 12, "patch_size": 4}
    if head == "Model":
        vision |= {"hidden_size": 2 * size["d_model"]} if family == "CLIP" else {}
        config = getattr(hf, f"{family}Config")(text_config=text, vision_config=vision, **other)
    else:
        part = "Text" if head.startswith("Text") else "Vision"
        config = getattr(hf, f"{family}{part}Config")(**(text if part == "Text" else vision) | other)
    return getattr(hf, f"{family}{head}")(config)


def t5_config(size, family="T5", **other):
    options = {"d_kv": 6, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20} | other
    return getattr(hf, f"{family}Config")(vocab_size=size["vocabulary"], d_model=size["d_model"], d_ff=size["d_ff"],
                       num_layers=size["layers"], num_heads=size["heads"], decoder_start_token_id=0, **options)


def t5(size, scaled=True, **other):
    """scaled: as in the original T5, with a tied output projection; otherwise untied."""
    model = hf.T5ForConditionalGeneration(t5_config(size, tie_word_embeddings=scaled, **other))
    if not scaled:
        model.lm_head.weight = torch.nn.Parameter(torch.empty(size["vocabulary"], size["d_model"]))
    model.generation_config.decoder_start_token_id = 0
    return model


def bart(size, family="Bart", **other):
    """BART or its kin. Weights of a buffer are random, too: the bias of the logits."""
    sizes = {"vocab_size": size["vocabulary"], "max_position_embeddings": size["positions"], "d_model": size["d_model"],
             "encoder_layers": size["layers"], "decoder_layers": size["layers"], "encoder_attention_heads": size["heads"],
             "decoder_attention_heads": size["heads"], "encoder_ffn_dim": size["d_ff"], "decoder_ffn_dim": size["d_ff"],
             "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 2, "forced_eos_token_id": None}
    model = getattr(hf, f"{family}ForConditionalGeneration")(getattr(hf, f"{family}Config")(**sizes | other))
    if hasattr(model, "final_logits_bias"):
        torch.nn.init.normal_(model.final_logits_bias)
    return model


def mt5(size, **other):
    """With an output projection of its own, as in the published files."""
    model = hf.MT5ForConditionalGeneration(t5_config(size, "MT5", **other))
    model.lm_head.weight = torch.nn.Parameter(torch.empty(size["vocabulary"], size["d_model"]))
    model.generation_config.decoder_start_token_id = 0
    return model


def every_other(size, first="sliding", second="full"):
    """Layers of two kinds in turn."""
    return {"layer_types": [f"{second if i % 2 else first}_attention" for i in range(size["layers"])]}


def mixed(size, first="dense", second="sparse"):
    """Layers without and with experts in turn."""
    return {"mlp_layer_types": [[first, second][i % 2] for i in range(size["layers"])]}


def by_kind(**share):
    """Rotary positions of layers without and with a window."""
    return {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0, **share},
                                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0, **share}}}


def gemma4_config(size, key_heads, **other):
    return llama_config(size, key_heads, "Gemma4Text", **{"head_dim": 6, "global_head_dim": 16, "pad_token_id": 0, "sliding_window": 4,
                                                   "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": size["vocabulary"],
                                                   "layer_types": [f"{'full' if (size['layers'] - i) % 2 else 'sliding'}_attention"
                                                                   for i in range(size["layers"])]} | other)


def gemma4(size, key_heads, **other):
    return hf.AutoModelForCausalLM.from_config(gemma4_config(size, key_heads, **other))


def glm4v(size, key_heads, positions, **other):
    text = llama_config(size, key_heads, "Glm4vText", pad_token_id=0, rope_parameters=positions)
    return within("Glm4v", text, {"model_type": "glm4v_vision", "depth": 1, "num_heads": 2, "out_hidden_size": size["d_model"]}, **other)


def xglm(size, **other):
    return hf.XGLMForCausalLM(hf.XGLMConfig(vocab_size=size["vocabulary"], max_position_embeddings=size["positions"],
                                            d_model=size["d_model"], ffn_dim=size["d_ff"], num_layers=size["layers"],
                                            attention_heads=size["heads"], bos_token_id=1, eos_token_id=2, **other))


def experts(size, family, key_heads=1, **other):
    options = {"num_experts_per_tok": 2}
    if family in ("GptOss", "Mixtral", "Qwen3Moe"):
        options["head_dim"] = 6
    if family.startswith("Qwen"):
        options |= {"num_experts": 5, "moe_intermediate_size": 6}
    return llama(size, key_heads, family, **options | other)


def latent(size, family, **other):
    """Heads of which 4 features turn; the limits of yarn's ramp lie within them."""
    return llama(size, size["heads"], family, **{"kv_lora_rank": 8, "q_lora_rank": 6, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6,
                                                 "v_head_dim": 5, "attention_bias": True} | other)


def latent_experts(size, family, **other):
    return latent(size, family, **{"moe_intermediate_size": 6, "n_routed_experts": 6, "num_experts_per_tok": 3, "n_shared_experts": 2,
                                   "first_k_dense_replace": 1, "n_group": 3, "topk_group": 2, "routed_scaling_factor": 1.5} | other)


def routed(size, family, key_heads=1, **other):
    """The experts of DeepSeek-V3 after another attention."""
    return llama(size, key_heads, family, **{"moe_intermediate_size": 6, "n_routed_experts": 6, "num_experts_per_tok": 3, "n_shared_experts": 1,
                                             "n_group": 2, "topk_group": 1, "routed_scaling_factor": 1.5, "head_dim": 6} | other)


SCALED = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 8, "mscale": 0.7, "mscale_all_dim": 1.0}

THREE = {"id2label": {0: "bad", 1: "so-so", 2: "good"}, "label2id": {"bad": 0, "so-so": 1, "good": 2}}

ONE = {"id2label": {0: "relevance"}, "label2id": {"relevance": 0}}

# Every family, with each of its heads and each setting that changes the computation.
CASES = {
    "gpt2": lambda size: gpt2(size),
    "gpt2_untied_relu": lambda size: gpt2(size, tied=False, activation_function="relu"),
    "llama": lambda size: llama(size),
    "llama_grouped": lambda size: llama(size, key_heads=size["heads"] // 2, head_dim=6, tie_word_embeddings=True),
    "llama_biased": lambda size: llama(size, key_heads=1, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-3,
                                       rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "llama_rope_linear": lambda size: llama(size, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2.5}),
    "llama_rope_llama3": lambda size: llama(size, rope_parameters={
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}),
    "llama_rope_llama3_step": lambda size: llama(size, rope_parameters={
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
        "original_max_position_embeddings": 16}),
    "llama_rope_yarn": lambda size: llama(size, rope_parameters={
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32}),
    "gemma": lambda size: llama(size, 1, "Gemma", head_dim=6, pad_token_id=0),
    "gemma_untied_biased": lambda size: llama(size, None, "Gemma", head_dim=6, pad_token_id=0, tie_word_embeddings=False,
                                              attention_bias=True, hidden_act="relu", rms_norm_eps=1e-3,
                                              rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "gemma2": lambda size: llama(size, 1, "Gemma2", head_dim=6, pad_token_id=0, query_pre_attn_scalar=24, sliding_window=4,
                                 attn_logit_softcapping=2.0, final_logit_softcapping=8.0),
    "gemma2_untied_biased": lambda size: llama(size, None, "Gemma2", head_dim=6, pad_token_id=0, query_pre_attn_scalar=6,
                                               tie_word_embeddings=False, attention_bias=True, hidden_activation="silu",
                                               attn_logit_softcapping=None, final_logit_softcapping=None, sliding_window=4,
                                               layer_types=["full_attention", *["sliding_attention"] * (size["layers"] - 1)],
                                               rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "gemma3_text": lambda size: llama(size, 1, "Gemma3Text", head_dim=6, pad_token_id=0, query_pre_attn_scalar=24,
                                      sliding_window=4, final_logit_softcapping=8.0, **every_other(size)),
    "gemma3_text_untied_biased": lambda size: llama(
        size, None, "Gemma3Text", head_dim=6, pad_token_id=0, query_pre_attn_scalar=6, tie_word_embeddings=False,
        attention_bias=True, hidden_activation="silu", sliding_window=4, **every_other(size), rope_parameters={
            "full_attention": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
    "gemma3": lambda size: within("Gemma3", llama_config(
        size, 1, "Gemma3Text", head_dim=6, pad_token_id=0, query_pre_attn_scalar=24, sliding_window=4, **every_other(size), rope_parameters={
            "full_attention": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}), mm_tokens_per_image=4),
    "gemma3_untied_capped": lambda size: within("Gemma3", llama_config(
        size, None, "Gemma3Text", head_dim=6, pad_token_id=0, attention_bias=True, sliding_window=4, final_logit_softcapping=2.0,
        **every_other(size)), mm_tokens_per_image=4, tie_word_embeddings=False),  # the cap has no effect here
    "mistral3": lambda size: within("Mistral3", llama_config(size, 1, "Mistral", head_dim=6, sliding_window=None, rms_norm_eps=1e-3),
                                    PIXTRAL, tie_word_embeddings=False),
    "mistral3_scaled": lambda size: within("Mistral3", llama_config(
        size, 1, "Ministral3", head_dim=6, pad_token_id=0, rope_parameters={
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 6, "mscale": 1.0,
            "mscale_all_dim": 0.5, "llama_4_scaling_beta": 0.3}), PIXTRAL),
    "qwen2_vl": lambda size: qwen_vl(size, "Qwen2VL", 1),
    "qwen2_vl_tied_windows": lambda size: qwen_vl(size, "Qwen2VL", None, use_sliding_window=True, sliding_window=4, max_window_layers=1,
                                                  rms_norm_eps=1e-3, tie_word_embeddings=True),
    "qwen2_5_vl": lambda size: qwen_vl(size, "Qwen2_5_VL", 1),
    "qwen2_5_vl_tied": lambda size: qwen_vl(size, "Qwen2_5_VL", None, tie_word_embeddings=True, rms_norm_eps=1e-3),
    "qwen3_vl": lambda size: qwen_vl(size, "Qwen3VL", 1, head_dim=12),
    "qwen3_vl_tied_biased": lambda size: qwen_vl(size, "Qwen3VL", None, head_dim=6, attention_bias=True, tie_word_embeddings=True),
    "qwen3_vl_moe": lambda size: qwen_vl(size, "Qwen3VLMoe", 1, head_dim=12, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=6),
    "qwen3_vl_moe_tied_dense": lambda size: qwen_vl(
        size, "Qwen3VLMoe", None, head_dim=6, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=7, mlp_only_layers=[1],
        attention_bias=True, tie_word_embeddings=True),
    "llama4": lambda size: within("Llama4", llama_config(
        size, 1, "Llama4Text", head_dim=6, pad_token_id=0, intermediate_size_mlp=10, num_local_experts=4, num_experts_per_tok=2,
        moe_layers=[1], no_rope_layers=[(i + 1) % 2 for i in range(size["layers"])]),
        {"model_type": "llama4_vision_model", "vision_output_dim": 8, "projector_input_dim": 8, "projector_output_dim": 8}),
    "gemma4": lambda size: within("Gemma4", gemma4_config(size, 1, attention_k_eq_v=True, num_global_key_value_heads=2,
                                                          final_logit_softcapping=8.0),
                                  {"model_type": "gemma4_vision", "num_key_value_heads": 2, "head_dim": 4, "position_embedding_size": 8}),
    "llava": lambda size: within("Llava", llama_config(size, 1, rms_norm_eps=1e-5), CLIP),
    "llava_tied_qwen2": lambda size: within("Llava", llama_config(size, 1, "Qwen2", tie_word_embeddings=True), CLIP),
    "llava_next": lambda size: within("LlavaNext", llama_config(size, 1, "Mistral", head_dim=6, sliding_window=None), CLIP),
    "llava_next_scaled": lambda size: within("LlavaNext", llama_config(
        size, 1, "Granite", embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.5, logits_scaling=13.0),
        CLIP, tie_word_embeddings=True),  # the logits are not scaled here
    "smolvlm": lambda size: within("SmolVLM", llama_config(size, 1, head_dim=6), {"model_type": "smolvlm_vision"}),
    "idefics3": lambda size: within("Idefics3", llama_config(size, None), {"model_type": "idefics3_vision"}, tie_word_embeddings=True),
    "internvl": lambda size: within("InternVL", llama_config(size, 1, "Qwen2"), INTERNVL, tie_word_embeddings=False),
    "internvl_qwen3": lambda size: within("InternVL", llama_config(size, 1, "Qwen3", head_dim=6), INTERNVL),
    "aya_vision": lambda size: within("AyaVision", llama_config(size, 1, "Cohere2", logit_scale=0.5, sliding_window=4, **every_other(size)),
                                      {"vision_use_head": False}),  # the logits are not scaled here
    "cohere2_vision": lambda size: within("Cohere2Vision", llama_config(size, None, "Cohere2", sliding_window=4, **every_other(size)),
                                          alignment_intermediate_size=8),
    "glm4v": lambda size: glm4v(size, 1, {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": shared(size, 2),
                                          "mrope_section": [width(size) // 4, 0, 0]}),
    "glm4v_tied": lambda size: glm4v(size, None, {"rope_type": "default", "rope_theta": 500.0,
                                                  "mrope_section": [width(size) // 2, 0, 0]}, tie_word_embeddings=True),
    "gemma4_text": lambda size: gemma4(size, 1, attention_k_eq_v=True, num_global_key_value_heads=2, final_logit_softcapping=8.0),
    "gemma4_text_untied_biased": lambda size: gemma4(
        size, None, tie_word_embeddings=False, attention_bias=True, hidden_activation="silu", rms_norm_eps=1e-3, rope_parameters={
            "full_attention": {"rope_type": "proportional", "rope_theta": 500.0, "partial_rotary_factor": 0.6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
    "vaultgemma": lambda size: llama(size, 1, "VaultGemma", head_dim=6, pad_token_id=0, query_pre_attn_scalar=24,
                                     sliding_window=4, attn_logit_softcapping=2.0, final_logit_softcapping=8.0),
    "nemotron": lambda size: llama(size, 1, "Nemotron", norm_eps=1e-3, partial_rotary_factor=shared(size, 2)),
    "nanochat": lambda size: llama(size, 1, "NanoChat", pad_token_id=0, rms_norm_eps=1e-3, final_logit_softcapping=2.0),
    "nanochat_biased": lambda size: llama(size, None, "NanoChat", pad_token_id=0, attention_bias=True, tie_word_embeddings=True,
                                          final_logit_softcapping=None, hidden_act="gelu",
                                          rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "nemotron_biased": lambda size: llama(size, None, "Nemotron", head_dim=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                          rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.25}),
    "arcee": lambda size: llama(size, 1, "Arcee", rms_norm_eps=1e-3, rope_parameters={
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}),
    "arcee_biased": lambda size: llama(size, None, "Arcee", head_dim=6, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "jais2": lambda size: llama(size, 1, "Jais2", layer_norm_eps=1e-3),
    "jais2_plain": lambda size: llama(size, None, "Jais2", head_dim=6, attention_bias=False, mlp_bias=False, tie_word_embeddings=True),
    "persimmon": lambda size: llama(size, 0, "Persimmon", layer_norm_eps=1e-3, partial_rotary_factor=shared(size, 2)),
    "persimmon_plain": lambda size: llama(size, 0, "Persimmon", qk_layernorm=False, hidden_act="gelu", rope_parameters={
        "rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": shared(size, 2)}),
    "olmo": lambda size: llama(size, 1, "Olmo", pad_token_id=0, clip_qkv=0.5),
    "olmo_biased": lambda size: llama(size, None, "Olmo", pad_token_id=0, attention_bias=True, tie_word_embeddings=True,
                                      rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "olmo2": lambda size: llama(size, size["heads"] // 2, "Olmo2", pad_token_id=0, attention_bias=True, tie_word_embeddings=True),
    "olmo3": lambda size: llama(size, size["heads"] // 2, "Olmo3", pad_token_id=0, sliding_window=4, rms_norm_eps=1e-3,
                                **every_other(size), rope_parameters={
                                    "full_attention": {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
                                                       "original_max_position_embeddings": 16},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}),
    "exaone": lambda size: llama(size, 1, "Exaone", pad_token_id=0),
    "exaone_biased": lambda size: llama(size, None, "Exaone", pad_token_id=0, head_dim=6, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                        rope_parameters={"rope_type": "default", "rope_theta": 100.0}),
    "exaone4": lambda size: llama(size, 1, "Exaone4", head_dim=6, sliding_window=None, layer_types=["full_attention"] * size["layers"],
                                  rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "exaone4_windows": lambda size: llama(size, None, "Exaone4", sliding_window=4, tie_word_embeddings=True, **every_other(size)),
    "ministral": lambda size: llama(size, 1, "Ministral", head_dim=6, sliding_window=4, **every_other(size)),
    "seed_oss": lambda size: llama(size, 1, "SeedOss", head_dim=6, pad_token_id=0),
    "seed_oss_biased": lambda size: llama(size, None, "SeedOss", head_dim=6, pad_token_id=0, attention_bias=False,
                                          attention_out_bias=True, mlp_bias=True),
    "cwm": lambda size: llama(size, 1, "Cwm", head_dim=6, sliding_window=4, **every_other(size, "full", "sliding"), rope_parameters={
        "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}),
    "ernie4_5": lambda size: llama(size, 1, "Ernie4_5", head_dim=6, pad_token_id=0),
    "ernie4_5_biased": lambda size: llama(size, None, "Ernie4_5", head_dim=6, pad_token_id=0, use_bias=True, tie_word_embeddings=False),
    "helium": lambda size: llama(size, 1, "Helium", head_dim=size["d_model"] // size["heads"], pad_token_id=0),
    "helium_biased": lambda size: llama(size, None, "Helium", head_dim=size["d_model"] // size["heads"], pad_token_id=0,
                                        attention_bias=True, mlp_bias=True, rms_norm_eps=1e-3),
    "cohere": lambda size: llama(size, 1, "Cohere", logit_scale=0.5, layer_norm_eps=1e-3),
    "cohere_normed": lambda size: llama(size, size["heads"] // 2, "Cohere", logit_scale=0.5, use_qk_norm=True),
    "cohere_untied_biased": lambda size: llama(size, None, "Cohere", logit_scale=2.0, attention_bias=True, tie_word_embeddings=False,
                                               head_dim=6, rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "cohere2": lambda size: llama(size, 1, "Cohere2", logit_scale=0.5, sliding_window=4, **every_other(size)),
    "cohere2_untied_biased": lambda size: llama(
        size, None, "Cohere2", attention_bias=True, tie_word_embeddings=False, sliding_window=4, **every_other(size, "full", "sliding"),
        rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 2.5}),
    "glm": lambda size: llama(size, 1, "Glm", head_dim=8, pad_token_id=0),
    "glm_plain": lambda size: llama(size, None, "Glm", head_dim=8, pad_token_id=0, attention_bias=False, tie_word_embeddings=True,
                                    rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0}),
    "glm4": lambda size: llama(size, 1, "Glm4", head_dim=8, pad_token_id=0),
    "hyperclovax": lambda size: llama(size, 1, "HyperCLOVAX", head_dim=6, pad_token_id=0, embedding_multiplier=0.5, logits_scaling=0.5,
                                      residual_multiplier=0.5, attention_multiplier=0.25),
    "hyperclovax_plain": lambda size: llama(size, None, "HyperCLOVAX", pad_token_id=0, use_post_norm=False, attention_bias=True,
                                            mlp_bias=True, tie_word_embeddings=True),
    "internlm3": lambda size: llama(size, 1, "InternLM3", head_dim=6, pad_token_id=0, attention_bias=True, mlp_bias=True),
    "iquestcoder": lambda size: llama(size, 1, "IQuestCoder", head_dim=6, pad_token_id=0),
    "hunyuan_v1_dense": lambda size: llama(size, 1, "HunYuanDenseV1", head_dim=6, pad_token_id=0, tie_word_embeddings=True, rope_parameters={
        "rope_type": "dynamic", "rope_theta": 500.0, "alpha": 10.0, "factor": 1.0}),
    "hunyuan_v1_dense_biased": lambda size: llama(size, None, "HunYuanDenseV1", head_dim=8, pad_token_id=0, attention_bias=True,
                                              rms_norm_eps=1e-3),
    "ministral3": lambda size: llama(size, 1, "Ministral3", head_dim=6, pad_token_id=0, sliding_window=4, rope_parameters={
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 6, "mscale": 1.0,
        "mscale_all_dim": 0.5, "llama_4_scaling_beta": 0.3}),
    "bert_pretraining": lambda size: bert(size),
    "mistral": lambda size: llama(size, family="Mistral", sliding_window=4),
    "mistral_grouped": lambda size: llama(size, 1, "Mistral", head_dim=6, sliding_window=None),
    "qwen2": lambda size: llama(size, 1, "Qwen2", tie_word_embeddings=True),
    "qwen2_windows": lambda size: llama(size, None, "Qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1,
                                        rms_norm_eps=1e-3, rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "qwen3": lambda size: llama(size, 1, "Qwen3", head_dim=6, tie_word_embeddings=True),
    "qwen3_windows": lambda size: llama(size, None, "Qwen3", head_dim=6, attention_bias=True, use_sliding_window=True,
                                        sliding_window=4, max_window_layers=1, rms_norm_eps=1e-3),
    "smollm3": lambda size: llama(size, 1, "SmolLM3", pad_token_id=0, no_rope_layer_interval=2),
    "smollm3_windows": lambda size: llama(size, None, "SmolLM3", pad_token_id=0, tie_word_embeddings=False, mlp_bias=True,
                                          attention_bias=True, use_sliding_window=True, sliding_window=4,
                                          rope_parameters={"rope_type": "default", "rope_theta": 500.0},
                                          no_rope_layers=[i % 2 for i in range(size["layers"])]),
    "phi3": lambda size: llama(size, 1, "Phi3", pad_token_id=0, sliding_window=4),
    "phi3_longrope": lambda size: llama(size, None, "Phi3", pad_token_id=0, tie_word_embeddings=True, rms_norm_eps=1e-3,
                                        **longrope(size)),
    "apertus": lambda size: llama(size, 1, "Apertus", rope_parameters={
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}),
    "apertus_biased": lambda size: llama(size, None, "Apertus", attention_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-3,
                                         rope_parameters={"rope_type": "default", "rope_theta": 100.0}),
    "granite": lambda size: llama(size, 1, "Granite", embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.5,
                                  logits_scaling=13.0, tie_word_embeddings=True),
    "granite_biased": lambda size: llama(size, None, "Granite", attention_bias=True, mlp_bias=True, rms_norm_eps=1e-3,
                                         attention_multiplier=0.2, rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "granite_swa": lambda size: llama(size, 1, "GraniteSWA", embedding_multiplier=3.0, attention_multiplier=0.3,
                                      residual_multiplier=0.5, logits_scaling=13.0, sliding_window=4, **bases(size)),
    "granite_swa_biased": lambda size: llama(size, None, "GraniteSWA", attention_bias=True, mlp_bias=True, rms_norm_eps=1e-3,
                                             attention_multiplier=0.2, sliding_window=4, tie_word_embeddings=False,
                                             **every_other(size, "sliding", "full"),
                                             rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 2.5}),
    "granitemoe_swa": lambda size: experts(size, "GraniteMoeSWA", num_local_experts=4, shared_intermediate_size=10,
                                           embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.5,
                                           logits_scaling=13.0, sliding_window=4, **every_other(size), **bases(size)),
    "phi": lambda size: llama(size, 1, "Phi", partial_rotary_factor=shared(size, 2)),
    "phi_normed": lambda size: llama(size, None, "Phi", partial_rotary_factor=shared(size, 2), qk_layernorm=True, layer_norm_eps=1e-3),
    "phi_tied_relu": lambda size: llama(size, None, "Phi", partial_rotary_factor=shared(size, 3), tie_word_embeddings=True,
                                        hidden_act="relu", layer_norm_eps=1e-3),
    "starcoder2": lambda size: llama(size, 1, "Starcoder2", sliding_window=4),
    "starcoder2_untied": lambda size: llama(size, None, "Starcoder2", use_bias=False, tie_word_embeddings=False, hidden_act="relu",
                                            norm_epsilon=1e-3, rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "stablelm": lambda size: llama(size, 1, "StableLm", partial_rotary_factor=shared(size, 2), use_qkv_bias=True),
    "stablelm_parallel": lambda size: llama(size, None, "StableLm", partial_rotary_factor=shared(size, 3), layer_norm_eps=1e-3,
                                            use_parallel_residual=True, tie_word_embeddings=True),
    "stablelm_normed": lambda size: llama(size, size["heads"] // 2, "StableLm", partial_rotary_factor=shared(size, 2), qk_layernorm=True),
    "stablelm_normed_parallel": lambda size: llama(size, None, "StableLm", partial_rotary_factor=shared(size, 3), qk_layernorm=True,
                                                   use_parallel_residual=True, layer_norm_eps=1e-3, use_qkv_bias=True),
    "gpt_neox": lambda size: llama(size, 0, "GPTNeoX", rope_parameters={
        "rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": shared(size, 2)}),
    "gpt_neox_serial": lambda size: llama(size, 0, "GPTNeoX", use_parallel_residual=False, attention_bias=False, layer_norm_eps=1e-3,
                                          tie_word_embeddings=True, hidden_act="gelu_new", rope_parameters={
                                              "rope_type": "linear", "factor": 2.5, "rope_theta": 1e4, "partial_rotary_factor": 1.0}),
    "gpt_neox_japanese": lambda size: neox_japanese(size, rope_parameters={
        "rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": shared(size, 2)}),
    "gpt_neox_japanese_untied": lambda size: neox_japanese(size, tie_word_embeddings=False, layer_norm_eps=1e-3, hidden_act="relu"),
    "openai-gpt": lambda size: openai_gpt(size),
    "openai-gpt_untied": lambda size: openai_gpt(size, afn="silu", tie_word_embeddings=False, layer_norm_epsilon=1e-3),
    "ctrl": lambda size: ctrl(size),
    "ctrl_untied": lambda size: ctrl(size, tie_word_embeddings=False),
    "gptj": lambda size: gpt(size, "GPTJ", rotary_dim=2 * (width(size) // 4)),
    "gptj_tied": lambda size: gpt(size, "GPTJ", rotary_dim=width(size), tie_word_embeddings=True, activation_function="relu",
                                  layer_norm_epsilon=1e-3),
    "codegen": lambda size: gpt(size, "CodeGen", width(size), n_head=4, rotary_dim=2 * (width(size) // 4)),
    "gpt_bigcode": lambda size: gpt(size, "GPTBigCode"),
    "gpt_bigcode_heads": lambda size: gpt(size, "GPTBigCode", multi_query=False, tie_word_embeddings=False, layer_norm_epsilon=1e-3),
    "gpt_neo": lambda size: gpt_neo(size),
    "gpt_neo_untied": lambda size: gpt_neo(size, tie_word_embeddings=False, activation_function="relu", layer_norm_epsilon=1e-3),
    "biogpt": lambda size: llama(size, 0, "BioGpt", pad_token_id=0),
    "biogpt_unscaled": lambda size: llama(size, 0, "BioGpt", pad_token_id=0, scale_embedding=False, tie_word_embeddings=False,
                                          hidden_act="relu"),
    "xglm": lambda size: xglm(size),
    "xglm_unscaled": lambda size: xglm(size, scale_embedding=False, tie_word_embeddings=False, activation_function="relu"),
    "bloom": lambda size: bloom(size),
    "bloom_untied": lambda size: bloom(size, tie_word_embeddings=False, layer_norm_epsilon=1e-3),
    "mpt": lambda size: mpt(size),
    "mpt_scaled": lambda size: mpt(size, 4, attn_config={"softmax_scale": 0.3, "clip_qkv": 0.5}, tie_word_embeddings=False, layer_norm_epsilon=1e-3),
    "falcon": lambda size: falcon(size, rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "falcon_groups": lambda size: falcon(size, new_decoder_architecture=True, num_kv_heads=size["heads"], bias=True,
                                         hidden_size=2 * size["d_model"], num_attention_heads=2 * size["heads"]),
    "falcon_one_norm": lambda size: falcon(size, new_decoder_architecture=True, num_kv_heads=size["heads"], layer_norm_epsilon=1e-3,
                                           num_ln_in_parallel_attn=1, hidden_size=2 * size["d_model"],
                                           num_attention_heads=2 * size["heads"]),
    "falcon_serial": lambda size: falcon(size, multi_query=False, parallel_attn=False, bias=True, tie_word_embeddings=False,
                                         activation="relu"),
    "falcon_alibi": lambda size: falcon(size, alibi=True, multi_query=False, parallel_attn=False, bias=True),
    "falcon_alibi_parallel": lambda size: falcon(size, alibi=True, tie_word_embeddings=False, layer_norm_epsilon=1e-3),
    "minicpm3": lambda size: latent(size, "MiniCPM3", scale_emb=3, scale_depth=0.7, dim_model_base=5, attention_bias=False),
    "minicpm3_longrope": lambda size: latent(
        size, "MiniCPM3", q_lora_rank=None, tie_word_embeddings=False, mlp_bias=True, rms_norm_eps=1e-3,
        max_position_embeddings=4 * size["positions"], rope_parameters={
            "rope_type": "longrope", "rope_theta": 500.0, "original_max_position_embeddings": size["positions"],
            "short_factor": [1.25, 1.75], "long_factor": [4.0, 5.0]}),
    "youtu": lambda size: latent(size, "Youtu", rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "youtu_untied": lambda size: latent(size, "Youtu", q_lora_rank=None, tie_word_embeddings=False, attention_bias=False,
                                        rope_parameters=SCALED),
    "deepseek_v2": lambda size: latent_experts(size, "DeepseekV2", topk_method="group_limited_greedy", attention_bias=False,
                                               rope_parameters=SCALED),
    "deepseek_v2_greedy": lambda size: latent_experts(size, "DeepseekV2", q_lora_rank=None, n_group=None, topk_group=None),
    "deepseek_v3": lambda size: latent_experts(size, "DeepseekV3", rope_parameters=SCALED),
    "deepseek_v3_unnormed": lambda size: latent_experts(size, "DeepseekV3", q_lora_rank=None, norm_topk_prob=False, n_group=1, topk_group=1,
                                                        first_k_dense_replace=0, attention_bias=False, tie_word_embeddings=True),
    "dots1": lambda size: routed(size, "Dots1", norm_topk_prob=True, first_k_dense_replace=1, sliding_window=4, max_window_layers=1),
    "dots1_biased": lambda size: routed(size, "Dots1", None, n_shared_experts=2, attention_bias=True, sliding_window=None,
                                        tie_word_embeddings=True, rms_norm_eps=1e-3),
    "glm4_moe": lambda size: routed(size, "Glm4Moe", use_qk_norm=True, head_dim=8),
    "glm4_moe_biased": lambda size: routed(size, "Glm4Moe", None, attention_bias=True, head_dim=8, tie_word_embeddings=True,
                                           rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0}),
    "glm4_moe_lite": lambda size: latent_experts(size, "Glm4MoeLite", n_shared_experts=1, mlp_layer_types=["dense"] + ["sparse"] * (
        size["layers"] - 1), rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0}),
    "minimax_m2": lambda size: llama(size, 1, "MiniMaxM2", num_local_experts=5, num_experts_per_tok=2, head_dim=8, rms_norm_eps=1e-3,
                                     rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}),
    "solar_open": lambda size: routed(size, "SolarOpen", attention_bias=True, rms_norm_eps=1e-3, rope_parameters={
        "rope_type": "default", "rope_theta": 500.0}),
    "sarvam_moe": lambda size: routed(size, "SarvamMoE", head_dim=8, rms_norm_eps=1e-3),
    "sarvam_moe_biased": lambda size: routed(size, "SarvamMoE", None, head_dim=8, n_group=1, topk_group=1, norm_topk_prob=False, n_shared_experts=2,
                                             attention_bias=True, use_qk_norm=False, first_k_dense_replace=0, tie_word_embeddings=True,
                                             rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}),
    "sarvam_mla": lambda size: latent_experts(size, "SarvamMLA", rms_norm_eps=1e-3, rope_parameters=SCALED),
    "sarvam_mla_plain": lambda size: latent_experts(size, "SarvamMLA", q_lora_rank=None, attention_bias=False, norm_topk_prob=False,
                                                    tie_word_embeddings=True, first_k_dense_replace=0),
    "axk1": lambda size: latent_experts(size, "AXK1", rope_parameters=SCALED, **mixed(size)),
    "axk1_plain": lambda size: latent_experts(size, "AXK1", attention_bias=False, norm_topk_prob=False, rms_norm_eps=1e-3, tie_word_embeddings=True,
                                              **mixed(size, "sparse", "sparse")),
    "mistral4": lambda size: latent_experts(size, "Mistral4", rope_parameters=SCALED | {"llama_4_scaling_beta": 0.3}),
    "mistral4_plain": lambda size: latent_experts(
        size, "Mistral4", q_lora_rank=None, attention_bias=False, norm_topk_prob=False, n_group=1, topk_group=1, first_k_dense_replace=0,
        rms_norm_eps=1e-3, tie_word_embeddings=True, rope_parameters={
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16, "llama_4_scaling_beta": 0.0}),
    "hy_v3": lambda size: llama(size, 1, "HYV3", head_dim=6, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=6, num_shared_experts=2,
                                router_scaling_factor=1.5, rms_norm_eps=1e-3, **mixed(size)),
    "hy_v3_biased": lambda size: llama(size, None, "HYV3", head_dim=8, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=6,
                                       attention_bias=True, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 500.0},
                                       **mixed(size, "sparse", "dense")),
    "hunyuan_v1_moe": lambda size: llama(size, 1, "HunYuanMoEV1", head_dim=6, pad_token_id=0, num_experts=5, moe_topk=2, rope_parameters={
        "rope_type": "dynamic", "rope_theta": 500.0, "alpha": 10.0, "factor": 1.0}),
    "hunyuan_v1_moe_biased": lambda size: llama(size, None, "HunYuanMoEV1", head_dim=8, pad_token_id=0, num_experts=4, attention_bias=True,
                                                moe_topk=[3] * size["layers"], tie_word_embeddings=True, rms_norm_eps=1e-3),
    "exaone_moe": lambda size: llama(size, 1, "ExaoneMoe", head_dim=6, pad_token_id=0, num_experts=6, num_experts_per_tok=3, num_shared_experts=2,
                                     moe_intermediate_size=6, n_group=3, topk_group=2, routed_scaling_factor=1.5, sliding_window=4,
                                     **every_other(size), **mixed(size)),
    "exaone_moe_unnormed": lambda size: llama(
        size, None, "ExaoneMoe", head_dim=6, pad_token_id=0, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=6, sliding_window=5,
        **every_other(size, "full", "sliding"), norm_topk_prob=False, tie_word_embeddings=True, rms_norm_eps=1e-3,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0}, **mixed(size, "sparse", "sparse")),
    "cohere2_moe": lambda size: llama(size, 1, "Cohere2Moe", head_dim=6, num_experts=5, num_shared_experts=2, prefix_dense_intermediate_size=10,
                                      logit_scale=0.5, layer_norm_eps=1e-3, sliding_window=4, **every_other(size, "full", "sliding"), **mixed(size)),
    "cohere2_moe_rms": lambda size: llama(
        size, None, "Cohere2Moe", head_dim=6, num_experts=4, num_experts_per_tok=3, num_shared_experts=1, expert_selection_fn="sigmoid",
        shared_expert_combination_strategy="sum", rms_norm_eps=1e-3, attention_bias=True, tie_word_embeddings=False, sliding_window=4,
        prefix_dense_sliding_window_pattern=2, rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        **every_other(size, "full", "sliding"), **mixed(size)),
    "cohere2_moe_unnormed": lambda size: llama(size, 1, "Cohere2Moe", head_dim=6, num_experts=4, expert_selection_fn="sigmoid",
                                               norm_topk_prob=False, sliding_window=4, **every_other(size), **mixed(size, "sparse", "sparse")),
    "mellum": lambda size: llama(size, 1, "Mellum", head_dim=6, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=6, sliding_window=4,
                                 rms_norm_eps=1e-3, **by_kind(), **every_other(size), **mixed(size)),
    "mellum_biased": lambda size: llama(
        size, None, "Mellum", head_dim=6, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=6, attention_bias=True, norm_topk_prob=False,
        tie_word_embeddings=True, rope_parameters={
            "full_attention": {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
    "flint": lambda size: llama(size, 1, "Flint", head_dim=6, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=6, sliding_window=4,
                                shared_expert_intermediate_size=10, mlp_only_layers=[1], rms_norm_eps=1e-3, **every_other(size)),
    "flint_biased": lambda size: llama(size, None, "Flint", head_dim=6, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=6, mlp_only_layers=[],
                                       sliding_window=5, shared_expert_intermediate_size=7, attention_bias=True, norm_topk_prob=False,
                                       decoder_sparse_step=2, tie_word_embeddings=True, **every_other(size, "full", "sliding"),
                                       rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "kolibri1": lambda size: llama(size, 1, "Kolibri1", head_dim=6, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=6, sliding_window=4,
                                   shared_expert_intermediate_size=10, rms_norm_eps=1e-3, **every_other(size)),
    "kolibri1_normed": lambda size: llama(size, None, "Kolibri1", head_dim=6, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=6,
                                          sliding_window=5, norm_topk_prob=True, tie_word_embeddings=True, **every_other(size, "full", "sliding"),
                                          rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "llama4_text": lambda size: llama(size, 1, "Llama4Text", head_dim=6, num_local_experts=4, num_experts_per_tok=2, intermediate_size_mlp=10,
                                      moe_layers=[0], no_rope_layers=[i % 2 for i in range(1, size["layers"] + 1)], rms_norm_eps=1e-3,
                                      attention_chunk_size=size["positions"], floor_scale=size["positions"] + 1),
    "llama4_text_biased": lambda size: llama(size, None, "Llama4Text", head_dim=8, num_local_experts=3, use_qk_norm=False, attention_bias=True, intermediate_size_mlp=14,
                                             interleave_moe_layer_step=2, no_rope_layer_interval=2, attn_temperature_tuning=False,
                                             tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "mimo_v2_flash": lambda size: llama(size, 1, "MiMoV2Flash", head_dim=12, v_head_dim=5, n_routed_experts=6, num_experts_per_tok=3, n_group=3,
                                        topk_group=2, moe_intermediate_size=6, routed_scaling_factor=1.5, sliding_window=4, rms_norm_eps=1e-3,
                                        **every_other(size), **mixed(size), **by_kind(partial_rotary_factor=0.5)),
    "mimo_v2_flash_biased": lambda size: llama(size, 1, "MiMoV2Flash", head_dim=12, v_head_dim=7, n_routed_experts=4, num_experts_per_tok=2,
                                               moe_intermediate_size=6, attention_bias=True, attention_value_scale=1.3, norm_topk_prob=False,
                                               sliding_window=5, tie_word_embeddings=True, **every_other(size, "full", "sliding"),
                                               **mixed(size, "sparse", "dense"), **by_kind(partial_rotary_factor=1.0)),
    "qwen3_moe": lambda size: experts(size, "Qwen3Moe", mlp_only_layers=[1], norm_topk_prob=True),
    "qwen3_moe_windows": lambda size: experts(size, "Qwen3Moe", None, num_experts_per_tok=3, decoder_sparse_step=2,
                                              attention_bias=True, use_sliding_window=True, sliding_window=4,
                                              tie_word_embeddings=True),
    "gpt_oss": lambda size: experts(size, "GptOss", num_local_experts=3, sliding_window=4, swiglu_limit=0.5, swiglu_alpha=1.3,
                                    rope_parameters={"rope_type": "yarn", "rope_theta": 150.0, "factor": 4.0, "truncate": False,
                                                     "original_max_position_embeddings": 16}),
    "gpt_oss_full": lambda size: experts(size, "GptOss", None, num_local_experts=4, sliding_window=5, tie_word_embeddings=True,
                                         layer_types=["full_attention"] + ["sliding_attention"] * (size["layers"] - 1),
                                         attention_bias=False, rms_norm_eps=1e-3,
                                         rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
    "granitemoe": lambda size: experts(size, "GraniteMoe", num_local_experts=5, embedding_multiplier=3.0,
                                       attention_multiplier=0.3, residual_multiplier=0.5, logits_scaling=13.0),
    "granitemoeshared": lambda size: experts(size, "GraniteMoeShared", num_local_experts=4, shared_intermediate_size=10, embedding_multiplier=3.0,
                                             attention_multiplier=0.3, residual_multiplier=0.5, logits_scaling=13.0, attention_bias=True),
    "flex_olmo": lambda size: experts(size, "FlexOlmo", None, num_experts=4, pad_token_id=0, norm_topk_prob=True, rms_norm_eps=1e-3),
    "qwen2_moe": lambda size: experts(size, "Qwen2Moe", shared_expert_intermediate_size=10, mlp_only_layers=[1]),
    "qwen2_moe_windows": lambda size: experts(size, "Qwen2Moe", None, shared_expert_intermediate_size=7, qkv_bias=False,
                                              norm_topk_prob=True, use_sliding_window=True, sliding_window=4, max_window_layers=3),
    "mixtral": lambda size: experts(size, "Mixtral", num_local_experts=5, sliding_window=4, rms_norm_eps=1e-3),
    "phimoe": lambda size: experts(size, "Phimoe", num_local_experts=5, router_jitter_noise=0.35, lm_head_bias=True, sliding_window=4,
                                   rms_norm_eps=1e-3),
    "phimoe_longrope": lambda size: experts(size, "Phimoe", None, num_local_experts=4, router_jitter_noise=0.2, attention_bias=True,
                                            tie_word_embeddings=True, **magnitudes(size)),
    "ernie4_5_moe": lambda size: experts(size, "Ernie4_5_Moe", num_experts_per_tok=2, moe_k=2, moe_num_experts=5, moe_intermediate_size=6,
                                         moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=size["layers"] - 1),
    "ernie4_5_moe_all": lambda size: experts(size, "Ernie4_5_Moe", None, num_experts_per_tok=3, moe_k=3, moe_num_experts=5,
                                             moe_intermediate_size=6, moe_num_shared_experts=1, moe_layer_start_index=0,
                                             tie_word_embeddings=False, head_dim=6),
    "olmoe": lambda size: experts(size, "Olmoe", num_experts=5),
    "olmoe_biased": lambda size: experts(size, "Olmoe", None, num_experts=4,
                                         num_experts_per_tok=3, norm_topk_prob=True, attention_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-3),
    "opt": lambda size: opt(size),
    "opt_untied_gelu": lambda size: opt(size, tie_word_embeddings=False, activation_function="gelu"),
    "bert_base": lambda size: bert(size, "Model"),
    "bert_masked": lambda size: bert(size, "ForMaskedLM", hidden_act="gelu_new"),
    "bert_texts": lambda size: bert(size, "ForSequenceClassification", **THREE),
    "bert_tokens": lambda size: bert(size, "ForTokenClassification", type_vocab_size=3, **THREE),
    "bert_spans": lambda size: bert(size, "ForQuestionAnswering", type_vocab_size=2),
    "roberta_masked": lambda size: roberta(size),
    "roberta_texts": lambda size: roberta(size, "ForSequenceClassification", **THREE),
    "roberta_tokens": lambda size: roberta(size, "ForTokenClassification", type_vocab_size=1),
    "roberta_spans": lambda size: roberta(size, "ForQuestionAnswering"),
    "xlm-roberta_masked": lambda size: roberta(size, family="XLMRoberta", hidden_act="gelu_new"),
    "xlm-roberta_base": lambda size: roberta(size, "Model", "XLMRoberta", type_vocab_size=1, layer_norm_eps=1e-3),
    "xlm-roberta_texts": lambda size: roberta(size, "ForSequenceClassification", "XLMRoberta", **ONE),
    "camembert_tokens": lambda size: roberta(size, "ForTokenClassification", "Camembert", **THREE),
    "mpnet_base": lambda size: roberta(size, "Model", "MPNet", layer_norm_eps=1e-3),
    "mpnet_masked": lambda size: roberta(size, family="MPNet"),
    "mpnet_texts": lambda size: roberta(size, "ForSequenceClassification", "MPNet", hidden_act="relu", **THREE),
    "mpnet_tokens": lambda size: roberta(size, "ForTokenClassification", "MPNet", **THREE),
    "mpnet_spans": lambda size: roberta(size, "ForQuestionAnswering", "MPNet"),
    "electra_base": lambda size: bert(size, "Model", "Electra", embedding_size=6, layer_norm_eps=1e-3),
    "electra_masked": lambda size: bert(size, "ForMaskedLM", "Electra", embedding_size=6, hidden_act="relu"),
    "electra_texts": lambda size: bert(size, "ForSequenceClassification", "Electra", embedding_size=size["d_model"], **THREE),
    "electra_tokens": lambda size: bert(size, "ForTokenClassification", "Electra", embedding_size=10, type_vocab_size=3, **THREE),
    "electra_spans": lambda size: bert(size, "ForQuestionAnswering", "Electra", embedding_size=10),
    "data2vec-text_masked": lambda size: roberta(size, family="Data2VecText"),
    "data2vec-text_base": lambda size: roberta(size, "Model", "Data2VecText", type_vocab_size=3, layer_norm_eps=1e-3),
    "distilbert_masked": lambda size: distilbert(size),
    "albert_base": lambda size: bert(size, "Model", "Albert", embedding_size=6, inner_group_num=2, layer_norm_eps=1e-3),
    "albert_masked": lambda size: bert(size, "ForMaskedLM", "Albert", embedding_size=10, hidden_act="gelu"),
    "albert_texts": lambda size: bert(size, "ForSequenceClassification", "Albert", embedding_size=6, type_vocab_size=3, **THREE),
    "albert_spans": lambda size: bert(size, "ForQuestionAnswering", "Albert", embedding_size=6),
    "rembert_base": lambda size: bert(size, "Model", "RemBert", input_embedding_size=6, layer_norm_eps=1e-3),
    "rembert_texts": lambda size: bert(size, "ForSequenceClassification", "RemBert", input_embedding_size=10, hidden_act="relu", **THREE),
    "roformer_base": lambda size: bert(size, "Model", "RoFormer", layer_norm_eps=1e-3),
    "roformer_masked": lambda size: bert(size, "ForMaskedLM", "RoFormer", embedding_size=6, hidden_act="silu"),
    "roformer_texts": lambda size: bert(size, "ForSequenceClassification", "RoFormer", embedding_size=10, type_vocab_size=3, **THREE),
    "roformer_tokens": lambda size: bert(size, "ForTokenClassification", "RoFormer", hidden_act="gelu_new", **THREE),
    "roformer_spans": lambda size: bert(size, "ForQuestionAnswering", "RoFormer", embedding_size=10),
    "deberta-v2_base": lambda size: deberta(size, "Model", position_buckets=4),
    "deberta-v2_masked": lambda size: deberta(size, "ForMaskedLM", max_relative_positions=6, norm_rel_ebd="none", position_biased_input=True, type_vocab_size=2),
    "deberta-v2_texts": lambda size: deberta(size, "ForSequenceClassification", position_buckets=6, max_relative_positions=9, hidden_act="silu", **THREE),
    "deberta-v2_tokens": lambda size: deberta(size, "ForTokenClassification", position_buckets=8, norm_rel_ebd="none", layer_norm_eps=1e-3, **THREE),
    "deberta-v2_spans": lambda size: deberta(size, "ForQuestionAnswering", position_buckets=6, max_relative_positions=9),
    "ernie_masked": lambda size: bert(size, "ForMaskedLM", "Ernie", hidden_act="relu"),
    "ernie_texts": lambda size: bert(size, "ForSequenceClassification", "Ernie", type_vocab_size=4, layer_norm_eps=1e-3, **THREE),
    "megatron-bert_pretraining": lambda size: bert(size, "ForPreTraining", "MegatronBert", layer_norm_eps=1e-3),
    "megatron-bert_tokens": lambda size: bert(size, "ForTokenClassification", "MegatronBert", hidden_act="gelu_new", **THREE),
    "xlm-roberta-xl_masked": lambda size: roberta(size, family="XLMRobertaXL"),
    "xlm-roberta-xl_base": lambda size: roberta(size, "Model", "XLMRobertaXL", layer_norm_eps=1e-3),
    "roberta-prelayernorm_masked": lambda size: roberta(size, family="RobertaPreLayerNorm", layer_norm_eps=1e-3),
    "roberta-prelayernorm_texts": lambda size: roberta(size, "ForSequenceClassification", "RobertaPreLayerNorm", **THREE),
    "eurobert_base": lambda size: llama(size, 1, "EuroBert", "Model", pad_token_id=0, mask_token_id=3, rms_norm_eps=1e-3,
                                        attention_bias=True, mlp_bias=True),
    "eurobert_texts": lambda size: llama(size, None, "EuroBert", "ForSequenceClassification", pad_token_id=0, mask_token_id=3,
                                         classifier_pooling="mean", rope_parameters={"rope_type": "default", "rope_theta": 500.0}, **THREE),
    "eurobert_first_token": lambda size: llama(size, None, "EuroBert", "ForSequenceClassification", pad_token_id=0, mask_token_id=3,
                                               classifier_pooling="bos", **THREE),
    "eurobert_tokens": lambda size: llama(size, None, "EuroBert", "ForTokenClassification", pad_token_id=0, mask_token_id=3, **THREE),
    # Decoders as encoders.
    "gpt2_texts": lambda size: gpt2(size, head="ForSequenceClassification", pad_token_id=0, **THREE),
    "llama_texts": lambda size: llama(size, 1, head="ForSequenceClassification", pad_token_id=0, **ONE),
    "mistral_texts": lambda size: llama(size, 1, "Mistral", "ForSequenceClassification", sliding_window=4, pad_token_id=0, **THREE),
    "qwen3_texts": lambda size: llama(size, 1, "Qwen3", "ForSequenceClassification", head_dim=6, pad_token_id=0, **THREE),
    "gemma2_texts": lambda size: llama(size, 1, "Gemma2", "ForSequenceClassification", head_dim=6, pad_token_id=0,
                                       query_pre_attn_scalar=24, sliding_window=4, attn_logit_softcapping=2.0,
                                       final_logit_softcapping=8.0, **THREE),
    "gemma3_text_both": lambda size: llama(
        size, 1, "Gemma3Text", "Model", head_dim=6, pad_token_id=0, query_pre_attn_scalar=24, sliding_window=6,
        use_bidirectional_attention=True, **every_other(size)),
    "modernbert_base": lambda size: modernbert(size, "Model", norm_bias=True, norm_eps=1e-3, rope_parameters={
        "full_attention": {"rope_type": "default", "rope_theta": 500.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
    "modernbert_masked": lambda size: modernbert(size),
    "modernbert_masked_biased": lambda size: modernbert(size, attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True,
                                                        decoder_bias=False, classifier_activation="silu", hidden_activation="relu"),
    "modernbert-decoder": lambda size: modernbert(size, "ForCausalLM", "ModernBertDecoder", norm_bias=True, decoder_bias=False, rope_parameters={
        "full_attention": {"rope_type": "default", "rope_theta": 500.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
    "modernbert-decoder_untied_biased": lambda size: modernbert(
        size, "ForCausalLM", "ModernBertDecoder", attention_bias=True, mlp_bias=True, classifier_bias=True, tie_word_embeddings=False,
        classifier_activation="silu", hidden_activation="relu", norm_eps=1e-3),
    "modernbert_texts": lambda size: modernbert(size, "ForSequenceClassification", classifier_pooling="mean", **THREE),
    "modernbert_first_token": lambda size: modernbert(size, "ForSequenceClassification", classifier_bias=True, **THREE),
    "modernbert_tokens": lambda size: modernbert(size, "ForTokenClassification", **THREE),
    "modernbert_spans": lambda size: modernbert(size, "ForQuestionAnswering"),
    "nomic_bert_base": lambda size: nomic_bert(size, "Model"),
    "nomic_bert_masked": lambda size: nomic_bert(size, type_vocab_size=3, hidden_act="gelu", layer_norm_eps=1e-3, head_dim=6,
                                                 rope_parameters={"rope_type": "default", "rope_theta": 100.0}),
    "jina_embeddings_v3_base": lambda size: bert(size, "Model", "JinaEmbeddingsV3", pad_token_id=1, type_vocab_size=3, layer_norm_eps=1e-3),
    "jina_embeddings_v3_masked": lambda size: bert(size, "ForMaskedLM", "JinaEmbeddingsV3", pad_token_id=1, hidden_act="relu",
                                                   rope_parameters={"rope_type": "default", "rope_theta": 100.0}),
    "jina_embeddings_v3_texts": lambda size: bert(size, "ForSequenceClassification", "JinaEmbeddingsV3", pad_token_id=1, **THREE),
    "jina_embeddings_v3_spans": lambda size: bert(size, "ForQuestionAnswering", "JinaEmbeddingsV3", pad_token_id=1),
    "gte_base": lambda size: bert(size, "Model", "Gte", type_vocab_size=0, layer_norm_eps=1e-3),
    "gte_masked": lambda size: bert(size, "ForMaskedLM", "Gte", type_vocab_size=3, hidden_act="relu",
                                    rope_parameters={"rope_type": "default", "rope_theta": 100.0}),
    "gte_texts": lambda size: bert(size, "ForSequenceClassification", "Gte", **THREE),
    "gte_tokens": lambda size: bert(size, "ForTokenClassification", "Gte", **THREE),
    "vit_images": lambda size: vit(size, **THREE),
    "vit_base": lambda size: vit(size, "Model", hidden_act="gelu_new", num_channels=2),
    "deit_images": lambda size: vit(size, family="DeiT", **THREE),
    "clip_text_model": lambda size: dual(size, "CLIP", "TextModelWithProjection", projection_dim=6),
    "clip_text_model_first": lambda size: dual(size, "CLIP", "TextModelWithProjection", projection_dim=6, eos_token_id=2),
    "clip_text_model_plain": lambda size: dual(size, "CLIP", "TextModel", hidden_act="gelu"),
    "clip_vision_model": lambda size: dual(size, "CLIP", "VisionModelWithProjection", projection_dim=6),
    "clip_vision_model_plain": lambda size: dual(size, "CLIP", "VisionModel", hidden_act="gelu"),
    "siglip_text_model": lambda size: dual(size, "Siglip", "TextModel", projection_size=6),
    "siglip_vision_model": lambda size: dual(size, "Siglip", "VisionModel"),
    "clip": lambda size: dual(size, "CLIP", projection_dim=6),
    "siglip": lambda size: dual(size, "Siglip"),
    "deit_teacher": lambda size: vit(size, "ForImageClassificationWithTeacher", "DeiT", **THREE),
    "t5": lambda size: t5(size),
    "t5_gated": lambda size: t5(size, scaled=False, feed_forward_proj="gated-gelu", layer_norm_epsilon=1e-3,
                                num_decoder_layers=3),
    "t5_default": lambda size: t5(size, d_kv=8, relative_attention_num_buckets=32, feed_forward_proj="gated-silu",
                                  relative_attention_max_distance=128),
    "mt5": lambda size: mt5(size, num_decoder_layers=3, layer_norm_epsilon=1e-3),
    "mt5_relu": lambda size: mt5(size, feed_forward_proj="relu", layer_norm_epsilon=1e-2),
    "t5_encoder": lambda size: hf.T5EncoderModel(t5_config(size, feed_forward_proj="gated-gelu")),
    "bart": lambda size: bart(size),
    "bart_scaled": lambda size: bart(size, scale_embedding=True, activation_function="relu", decoder_layers=size["layers"] + 1,
                                     encoder_ffn_dim=10, decoder_attention_heads=1, pad_token_id=2, decoder_start_token_id=4),
    "mbart": lambda size: bart(size, "MBart", scale_embedding=True),
    "mbart_relu": lambda size: bart(size, "MBart", activation_function="relu", decoder_ffn_dim=10, decoder_layers=size["layers"] + 1),
    "m2m_100": lambda size: bart(size, "M2M100"),
    "m2m_100_unscaled": lambda size: bart(size, "M2M100", scale_embedding=False, activation_function="gelu", pad_token_id=2,
                                          decoder_start_token_id=4, encoder_attention_heads=1),
    "pegasus": lambda size: bart(size, "Pegasus", scale_embedding=True),
    "pegasus_relu": lambda size: bart(size, "Pegasus", activation_function="relu", encoder_ffn_dim=10),
    "blenderbot": lambda size: bart(size, "Blenderbot", scale_embedding=True, decoder_layers=size["layers"] + 1),
    "blenderbot_relu": lambda size: bart(size, "Blenderbot", activation_function="relu", decoder_attention_heads=1),
    "distilbert_texts": lambda size: distilbert(size, "ForSequenceClassification", **THREE),
    "distilbert_spans": lambda size: distilbert(size, "ForQuestionAnswering"),
}


MINUS_ONE = ("nemotron", "gemma", "gemma2", "gemma3_text", "vaultgemma")  # their files store a norm's weight - 1


def text_config(model):
    """The model's configuration, or that of the language model within it."""
    return model.config.get_text_config(decoder=True)


def random_model(name, size, seed):
    torch.manual_seed(seed)
    model = CASES[name](size).eval()
    model.set_attn_implementation("eager")
    if hasattr(text_config(model), "num_experts_per_tok"):
        model.set_experts_implementation("eager")
    return randomized(model, seed)


def randomized(model, seed):
    """Randomises all parameters, including biases and gains, which start as zeros and ones."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for whole, parameter in model.named_parameters():
            if not parameter.requires_grad:  # RoFormer's sinusoids
                continue
            key = whole.removeprefix("rembert.")  # not an embedding
            numbers = torch.randn(parameter.shape, generator=random)
            norm = "norm" in key.lower() or ".ln_" in key
            if parameter.dim() > 1 and ("emb" not in key or "project" in key or "mapping" in key) and ".wte" not in key and ".wpe" not in key:
                numbers *= 1.3 / parameter.shape[-1] ** 0.5
                if key.endswith("Attention.q.weight"):
                    numbers *= model.config.d_kv**-0.5  # T5 does not scale its scores
            elif parameter.dim() == 1:
                numbers = 0.3 * numbers + (1.0 if norm and key.endswith("weight") else 0.0)
                if norm and text_config(model).model_type in MINUS_ONE:  # exact after adding 1
                    numbers = torch.round((numbers - 1.0) * 1024) / 1024
            parameter.copy_(numbers)
        for key, buffer in model.named_buffers():
            if key.endswith("layer_scalar"):  # Gemma 4's factors of layers
                buffer.fill_(0.5 + torch.rand((), generator=random))
            elif key.endswith("mlp.gate.e_score_correction_bias") or key.endswith("mlp.e_score_correction_bias"):
                buffer.copy_(0.3 * torch.randn(buffer.shape, generator=random))
    if not of_pairs(model):  # their tables are tied on construction
        model.tie_weights()
    return model


def of_pairs(model):
    return model.config.is_encoder_decoder


def of_images(model):
    return model.config.model_type in ("vit", "deit", "clip_vision_model", "siglip_vision_model")


def of_both(model):
    return model.config.model_type in ("clip", "siglip")


def causal(model):
    name = type(model).__name__
    return name.endswith(("ForCausalLM", "LMHeadModel")) or (name.endswith("ForConditionalGeneration") and not of_pairs(model))


def random_texts(model, lengths, seed):
    random = np.random.default_rng(seed)
    texts = [torch.from_numpy(random.integers(3, text_config(model).vocab_size, length)) for length in lengths]
    kinds = getattr(model.config, "type_vocab_size", 0)
    types = [torch.from_numpy(np.sort(random.integers(0, max(kinds, 1), length))) for length in lengths]
    if model.config.model_type.startswith("clip"):
        end = text_config(model).eos_token_id
        end = text_config(model).vocab_size - 1 if end == 2 else end
        for ids in texts:
            ids[ids == end] = 5
            ids[-1] = end
    return texts, types


def random_images(model, count, seed):
    config = getattr(model.config, "vision_config", model.config)
    shape = (count, config.num_channels, config.image_size, config.image_size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def outputs_of_images(model, pixels, **how):
    with torch.no_grad():
        result = model(pixel_values=pixels, output_hidden_states=True, output_attentions=True, **how)
    flat = {f"attention.{layer}": weights for layer, weights in enumerate(result.attentions)}
    if "Classification" in type(model).__name__:
        flat["labels"] = result.logits
    else:
        vector = result.image_embeds if "image_embeds" in result else result.pooler_output
        flat |= {"hidden": result.last_hidden_state, "pooled": vector}
    return {name: value.detach().reshape(-1).float().numpy() for name, value in flat.items()} | {
        "pixels": pixels.numpy()}


def outputs(model, texts, types):
    """All outputs of the model for each text, run alone without padding, concatenated."""
    parts = {}

    def keep(name, value):
        if value is not None:
            parts.setdefault(name, []).append(value.detach().reshape(-1).float())

    for ids, kinds in zip(texts, types):
        more = {"token_type_ids": kinds[None]} if getattr(model.config, "type_vocab_size", 0) > 0 else {}
        with torch.no_grad():
            result = model(input_ids=ids[None], output_hidden_states=True, output_attentions=True, **more)
        # Those of CLIP and SigLIP are not normed.
        keep("hidden", result.last_hidden_state if "last_hidden_state" in result else result.hidden_states[-1])
        for layer, weights in enumerate(result.attentions):
            keep(f"attention.{layer}", weights)
        head = type(model).__name__
        if "ForPreTraining" in head:
            keep("logits", result.prediction_logits)
            keep("next_sentence", result.seq_relationship_logits)
        elif causal(model) or "LM" in head.replace("XLM", ""):
            keep("logits", result.logits)
        elif "Classification" in head:
            keep("labels", result.logits)
        elif "QuestionAnswering" in head:
            keep("labels", torch.stack([result.start_logits, result.end_logits], -1))
        keep("pooled", result.text_embeds if "text_embeds" in result else getattr(result, "pooler_output", None)
             if type(model).__name__ != "CLIPTextModel" else None)
    flat = {name: torch.cat(values).numpy() for name, values in parts.items()}
    flat["ids"] = torch.cat(texts).int().numpy()
    flat["types"] = torch.cat(types).int().numpy()
    flat["lengths"] = np.array([len(text) for text in texts], dtype=np.int32)
    return flat


def outputs_of_both(model, texts, pixels):
    """Vectors of texts and images, and the logits of each image's texts."""
    with torch.no_grad():
        found = [model(input_ids=ids[None], pixel_values=pixels) for ids in texts]
    flat = {"text_vectors": torch.cat([one.text_embeds[0] for one in found]), "image_vectors": found[0].image_embeds,
            "logits": torch.cat([one.logits_per_image for one in found], -1)}
    return {name: value.detach().reshape(-1).float().numpy() for name, value in flat.items()} | {
        "pixels": pixels.numpy(), "ids": torch.cat(texts).int().numpy(),
        "lengths": np.array([len(text) for text in texts], dtype=np.int32)}


def outputs_of_pairs(model, sources, targets):
    """Likewise for sources and targets: attention weights of the encoder by layer, then self- and cross-attention of each
    decoder layer."""
    parts = {}

    def keep(name, value):
        parts.setdefault(name, []).append(value.detach().reshape(-1).float())

    for source, target in zip(sources, targets):
        with torch.no_grad():
            result = model(input_ids=source[None], decoder_input_ids=target[None], output_attentions=True,
                           use_cache=False)
        keep("hidden", result.encoder_last_hidden_state)
        keep("logits", result.logits)
        pairs = zip(result.decoder_attentions, result.cross_attentions)
        for layer, weights in enumerate([*result.encoder_attentions, *(one for pair in pairs for one in pair)]):
            keep(f"attention.{layer}", weights)
    flat = {name: torch.cat(values).numpy() for name, values in parts.items()}
    for name, texts in (("ids", sources), ("target_ids", targets)):
        flat[name] = torch.cat(texts).int().numpy()
        flat[name.replace("ids", "lengths")] = np.array([len(text) for text in texts], dtype=np.int32)
    return flat


def written(model, source, **how):
    """transformers' output for a source, without the start token; padding is forbidden."""
    config = model.config
    # transformers 5.23 sizes its cache by the encoder's number of layers.
    decoder_layers = getattr(config, "num_decoder_layers", None) or getattr(config, "decoder_layers", None)
    cache = config.num_hidden_layers == (decoder_layers or config.num_hidden_layers)
    with torch.no_grad():
        found = model.generate(source[None], do_sample=False, bad_words_ids=[[config.pad_token_id]], use_cache=cache,
                               **how)
    return found[0, 1:].int().numpy()


def greedy(model, prompt, steps):
    """transformers' greedy text, with its KV cache."""
    with torch.no_grad():
        found = model.generate(prompt[None], max_new_tokens=steps, min_new_tokens=steps, do_sample=False,
                               pad_token_id=0)
    return found[0, len(prompt):].int().numpy()
