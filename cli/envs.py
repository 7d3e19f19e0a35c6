"""``crucible envs``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from crucible.cli.check import check_environment
from crucible.cli.console import JsonOption, print_json, print_line, print_table

__all__ = ["app"]

app = typer.Typer(help="Environments and suites that are known here.", no_args_is_help=True)


@app.command("list")
def list_environments(as_json: JsonOption = False) -> None:
    """List the environments and suites that are registered."""
    from crucible.registry import environment_class, registered
    from crucible.suites import loadable_suites

    environments = [
        {
            "env_id": env_id,
            "env_version": environment_class(env_id).env_version,
            "sandbox": environment_class(env_id).needs_sandbox,
            "about": _first_line(environment_class(env_id)),
        }
        for env_id in registered()
    ]
    suites = [
        {"suite": s.name, "version": s.version, "worlds": len(s.worlds), "about": s.description}
        for s in loadable_suites()
    ]
    if as_json:
        print_json({"environments": environments, "suites": suites})
        return
    headings = ("environment", "version", "sandbox", "about")
    rows = [(e["env_id"], e["env_version"], e["sandbox"], e["about"]) for e in environments]
    print_table(headings, [(a, b, "yes" if c else "no", d) for a, b, c, d in rows])
    print_line("")
    print_table(("suite", "version", "worlds", "about"), [tuple(s.values()) for s in suites])


@app.command("show")
def show_environment(
    name: Annotated[str, typer.Argument(metavar="ENV|SUITE|WORLD")], as_json: JsonOption = False
) -> None:
    """Show an environment's tools and kwargs, or the worlds of a suite."""
    from crucible.registry import environment_class, registered
    from crucible.world_references import resolve_worlds

    if name in registered():
        cls = environment_class(name)
        shown: dict[str, Any] = {
            "env_id": name,
            "env_version": cls.env_version,
            "about": (cls.__doc__ or "").strip(),
            "kwargs_schema": cls.kwargs_schema,
            "seeded": cls.seeded,
            "deterministic": cls.deterministic,
            "needs_sandbox": cls.needs_sandbox,
            "toolchain_needs": list(cls.toolchain_needs),
        }
    else:
        shown = {"worlds": [world.to_row() for world in resolve_worlds(name, {})]}
    if as_json or "worlds" not in shown:
        print_json(shown)
        return
    rows = [
        (f"{w['suite']}/{w['name']}", w["env_id"], w["env_version"], w["world"][:16])
        for w in shown["worlds"]
    ]
    print_table(("world", "environment", "version", "digest"), rows)


app.command("check")(check_environment)


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().partition("\n")[0]
