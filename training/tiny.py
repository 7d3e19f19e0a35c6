"""A model small enough to train in seconds on a CPU, built from nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crucible.errors import require

__all__ = ["CHAT_TEMPLATE", "tiny_model", "tiny_tokenizer"]

VOCABULARY = 512
END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = """\
{%- if tools %}<|im_start|>tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>{"name": {{ call.function.name | tojson }}, "arguments": \
{%- if call.function.arguments is string %} {{ call.function.arguments }}\
{%- else %} {{ call.function.arguments | tojson }}{% endif %}}</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""ChatML with tools: earlier turns never change, and tool arguments are taken as they are."""


def tiny_tokenizer(texts: Iterable[str]) -> Any:
    """A byte-level BPE tokenizer of a few hundred tokens, trained on ``texts``."""
    tokenizers = require("tokenizers", extra="train")
    transformers = require("transformers", extra="train")
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, START, END],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[START],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def tiny_model(tokenizer: Any, *, seed: int) -> Any:
    """A two-layer Qwen2-shaped causal language model with random weights."""
    torch = require("torch", extra="train")
    transformers = require("transformers", extra="train")
    torch.manual_seed(seed)
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return transformers.Qwen2ForCausalLM(config)
