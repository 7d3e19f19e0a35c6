"""``crucible push``, ``pull`` and ``hub serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crucible.cli.console import JsonOption, QuietOption, note, print_json, print_line
from crucible.cli.targets import ImportOption, RevisionOption

__all__ = ["COMMANDS", "app"]

app = typer.Typer(help="A Hub of your own.", no_args_is_help=True)

RepoArgument = Annotated[str, typer.Argument(metavar="REPO_ID", help="namespace/name.")]


def push(
    repo_id: RepoArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The dataset.")] = Path("."),
    public: Annotated[bool, typer.Option("--public", help="A new repository is public.")] = False,
    no_replay: Annotated[
        bool, typer.Option("--no-replay", help="Publish without re-running; the card says so.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Rows that are on the Hub may vanish.")
    ] = False,
    license: Annotated[str | None, typer.Option(help="An SPDX id for the card.")] = None,
    tag: Annotated[str | None, typer.Option(help="A tag for the commit.")] = None,
    message: Annotated[str, typer.Option("--message", "-m")] = "Add trajectories",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
    imports: ImportOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check and re-run a dataset, then publish it in one commit. Private unless --public."""
    from crucible.cli.targets import import_modules
    from crucible.commons import PushOptions, push_dataset

    import_modules(imports)
    options = PushOptions(
        public=public,
        replay=not no_replay,
        replace=replace,
        license=license,
        tag=tag,
        message=message,
        workers=workers,
    )
    note("checking and re-running every episode first", quiet=quiet or as_json or no_replay)
    result = push_dataset(folder, repo_id, options)
    if as_json:
        print_json(
            {
                "repo_id": result.repo_id,
                "commit": result.commit,
                "root": result.root,
                "uploaded": list(result.uploaded),
                "bytes": result.num_bytes,
            }
        )
    elif result.uploaded:
        print_line(f"pushed {len(result.uploaded)} files, {result.num_bytes} bytes, to {repo_id}")
        print_line(f"commit {result.commit}, root {result.root}")
    else:
        print_line(f"nothing new for {repo_id}: commit {result.commit}, root {result.root}")


def pull(
    repo_id: Annotated[str, typer.Argument(metavar="REPO_ID[@REV]", help="namespace/name.")],
    local_dir: Annotated[
        Path | None, typer.Option("--local-dir", "--local_dir", help="./NAME if not given.")
    ] = None,
    revision: RevisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Download a dataset at one commit, every byte checked. Prints the path alone."""
    from crucible.commons import pull_dataset

    name, _, named = repo_id.removeprefix("hf://datasets/").partition("@")
    pulled = pull_dataset(name, local_dir=local_dir, revision=revision or named or None)
    if as_json:
        body: dict[str, Any] = {"path": str(pulled.path), "repo_id": name}
        print_json({**body, "commit": pulled.commit, "root": pulled.root})
        return
    note(f"{name} at commit {pulled.commit}, root {pulled.root}; crucible verify re-runs it")
    print_line(str(pulled.path))


@app.command("serve")
def serve_hub(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where repositories are kept.")],
    host: Annotated[str, typer.Option(help="Any but a loopback address needs --token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8642,
    token: Annotated[
        str | None, typer.Option(envvar="CRUCIBLE_HUB_TOKEN", help="Needed to write.")
    ] = None,
) -> None:
    """Serve a Hub of your own to the stock Hugging Face clients, until interrupted."""
    from crucible.commons.localhub import serve

    note(f"serving {folder} at http://{host}:{port} (Ctrl-C ends it); clients need")
    note(f"  export HF_ENDPOINT=http://{host}:{port} HF_HUB_DISABLE_XET=1")
    serve(folder, host=host, port=port, token=token)


COMMANDS = (push, pull)
