"""``crucible demo``: the whole loop, offline, so that a reader understands the product from it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crucible.cli.console import print_line, progress
from crucible.cli.verify import print_report

if TYPE_CHECKING:
    from crucible.verdicts import VerificationReport

__all__ = ["COMMANDS"]

REPO_ID = "demo/first-steps"
RECORDINGS = (
    ("guess-basics", "0:20"),
    ("sql-synth", "0:12"),
    ("http-basics", "0:1"),
    ("shell-basics", "0:1"),
    ("code-basics", "0:1"),
)
"""Suite and seeds; each is recorded with the good and the poor agent."""

TRAINING_STEPS = 20


@dataclass(slots=True)
class Demo:
    """The folders of one run, and what happened so far."""

    folder: Path
    workers: int | None
    results: dict[str, Any] = field(default_factory=dict)

    @property
    def recorded(self) -> Path:
        """The dataset as its author has it."""
        return self.folder / "recorded"

    @property
    def pulled(self) -> Path:
        """The dataset as a stranger has it."""
        return self.folder / "pulled"

    @property
    def edited(self) -> Path:
        """A copy in which one reward is changed."""
        return self.folder / "edited"


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder to leave everything in.")
    ] = Path("crucible-demo"),
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
) -> None:
    """Record, publish, pull, verify, tamper, export and train: the whole loop, offline."""
    from crucible.errors import UsageError

    if out.exists() and any(out.iterdir()) and not (out / "recorded").is_dir():
        raise UsageError(f"{out} holds something else: choose another --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    run = Demo(out.resolve(), workers)
    _record(run)
    with _own_hub(run):
        _publish(run)
    report = _verify(run)
    _tamper(run)
    _export(run, report)
    _train(run)
    _say_goodbye(run)


def _chapter(number: int, title: str, *explanation: str) -> None:
    print_line("")
    print_line(f"── {number}. {title} ".ljust(79, "─"))
    for line in explanation:
        print_line(line)


def _record(run: Demo) -> None:
    from crucible.cli.record import parse_seeds
    from crucible.recording import Plan, record_plan
    from crucible.sandbox import box_problem
    from crucible.world_references import resolve_worlds

    _chapter(
        1,
        "Record",
        "Two agents act in real software - a game, SQLite databases, an HTTP service, a shell, a",
        "repository with tests. One knows the solutions, the other makes plausible mistakes.",
        "Every episode is one row: seed, actions, observations, rewards, state digests.",
    )
    problem = box_problem()
    if problem:
        print_line(f"(shell and code worlds are left out: {problem})")
    for suite, seeds in RECORDINGS:
        worlds = tuple(resolve_worlds(suite, {}))
        if problem and suite in ("shell-basics", "code-basics"):
            continue
        for agent in ("oracle", "wrong"):
            plan = Plan(worlds, parse_seeds(seeds), agent)
            with progress(f"{suite}, {agent}", plan.num_episodes) as advance:
                summary = record_plan(
                    plan, run.recorded, workers=run.workers, on_episode=lambda row: advance()
                )
            print_line(f"  {suite}: {summary.recording.recorded} episodes of agent {agent}")
    run.results["root"] = summary.manifest.root
    print_line(f"{summary.manifest.num_rows} episodes, root {summary.manifest.root[:16]}…")


@contextmanager
def _own_hub(run: Demo) -> Iterator[None]:
    """A Hub on this machine, which the stock Hugging Face clients talk to."""
    from crucible.commons import LocalHub

    with LocalHub(run.folder / "hub") as hub:
        os.environ.update(hub.env())
        yield


def _publish(run: Demo) -> None:
    from crucible.commons import PushOptions, pull_dataset, push_dataset

    _chapter(
        2,
        "Publish, and pull somewhere else",
        "A Hub was started on this machine. push re-runs everything first, then makes one commit;",
        "pull resolves a commit and checks every byte before anything is visible.",
    )
    pushed = push_dataset(run.recorded, REPO_ID, PushOptions(license="mit"))
    print_line(f"pushed {REPO_ID}: commit {pushed.commit[:12]}")
    pulled = pull_dataset(REPO_ID, local_dir=run.pulled)
    print_line(f"pulled to {pulled.path.name}/: root {pulled.root[:16]}… is the one recorded")


def _verify(run: Demo) -> VerificationReport:
    from crucible.dataset.folder import read_manifest
    from crucible.verification import verify_dataset

    _chapter(
        3,
        "Verify the stranger's dataset",
        "Are its rewards real? Every episode is run again from its seed and actions, and every",
        "recorded claim is compared with what came out.",
    )
    with progress("verifying", read_manifest(run.pulled).num_rows) as advance:
        report = verify_dataset(
            run.pulled, workers=run.workers, on_verdict=lambda verdict: advance()
        )
    print_report(report)
    run.results["verify"] = report.exit_code
    return report


def _tamper(run: Demo) -> None:
    from crucible.verification import verify_dataset

    _chapter(
        4,
        "Change one reward in a copy, and ask again",
        "Somebody makes one failed step look better. The file's hash gives it away, and the",
        "re-run says which step, which field, and what both values are.",
    )
    shutil.copytree(run.pulled, run.edited)
    print_line(f"edited: {_edit_one_reward(run.edited)}")
    report = verify_dataset(run.edited, workers=run.workers)
    print_report(report)
    run.results["tampered"] = report.exit_code


def _edit_one_reward(folder: Path) -> str:
    """Raise the first negative reward of the smallest shard to 1.0; says what was changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = min((folder / "data").glob("*.parquet"), key=lambda file: file.stat().st_size)
    table = pq.read_table(path)
    rows = table.to_pylist()
    index, step = next(
        (i, s) for i, row in enumerate(rows) for s in row["steps"] if s["reward"] < 0
    )
    old, step["reward"] = step["reward"], 1.0
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path, use_dictionary=False)
    return f"a reward of {old:g} became 1 in row {index} of {path.name}"


def _export(run: Demo, report: VerificationReport) -> None:
    from crucible.training import ExportOptions, export_dataset

    _chapter(
        5,
        "Export what was verified",
        "Only episodes that reproduced, in worlds that somebody you trust stands for, and here",
        "only those that reached their goal. Every row names the episode it comes from.",
    )
    summary = export_dataset(
        run.pulled, run.folder / "sft", options=ExportOptions(success=True), report=report
    )
    run.results["exported"] = summary.num_rows
    print_line(f"exported {summary.num_rows} chats to sft/")


def _train(run: Demo) -> None:
    _chapter(
        6,
        "Train on it",
        f"A tiny model, built from nothing, for {TRAINING_STEPS} steps of TRL's SFTTrainer:",
        "enough to see the loss fall, not to see it think.",
    )
    missing = [m for m in ("torch", "trl", "peft") if importlib.util.find_spec(m) is None]
    if missing:
        print_line("PyTorch and TRL are not installed. This adds the training:")
        print_line("  pip install 'crucible-rl[train]'")
        return
    from crucible.training import SFTOptions, train_sft

    result = train_sft(
        run.folder / "sft",
        model="tiny",
        output_dir=run.folder / "model",
        options=SFTOptions(max_steps=TRAINING_STEPS),
    )
    run.results["loss"] = (result.first_loss, result.last_loss)
    print_line(f"loss {result.first_loss:.2f} → {result.last_loss:.2f}; model in model/")


def _say_goodbye(run: Demo) -> None:
    name = os.path.relpath(run.folder)
    _chapter(7, "Look around", f"Everything is in {name}/:")
    for command in (
        f"crucible stats {name}/pulled",
        f"crucible show {name}/pulled --row 0",
        f"crucible replay {name}/pulled --row 0",
        f"crucible verify {name}/edited",
        f"crucible hub serve {name}/hub",
    ):
        print_line(f"  {command}")


COMMANDS = (demo,)
