"""``crucible worlds`` and ``crucible trust``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crucible.cli.console import JsonOption, note, print_json, print_line, print_table
from crucible.cli.targets import RevisionOption

if TYPE_CHECKING:
    from crucible.worlds import World

__all__ = ["COMMANDS", "app"]

app = typer.Typer(help="The worlds and suites that you vouch for.", no_args_is_help=True)

SubjectArgument = Annotated[
    str, typer.Argument(metavar="WORLD_DIGEST|suite:NAME|TARGET", help="What to pin.")
]


def worlds(
    target: Annotated[str, typer.Argument(help="A folder, a trajectory file, or org/name[@rev].")],
    revision: RevisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Review the worlds of a dataset: what judges its episodes, and who stands for it."""
    from crucible.anchors import Anchors

    anchors = Anchors()
    found = [(world, anchors.of(world)) for world in _worlds_of(target, revision)]
    if as_json:
        print_json({"worlds": [{**w.to_row(), "anchor": anchor} for w, anchor in found]})
        return
    for world, anchor in found:
        print_line(f"{world.label}: {anchor or 'NOT ANCHORED'}")
        print_line(f"  digest {world.digest}")
        print_line(f"  environment {world.env_id}, version {world.env_version}")
        if world.code_digest is not None:
            claim = f"{world.distribution} {world.distribution_version}"
            print_line(f"  code {world.code_digest} (the dataset says: {claim})")
        if anchor is None:
            print_line(f"  kwargs {world.kwargs_text}")
    if any(anchor is None for _, anchor in found):
        note("review the kwargs above; crucible trust add DIGEST pins a world")


@app.command("add")
def add(subject: SubjectArgument, revision: RevisionOption = None) -> None:
    """Pin a world, an installed suite, or every world of a dataset that you have reviewed."""
    from crucible.suites import load_suite
    from crucible.trust import read_trust, write_trust

    trust = read_trust()
    suite, digests = _subject(subject, revision)
    if suite is not None:
        load_suite(suite)
        write_trust(trust.adding(suites=[suite]))
        print_line(f"trusted suite {suite}")
        return
    write_trust(trust.adding(worlds=digests))
    print_line(f"trusted {len(digests)} worlds")


@app.command("remove")
def remove(subject: SubjectArgument, revision: RevisionOption = None) -> None:
    """Take a pin back."""
    from crucible.trust import read_trust, write_trust

    suite, digests = _subject(subject, revision)
    write_trust(read_trust().removing(worlds=digests, suites=[suite] if suite else []))
    print_line(f"no longer trusted: {f'suite {suite}' if suite else f'{len(digests)} worlds'}")


@app.command("list")
def list_trusted(as_json: JsonOption = False) -> None:
    """List what you have pinned."""
    from crucible.trust import read_trust, trust_path

    trust = read_trust()
    if as_json:
        print_json(trust.to_dict())
        return
    rows: list[tuple[Any, ...]] = [("suite", name) for name in sorted(trust.suites)]
    rows += [("world", digest) for digest in sorted(trust.worlds)]
    print_line(f"{trust_path()}")
    print_table(("kind", "pinned"), rows)


def _subject(subject: str, revision: str | None) -> tuple[str | None, list[str]]:
    """The suite, or the digests of worlds, that ``subject`` names."""
    if subject.startswith("suite:"):
        return subject.removeprefix("suite:"), []
    if re.fullmatch("[0-9a-f]{64}", subject):
        return None, [subject]
    return None, [world.digest for world in _worlds_of(subject, revision)]


def _worlds_of(target: str, revision: str | None) -> list[World]:
    from crucible.cli.targets import local_target
    from crucible.dataset.folder import read_manifest, read_worlds
    from crucible.trajectory import Trajectory

    path = local_target(target, revision=revision)
    if path.is_file():
        return [Trajectory.load(path).world]
    return list(read_worlds(path, read_manifest(path)).values())


COMMANDS = (worlds,)
