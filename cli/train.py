"""``crucible train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crucible.cli.console import JsonOption, print_json, print_line
from crucible.cli.targets import ImportOption, RevisionOption

__all__ = ["app"]

app = typer.Typer(help="Train on verified episodes with TRL.", no_args_is_help=True)

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command("sft", context_settings=_PASSED_ON)
def sft(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="TARGET|EXPORT", help="What to train on.")],
    model: Annotated[str, typer.Option(help="A path or id, or tiny.")],
    output_dir: Annotated[Path, typer.Option("--output-dir", "--output_dir")],
    max_steps: Annotated[int, typer.Option("--max-steps", "--max_steps", min=1)] = 100,
    learning_rate: Annotated[float, typer.Option("--learning-rate", "--learning_rate")] = 2e-4,
    batch_size: Annotated[int, typer.Option("--batch-size", "--batch_size", min=1)] = 4,
    lora_rank: Annotated[
        int, typer.Option("--lora-rank", "--lora_rank", min=0, help="0 trains all weights.")
    ] = 0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "--max_tokens", min=1)] = 4096,
    seed: Annotated[int, typer.Option()] = 0,
    allow_unanchored: Annotated[bool, typer.Option("--allow-unanchored")] = False,
    revision: RevisionOption = None,
    imports: ImportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Supervised fine-tuning. Options after -- go to TRL's SFTConfig under TRL's names."""
    from crucible.cli.targets import import_modules, local_target
    from crucible.training import SFTOptions, train_sft

    import_modules(imports)
    options = SFTOptions(
        max_steps=max_steps,
        learning_rate=learning_rate,
        batch_size=batch_size,
        lora_rank=lora_rank,
        max_tokens=max_tokens,
        seed=seed,
        allow_unanchored=allow_unanchored,
        trl=_trl_options(context.args),
    )
    path = local_target(source, revision=revision)
    result = train_sft(path, model=model, output_dir=output_dir, options=options)
    if as_json:
        body: dict[str, Any] = {"output_dir": str(output_dir), "root": result.parent_root}
        losses = {"first_loss": result.first_loss, "last_loss": result.last_loss}
        print_json({**body, **losses, "rows": result.num_rows, "steps": result.max_steps})
        return
    print_line(
        f"trained {result.max_steps} steps on {result.num_rows} chats: "
        f"loss {result.first_loss:.3f} → {result.last_loss:.3f}"
    )
    if result.num_left_out:
        print_line(f"left out {result.num_left_out} chats of more than {max_tokens} tokens")
    print_line(f"model, results.json and card in {output_dir}")


def _trl_options(arguments: list[str]) -> dict[str, Any]:
    """``--name value`` pairs for SFTConfig; values are JSON where they are, else text.

    Raises:
        UsageError: if they are no such pairs.
    """
    from crucible.canonical import parse_json
    from crucible.errors import TextError, UsageError

    words = [word for word in arguments if word != "--"]
    options: dict[str, Any] = {}
    while words:
        name = words.pop(0)
        if not name.startswith("--") or not words:
            raise UsageError(f"options for TRL are --name value pairs, found {name!r}")
        value = words.pop(0)
        try:
            options[name[2:].replace("-", "_")] = parse_json(value)
        except TextError:
            options[name[2:].replace("-", "_")] = value
    return options
