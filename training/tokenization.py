"""Token ids and labels of a chat: the assistant's turns are trained on, and nothing else.

The mask is ours. The chat is rendered turn by turn with the tokenizer's own template; a template
under which a longer chat does not begin with a shorter one, or whose pieces give other tokens than
the whole, is refused, because the mask would be a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crucible.canonical import parse_json
from crucible.errors import PolicyError

__all__ = ["IGNORED", "TokenizedChat", "tokenize_chat"]

IGNORED = -100
"""The label of a token that is not trained on."""


@dataclass(frozen=True, slots=True)
class TokenizedChat:
    """``input_ids`` and ``labels`` of equal length."""

    input_ids: list[int]
    labels: list[int]

    @property
    def num_trained(self) -> int:
        """How many tokens are trained on."""
        return sum(label != IGNORED for label in self.labels)


def tokenize_chat(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> TokenizedChat:
    """The tokens of a chat, with labels on the assistant's turns up to their end-of-turn token.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        messages: chat messages; tool-call arguments as JSON text.
        tools: JSON-schema function tools.

    Raises:
        PolicyError: if the template has no tools, does not keep prefixes, ends an assistant turn
            without a stop token, gives pieces that tokenise differently, or nothing to train on.
    """
    render = _Renderer(tokenizer, list(tools), _for_template(tokenizer, messages, tools))
    pieces: list[tuple[str, bool]] = []
    done = ""
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = render(index, generation=True)
        after = render(index + 1, generation=False)
        if not before.startswith(done) or not after.startswith(before):
            raise PolicyError(
                "the chat template does not keep prefixes: a longer chat does not begin with the "
                "shorter one, so that no exact mask exists"
            )
        pieces += [(before[len(done) :], False), (after[len(before) :], True)]
        done = after
    whole = render(len(messages), generation=False)
    if not whole.startswith(done):
        raise PolicyError("the chat template rewrites earlier turns, so that no exact mask exists")
    pieces.append((whole[len(done) :], False))
    return _joined(tokenizer, pieces, whole)


class _Renderer:
    """The text of the first messages of a chat."""

    def __init__(
        self, tokenizer: Any, tools: list[Mapping[str, Any]], messages: list[dict[str, Any]]
    ) -> None:
        self._tokenizer, self._tools, self._messages = tokenizer, tools, messages

    def __call__(self, count: int, *, generation: bool) -> str:
        try:
            text = self._tokenizer.apply_chat_template(
                self._messages[:count],
                tools=self._tools or None,
                tokenize=False,
                add_generation_prompt=generation,
            )
        except Exception as error:
            raise PolicyError(f"the chat template cannot render this chat: {error}") from error
        return str(text)


def _for_template(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The messages with tool arguments as text where the template takes text, which keeps every
    digit as it was recorded, and as objects where it would encode the text once more."""
    as_text = [dict(message) for message in messages]
    call = next((c for m in messages for c in m.get("tool_calls") or ()), None)
    if call is None:
        return as_text
    arguments = call["function"]["arguments"]
    try:
        shown = _Renderer(tokenizer, list(tools), as_text)(len(as_text), generation=False)
        if arguments in shown:
            return as_text
    except PolicyError:
        pass
    return [_with_objects(message) for message in messages]


def _with_objects(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    converted = [
        {
            **call,
            "function": {
                **call["function"],
                "arguments": parse_json(call["function"]["arguments"]),
            },
        }
        for call in calls
    ]
    return {**message, "tool_calls": converted}


def _joined(tokenizer: Any, pieces: list[tuple[str, bool]], whole: str) -> TokenizedChat:
    input_ids: list[int] = []
    labels: list[int] = []
    stops = {tokenizer.eos_token_id, *_end_of_turn_ids(tokenizer)}
    for text, trained in pieces:
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        input_ids += ids
        if not trained:
            labels += [IGNORED] * len(ids)
            continue
        ends = [index for index, token in enumerate(ids) if token in stops]
        if not ends:
            raise PolicyError("the chat template ends an assistant turn without a stop token")
        end = ends[-1] + 1
        labels += ids[:end] + [IGNORED] * (len(ids) - end)
    if input_ids != tokenizer(whole, add_special_tokens=False)["input_ids"]:
        raise PolicyError("the turns give other tokens alone than in the whole chat")
    chat = TokenizedChat(input_ids, labels)
    if chat.num_trained == 0:
        raise PolicyError("the chat has no assistant turn to train on")
    return chat


def _end_of_turn_ids(tokenizer: Any) -> list[int]:
    """The ids of the usual end-of-turn tokens that this tokenizer has."""
    vocabulary = tokenizer.get_vocab()
    names = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "</s>")
    return [vocabulary[name] for name in names if name in vocabulary]
