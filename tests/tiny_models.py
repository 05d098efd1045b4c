"""Tiny models with random weights, built without a network: the true classes, templates and processors of a family.

Their answers are noise. What is tested with them is the way through the Auto classes, and that a batch gives what one
question alone gives.
"""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SIZE, LAYERS, HEADS, VOCABULARY = 32, 2, 4, 420
TEXTS = [
    "根据以上四张图回答问题，他们分别为图A, 图B, 图C, 图D, 请从给定选项ABCD中选择一个最合适的答案。答案为：图",
    "（A) 川菜\n（B) 粤菜\n（C) 湘菜\n（D) 鲁菜\n 请根据上图从所提供的选项中选择一个正确答案，为（",
    "These are the options: Please select one of the options as your answer. I would select (",
]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{% if part.type == 'image' %}IMAGE{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_tokenizer(special: list[str] = [], letters_apart: bool = True, **settings: Any) -> Any:  # noqa: B006
    """Byte-level BPE trained on a few lines: no token holds an option letter and more, or else 图A is one token."""
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    steps: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=letters_apart)]
    if letters_apart:
        steps.insert(0, pre_tokenizers.Split(Regex("[ABCD]"), "isolated"))
    inner.pre_tokenizer = pre_tokenizers.Sequence(steps)
    inner.decoder = decoders.ByteLevel()
    own = ["<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", *special]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=own,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = TEXTS if letters_apart else [f"图{letter}" for letter in "ABCD"]
    inner.train_from_iterator(texts * 10, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>", **settings
    )


def _text(tokenizer: Any, **more: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": SIZE,
        "intermediate_size": 2 * SIZE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "max_position_embeddings": 2048,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **more,
    }


def _vision() -> dict[str, Any]:
    return {
        "hidden_size": SIZE,
        "intermediate_size": 2 * SIZE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "image_size": 28,
        "patch_size": 14,
    }


def _llama(tokenizer: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**_text(tokenizer))), tokenizer


def _gpt2(tokenizer: Any) -> Any:
    """Absolute positions: padding that is not accounted for shows."""
    from transformers import GPT2Config, GPT2LMHeadModel

    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=SIZE, n_layer=LAYERS, n_head=HEADS, n_positions=512, **ids)
    return GPT2LMHeadModel(config), tokenizer


def _llava(tokenizer: Any) -> Any:
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**_vision(), projection_dim=SIZE),
        text_config=LlamaConfig(**_text(tokenizer)),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="default",
        vision_feature_layer=-1,
    )
    processor = LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    )
    return LlavaForConditionalGeneration(config), processor


def _idefics2(tokenizer: Any) -> Any:
    from transformers import (
        Idefics2Config,
        Idefics2ForConditionalGeneration,
        Idefics2ImageProcessor,
        Idefics2Processor,
        MistralConfig,
    )

    images = Idefics2ImageProcessor(size={"shortest_edge": 28, "longest_edge": 56}, do_image_splitting=False)
    processor = Idefics2Processor(images, tokenizer, image_seq_len=4, chat_template=tokenizer.chat_template)
    perceiver = {
        "hidden_size": SIZE,
        "resampler_n_latents": 4,
        "resampler_depth": 1,
        "resampler_n_heads": HEADS,
        "resampler_head_dim": SIZE // HEADS,
        "num_key_value_heads": 2,
    }
    config = Idefics2Config(
        vision_config={**_vision(), "image_size": 56},
        perceiver_config=perceiver,
        text_config=MistralConfig(**_text(tokenizer)),
        image_token_id=processor.image_token_id,
    )
    model = Idefics2ForConditionalGeneration(config)
    model.resize_token_embeddings(len(processor.tokenizer))
    return model, processor


_QWEN = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]


def _qwen2_vl(tokenizer: Any) -> Any:
    from transformers import (
        Qwen2VLConfig,
        Qwen2VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    start, end, image, video = tokenizer.convert_tokens_to_ids(_QWEN)
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10_000.0}  # half of the size of a head
    vision = {"depth": LAYERS, "embed_dim": SIZE, "hidden_size": SIZE, "num_heads": HEADS, "mlp_ratio": 2}
    config = Qwen2VLConfig(
        text_config=_text(tokenizer, rope_parameters=rope),
        vision_config={**vision, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2},
        vision_start_token_id=start,
        vision_end_token_id=end,
        image_token_id=image,
        video_token_id=video,
    )
    images = Qwen2VLImageProcessor(size={"shortest_edge": 56 * 56, "longest_edge": 84 * 84})
    template = tokenizer.chat_template
    processor = Qwen2VLProcessor(images, tokenizer, video_processor=Qwen2VLVideoProcessor(), chat_template=template)
    return Qwen2VLForConditionalGeneration(config), processor


_FAMILIES = {
    "llama": (_llama, [], "", {}),
    "gpt2": (_gpt2, [], "", {}),
    "llava": (_llava, ["<image>"], "<image>", {"image_token": "<image>"}),
    "idefics2": (_idefics2, ["<fake_token_around_image>", "<image>", "<end_of_utterance>"], "<image>", {}),
    "qwen2_vl": (_qwen2_vl, _QWEN, "".join(_QWEN[i] for i in (0, 2, 1)), {}),
}


def save_tiny(
    family: str, folder: Path, template: bool = True, letters_apart: bool = True, spread: float = 0.3
) -> Path:
    """Write a tiny model of a family into a folder; `spread` of its weights, so that logits differ by some units."""
    build, special, image, named = _FAMILIES[family]
    settings: dict[str, Any] = {"extra_special_tokens": named} if named else {}
    if template:
        settings["chat_template"] = CHATML.replace("IMAGE", image)
    torch.manual_seed(0)
    model, reader = build(tiny_tokenizer(special, letters_apart, **settings))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=spread, generator=generator)
    model.save_pretrained(folder)
    reader.save_pretrained(folder)
    return folder


def save_tiny_clip(folder: Path, kind: str = "clip", longest: int = 40) -> Path:
    """Write a tiny dual encoder: `clip`, `siglip` (texts filled up to full length), or `chinese_clip` (a BERT)."""
    import transformers as t

    tokenizer = tiny_tokenizer(model_max_length=longest)
    sizes = {"hidden_size": SIZE, "intermediate_size": 2 * SIZE, "num_hidden_layers": LAYERS}
    text = {**sizes, "num_attention_heads": HEADS, "vocab_size": len(tokenizer), "max_position_embeddings": longest}
    text |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    images = {"size": {"height": 28, "width": 28}} if kind == "siglip" else {"size": {"shortest_edge": 28}}
    images |= {} if kind == "siglip" else {"crop_size": {"height": 28, "width": 28}}
    torch.manual_seed(0)
    if kind == "clip":
        # CLIP takes the state at its end mark, which its tokenizer writes.
        tokenizer = _ended(tokenizer)
        model = t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=_vision(), projection_dim=24))
        processor = t.CLIPProcessor(t.CLIPImageProcessor(**images), tokenizer)
    elif kind == "siglip":
        model = t.SiglipModel(t.SiglipConfig(text_config=text, vision_config=_vision()))
        processor = t.SiglipProcessor(t.SiglipImageProcessor(**images), tokenizer)
    else:
        config = t.ChineseCLIPConfig(text_config=text, vision_config=_vision(), projection_dim=24)
        model = t.ChineseCLIPModel(config)
        processor = t.ChineseCLIPProcessor(t.ChineseCLIPImageProcessor(**images), tokenizer)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.2, generator=generator)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _ended(tokenizer: Any) -> Any:
    from tokenizers.processors import TemplateProcessing

    marks = [(token, tokenizer.convert_tokens_to_ids(token)) for token in ("<s>", "</s>")]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=marks)
    return tokenizer
