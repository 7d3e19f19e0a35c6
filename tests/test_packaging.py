"""The mapping of five folders to one import name, and the direction of imports."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = PROJECT["tool"]["setuptools"]["package-dir"]
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]
LAYERS = {"crucible": 0, "crucible.envs": 1, "crucible.commons": 1, "crucible.training": 1}
LAYERS["crucible.cli"] = 2


def packages_on_disk() -> set[str]:
    found = set()
    for package, folder in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT / folder).parts
            found.add(".".join((package, *parts)))
    return found


def test_every_package_on_disk_is_in_the_wheel() -> None:
    assert packages_on_disk() == set(PACKAGES)


@pytest.mark.parametrize("package", FOLDERS)
def test_every_package_is_loaded_from_its_own_folder(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    assert Path(module.__file__).parent == ROOT / FOLDERS[package]


def test_nothing_in_the_core_shadows_another_layer() -> None:
    names = [name.partition(".")[2] for name in FOLDERS if "." in name]
    assert [name for name in names if (ROOT / "crucible" / name).exists()] == []


def layer_of(module: str) -> str:
    return max((p for p in LAYERS if module == p or module.startswith(f"{p}.")), key=len)


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.partition(".")[0] == "crucible"}


@pytest.mark.parametrize("package", FOLDERS)
def test_imports_point_inward(package: str) -> None:
    wrong = []
    for path in (ROOT / FOLDERS[package]).rglob("*.py"):
        for imported in imports_of(path):
            target = layer_of(imported)
            if target != package and LAYERS[target] >= LAYERS[package]:
                wrong.append(f"{path.relative_to(ROOT)} imports {imported}")
    assert wrong == []


HEAVY = ["torch", "trl", "transformers", "datasets", "typer", "rich", "ray", "gradio", "pyarrow"]


def test_import_crucible_stays_light() -> None:
    code = (
        "import sys, crucible; from crucible import rollout, replay, Environment; "
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_are_sorted_and_there() -> None:
    for package in FOLDERS:
        module = importlib.import_module(package)
        names = module.__all__
        assert names == sorted(names), package
        assert [name for name in names if not hasattr(module, name)] == []


SIZES = {"function": 50, "file": 500}


def test_functions_and_files_stay_inside_the_house_sizes() -> None:
    long = []
    for folder in FOLDERS.values():
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            if text.count("\n") > SIZES["file"]:
                long.append(str(path))
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    length = (node.end_lineno or node.lineno) - node.lineno + 1
                    if length > SIZES["function"]:
                        long.append(f"{path}:{node.name}")
    assert long == []
