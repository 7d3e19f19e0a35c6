"""The tree of commands. Library code is imported inside each command, so that help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from crucible.cli import audit, demo, envs, export, hub, info, record, show, train, trust, verify

__all__ = ["app", "run"]

INTERRUPTED = 130

app = typer.Typer(
    name="crucible",
    help="Record what agents do in real software, publish it, and re-run every episode to check "
    "every recorded claim.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for module in (record, show, verify, audit, hub, info, export, trust, demo):
    for command in module.COMMANDS:
        app.command()(command)
app.add_typer(envs.app, name="envs")
app.add_typer(hub.app, name="hub")
app.add_typer(train.app, name="train")
app.add_typer(trust.app, name="trust")


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from crucible.version import __version__

        typer.echo(__version__)
        raise typer.Exit


def run(arguments: list[str]) -> int:
    """Run the command line and give its exit code.

    Raises:
        KeyboardInterrupt: if the user interrupted it.
        CrucibleError: whatever the command raised.
    """
    command = typer.main.get_command(app)
    try:
        result = command.main(arguments, prog_name="crucible", standalone_mode=False)
    except typer.TyperException as error:
        # Errors about a value name their option in format_message() alone.
        message = getattr(error, "format_message", error.__str__)()
        sentence = " ".join(message.split())
        typer.echo(f"error: {sentence} (crucible --help lists commands and options)", err=True)
        return 2
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    if result == INTERRUPTED:
        raise KeyboardInterrupt
    return result if isinstance(result, int) else 0
