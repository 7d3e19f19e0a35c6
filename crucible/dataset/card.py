"""The dataset card: YAML that makes ``load_dataset`` read exactly the manifest's files, and a
generated block that states the root and the figures. A user's own text and keys stay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from crucible.dataset.manifest import Manifest
from crucible.dataset.stats import DatasetStats
from crucible.errors import FormatError, IntegrityError
from crucible.escaping import markdown_text

__all__ = ["CARD_PATH", "check_card", "check_figures", "front_matter", "render_card"]

CARD_PATH = "README.md"
MAX_CARD_BYTES = 4 * 1024 * 1024

NOT_REPLAYED = "Nothing in this dataset has been replayed by its publisher."

_BEGIN, _END = "<!-- crucible:begin -->", "<!-- crucible:end -->"
_TAGS = ["crucible", "trajectories", "agent-traces", "reinforcement-learning", "rl-environment"]
_REPO_ID = r"[\w.-]+(?:/[\w.-]+)?"
_REPLAY_LINE = re.escape(NOT_REPLAYED) + (
    r"|Before publishing, all \d+ episodes were re-run with Crucible [\w.+-]+ and every claim came "
    r"out equal\. That is the publisher's word: verify it\."
)
_STATED = re.compile(r"^(root|manifest): `([0-9a-f]{64})`$", re.MULTILINE)


def render_card(
    manifest: Manifest,
    stats: DatasetStats,
    *,
    previous: str | None = None,
    repo_id: str = "REPO_ID",
    replay_line: str = NOT_REPLAYED,
    keys: Mapping[str, Any] | None = None,
) -> str:
    """The card of a dataset.

    ``previous`` is the card to keep foreign keys and text of; ``keys`` are added to the YAML
    (a licence, for example); ``replay_line`` says what its publisher replayed.
    """
    import yaml

    front, body = _split(previous) if previous else ({}, None)
    front = {key: value for key, value in front.items() if not _is_evaluated(key)}
    front.update(keys or {})
    front["configs"] = _configs(manifest)
    front["tags"] = list(dict.fromkeys([*_TAGS, *_list(front.get("tags"))]))
    front.setdefault("task_categories", ["reinforcement-learning"])
    generated = _block(manifest, stats, replay_line).replace("REPO_ID", repo_id)
    block = f"{_BEGIN}\n{generated}\n{_END}"
    if body is None:
        body = f"\n# Trajectories\n\n{block}\n"
    elif _BEGIN in body and _END in body:
        head, _, rest = body.partition(_BEGIN)
        body = head + block + rest.partition(_END)[2]
    else:
        body = f"{body.rstrip()}\n\n{block}\n"
    text = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
    return f"---\n{text}---\n{body}"


def check_card(text: str, manifest: Manifest) -> None:
    """Nothing, if the card loads the manifest's files and states its root and digest.

    Raises:
        FormatError: if the card has no readable YAML.
        IntegrityError: if it loads something else or states another root.
    """
    front = front_matter(text)
    evaluated = [key for key in front if _is_evaluated(key)]
    if evaluated:
        raise IntegrityError(f"{CARD_PATH}: {evaluated[0]!r:.40} changes what load_dataset gives")
    if front.get("configs") != _configs(manifest):
        raise IntegrityError(
            f"{CARD_PATH}: configs load something else than the files in the manifest"
        )
    expected = [("root", manifest.root), ("manifest", manifest.digest)]
    stated = _STATED.findall(text)
    if stated != expected:
        raise IntegrityError(f"{CARD_PATH}: expected {_pairs(expected)}, found {_pairs(stated)}")


def check_figures(text: str, manifest: Manifest, stats: DatasetStats) -> None:
    """Nothing, if the generated block of the card is what the rows give, whatever the publisher
    says of his replay.

    Raises:
        IntegrityError: if it is not.
    """
    found = text.partition(_BEGIN)[2].partition(_END)[0].strip("\n").split("\n")
    expected = _block(manifest, stats, "").split("\n")
    if text.count(_BEGIN) != 1 or text.count(_END) != 1 or len(found) != len(expected):
        raise IntegrityError(f"{CARD_PATH}: its generated block is not the one of these rows")
    for line, wanted in zip(found, expected, strict=True):
        pattern = re.escape(wanted).replace("REPO_ID", _REPO_ID) if wanted else _REPLAY_LINE
        if line != wanted and not re.fullmatch(pattern, line):
            raise IntegrityError(
                f"{CARD_PATH}: its generated block is not the one of these rows: expected "
                f"{wanted!r:.200}, found {line!r:.200}"
            )


def _is_evaluated(key: object) -> bool:
    """Whether ``datasets`` acts on a key of the YAML, ``configs`` aside."""
    return "dataset_info" in str(key) or ("config" in str(key) and key != "configs")


def _pairs(pairs: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {digest}" for name, digest in pairs) or "no digests"


def front_matter(text: str) -> dict[str, Any]:
    """The YAML at the top of a card.

    Raises:
        FormatError: if there is none or it cannot be read.
    """
    return _split(text)[0]


def _split(text: str) -> tuple[dict[str, Any], str]:
    import yaml

    # Exactly one way to read it: the Hub's client and ours look for the end by different rules.
    lines = text.split("\n")
    end = next((i for i, line in enumerate(lines) if i and line.startswith("---")), None)
    if lines[0] != "---" or end is None or lines[end] != "---":
        raise FormatError(f"{CARD_PATH} does not begin with YAML between two --- lines")
    yaml_text = "\n".join(lines[1:end])
    if not yaml_text.replace("\n", "").replace("\t", "").isprintable():
        raise FormatError(f"{CARD_PATH}: the YAML holds a control character or line separator")

    class Strict(yaml.SafeLoader):
        """Refuses a key that occurs twice, of which readers would take different ones."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value]
            if len(set(map(str, keys))) != len(keys):
                raise yaml.YAMLError(f"a key occurs twice{node.start_mark}")
            return super().construct_mapping(node, deep)

    try:
        front = yaml.load(yaml_text, Loader=Strict)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise FormatError(f"{CARD_PATH}: the YAML cannot be read: {error}") from None
    if not isinstance(front, dict):
        raise FormatError(f"{CARD_PATH}: the YAML is not a mapping")
    return front, "\n".join(lines[end + 1 :])


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _configs(manifest: Manifest) -> list[dict[str, Any]]:
    configs: list[dict[str, Any]] = []
    for config in ("trajectories", "worlds"):
        files: dict[str, list[str]] = {}
        for shard in manifest.shards_of(config):
            files.setdefault(shard.split, []).append(shard.path)
        entry: dict[str, Any] = {"config_name": config}
        if config == "trajectories":
            entry["default"] = True
        entry["data_files"] = [{"split": s, "path": paths} for s, paths in files.items()]
        configs.append(entry)
    return configs


def _block(manifest: Manifest, stats: DatasetStats, replay_line: str) -> str:
    lines = [
        _summary(manifest, stats),
        "",
        f"root: `{manifest.root}`",
        f"manifest: `{manifest.digest}`",
        "",
        replay_line,
        "",
        *_table(stats),
        "",
        "Check it, load it, train on it:",
        "",
        "```bash",
        "crucible verify REPO_ID          # re-run every episode, compare every claim",
        "crucible pull REPO_ID            # a copy whose bytes were checked",
        "crucible export REPO_ID --format sft --out sft    # verified episodes only",
        "```",
        "",
        "A reproduced dataset proves that these environments give these observations and rewards "
        "for these actions. It does not prove who acted, nor that the publisher showed every run.",
    ]
    return "\n".join(lines)


def _summary(manifest: Manifest, stats: DatasetStats) -> str:
    planned = sum(recording.planned for recording in manifest.recordings)
    withheld = sum(recording.withheld for recording in manifest.recordings)
    return (
        f"{stats.num_rows} episodes in {len(manifest.worlds)} worlds, recorded with Crucible: "
        "every one holds the seed and actions that re-run it. "
        f"Planned attempts: {planned}; withheld: {withheld}; "
        f"distinct transcripts: {stats.num_transcripts}."
    )


def _table(stats: DatasetStats) -> list[str]:
    lines = [
        "| world | agent | episodes | distinct | success | mean reward | mean steps |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for group in stats.groups:
        success = "–" if group.success_rate is None else f"{group.success_rate:.0%}"
        lines.append(
            f"| {markdown_text(group.world)} | {markdown_text(group.agent)} | {group.episodes} "
            f"| {group.transcripts} | {success} | {group.mean_reward:.3f} "
            f"| {group.mean_steps:.1f} |"
        )
    return lines
