"""Masks, gates and a real run of TRL's trainer, with a model built from nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from walking import RecordWalks

from crucible.cli import main
from crucible.errors import PolicyError, UsageError

pytest.importorskip("torch", reason="training needs the extra [train]")
pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

from crucible.training import (  # noqa: E402 - only where torch is
    ExportOptions,
    SFTOptions,
    export_dataset,
    load_export,
    tokenize_chat,
    train_sft,
)
from crucible.training.tiny import CHAT_TEMPLATE, tiny_tokenizer  # noqa: E402
from crucible.training.tokenization import IGNORED  # noqa: E402

ARGUMENTS = '{"a":0.7,"b":0.3333333333333333,"c":1e-7,"d":"é\\n\\"x\\""}'
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def call(arguments: str = ARGUMENTS) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    tool_call = {"id": "1", "type": "function", "function": function}
    return {"role": "assistant", "content": "hm", "tool_calls": [tool_call]}


def chat(*turns: dict[str, Any]) -> list[dict[str, Any]]:
    start = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    answer = {"role": "tool", "tool_call_id": "1", "name": "f", "content": "tool says 5"}
    return [*start, *(turns or (call(), answer, {"role": "assistant", "content": "bye"}))]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer([json.dumps(chat())] * 5)


def test_labels_are_the_assistants_turns_and_nothing_else(tokenizer: Any) -> None:
    found = tokenize_chat(tokenizer, chat(), TOOLS)
    trained = tokenizer.decode([label for label in found.labels if label != IGNORED])
    wanted = f'hm<tool_call>{{"name": "f", "arguments": {ARGUMENTS}}}</tool_call><|im_end|>'
    assert trained == f"{wanted}bye<|im_end|>"
    kept = [i for i, label in zip(found.input_ids, found.labels, strict=True) if label != IGNORED]
    assert kept == [label for label in found.labels if label != IGNORED]
    whole = tokenizer.decode(found.input_ids)
    assert "tool says 5" in whole and "tool says 5" not in trained
    assert found.num_trained == len(kept)


@pytest.mark.parametrize("number", ["0.7", "0.3333333333333333", "1e-7", "12345678901234567890"])
def test_numbers_in_arguments_are_trained_as_recorded(tokenizer: Any, number: str) -> None:
    found = tokenize_chat(tokenizer, chat(call(f'{{"x":{number}}}')), TOOLS)
    assert f'"arguments": {{"x":{number}}}' in tokenizer.decode(found.input_ids)


BAD_TEMPLATES = {
    "rewrites earlier turns": CHAT_TEMPLATE.replace(
        "{{ message.content or '' }}",
        "{{ message.content if loop.last or message.role != 'assistant' else 'cut' }}",
    ),
    "no stop token": CHAT_TEMPLATE.replace("{%- endfor %}<|im_end|>", "{%- endfor %}"),
    "refuses tools": "{{ raise_exception('no tools here') }}",
    "counts messages at the top": "{{ messages | length }}" + CHAT_TEMPLATE,
}


@pytest.mark.parametrize("name", BAD_TEMPLATES)
def test_templates_that_allow_no_exact_mask_are_refused(name: str) -> None:
    tokenizer = tiny_tokenizer([json.dumps(chat())])
    tokenizer.chat_template = BAD_TEMPLATES[name]
    with pytest.raises(PolicyError):
        tokenize_chat(tokenizer, chat(), TOOLS)


def test_a_template_that_encodes_text_again_gets_objects() -> None:
    tokenizer = tiny_tokenizer([json.dumps(chat())])
    tokenizer.chat_template = CHAT_TEMPLATE.replace(
        "{%- if call.function.arguments is string %} {{ call.function.arguments }}"
        "{%- else %} {{ call.function.arguments | tojson }}{% endif %}",
        " {{ call.function.arguments | tojson }}",
    )
    found = tokenize_chat(tokenizer, chat(call('{"x":0.7}')), TOOLS)
    assert '{"x": 0.7}}</tool_call>' in tokenizer.decode(found.input_ids)


def test_a_chat_without_an_assistant_turn_is_refused(tokenizer: Any) -> None:
    with pytest.raises(PolicyError, match="no assistant turn"):
        tokenize_chat(tokenizer, chat()[:2], TOOLS)


def test_an_export_with_a_tokenizer_holds_ids_and_labels(
    record_walks: RecordWalks, tmp_path: Path, tokenizer: Any
) -> None:
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    folder = record_walks()
    options = ExportOptions(tokenizer=str(tmp_path / "tokenizer"))
    export_dataset(folder, tmp_path / "sft", options=options)
    for row in load_export(tmp_path / "sft"):
        again = tokenize_chat(tokenizer, row["messages"], row["tools"])
        assert (row["input_ids"], row["labels"]) == (again.input_ids, again.labels)
    short = ExportOptions(tokenizer=str(tmp_path / "tokenizer"), max_tokens=3)
    with pytest.raises(PolicyError, match="more than 3 tokens"):
        export_dataset(folder, tmp_path / "short", options=short)


def test_training_lowers_the_loss_and_leaves_a_model_that_loads(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    export_dataset(record_walks(), tmp_path / "sft")
    options = SFTOptions(max_steps=12, learning_rate=1e-2)
    out = tmp_path / "model"
    result = train_sft(tmp_path / "sft", model="tiny", output_dir=out, options=options)
    assert len(result.losses) == 12
    assert result.last_loss < result.first_loss - 0.5
    model = AutoModelForCausalLM.from_pretrained(out)
    assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(out))
    body = json.loads((out / "results.json").read_text())
    assert body["parent_root"] in (out / "README.md").read_text()
    assert (body["num_rows"], body["worlds"]) == (5, ["walking:Walk"])
    # The model that was trained can be trained further, by its path, with an adapter.
    lora = SFTOptions(max_steps=2, lora_rank=2)
    again = train_sft(tmp_path / "sft", model=str(out), output_dir=tmp_path / "more", options=lora)
    assert (tmp_path / "more" / "adapter_model.safetensors").is_file()
    assert again.first_loss < result.first_loss


def test_the_command_trains_on_a_dataset_and_passes_options_on(
    record_walks: RecordWalks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_walks()
    arguments = ["train", "sft", str(folder), "--model", "tiny", "--max-steps", "2"]
    out = ["--output_dir", str(tmp_path / "model"), "--json"]
    assert main([*arguments, *out, "--", "--weight_decay", "0.1"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["rows"], body["steps"]) == (5, 2)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["FOLDER", "--model", "NOWHERE"], 2),
        (["README", "--model", "tiny"], 2),
        (["FOLDER", "--model", "tiny", "--", "--weight_decay"], 2),
        (["FOLDER", "--model", "tiny", "--max-tokens", "3"], 3),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(
    record_walks: RecordWalks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = record_walks()
    (tmp_path / "empty").mkdir()
    places = {"FOLDER": str(folder), "README": str(tmp_path / "empty")}
    places["NOWHERE"] = str(tmp_path / "nowhere")
    given = [places.get(a, a) for a in arguments]
    separator = given.index("--") if "--" in given else len(given)
    given[separator:separator] = ["--output-dir", str(tmp_path / "m")]
    assert main(["train", "sft", *given]) == code
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")


def test_rows_that_do_not_fit_are_an_error_not_a_shorter_chat(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    export_dataset(record_walks(), tmp_path / "sft")
    options = SFTOptions(max_steps=1, max_tokens=10)
    with pytest.raises(PolicyError, match="more than 10 tokens"):
        train_sft(tmp_path / "sft", model="tiny", output_dir=tmp_path / "m", options=options)
    with pytest.raises(UsageError, match="neither a dataset nor an export"):
        train_sft(tmp_path, model="tiny", output_dir=tmp_path / "m")
