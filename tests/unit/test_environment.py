"""The three places that say what the course needs agree: pyproject.toml, environment.yml and the locks."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.support.courses import course, run_cells

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCKS = ["requirements.lock", "requirements-bench.lock"]
# Oldest and newest Python that the lock is made for, and every system the README names.
MACHINES = [
    {"python_version": minor, "python_full_version": f"{minor}.9", "sys_platform": system, "os_name": os_name}
    for minor in ("3.11", "3.12", "3.13")
    for system, os_name in (("linux", "posix"), ("darwin", "posix"), ("win32", "nt"))
]


def ranges(lines: list[str]) -> dict[str, SpecifierSet]:
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in parsed}


def pins(lock: str) -> list[Requirement]:
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-r"))]


def installed_on(machine: dict[str, str], *locks: str) -> dict[str, str]:
    """Name -> the one exact version that these locks install on such a machine."""
    chosen: dict[str, str] = {}
    for pin in (pin for lock in locks for pin in pins(lock)):
        if pin.marker is None or pin.marker.evaluate(machine):
            (exact,) = pin.specifier
            assert exact.operator == "=="
            name = canonicalize_name(pin.name)
            assert name not in chosen, f"{name} is pinned twice for {machine}"
            chosen[name] = exact.version
    return chosen


def conda() -> dict:
    return yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))


def test_environment_yml_takes_the_packages_of_pyproject_and_nbval():
    (through_pip,) = [entry["pip"] for entry in conda()["dependencies"] if isinstance(entry, dict)]
    assert through_pip[0] == "-e .[lab]"
    (nbval,) = ranges(through_pip[1:]).items()
    assert nbval in ranges(PROJECT["optional-dependencies"]["test"]).items()
    (torch,) = [each for each in conda()["dependencies"] if str(each).startswith("pytorch-cpu")]
    assert torch.replace("pytorch-cpu", "torch") in PROJECT["dependencies"]  # as conda calls it, without CUDA


def test_environment_yml_asks_for_the_same_python_as_pyproject():
    (python,) = [Requirement(e) for e in conda()["dependencies"] if str(e).startswith("python")]
    assert python.specifier == SpecifierSet(PROJECT["requires-python"])


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m['sys_platform']}-{m['python_version']}")
def test_the_lock_satisfies_pyproject(machine):
    extras = PROJECT["optional-dependencies"]
    for locks, asked in (
        (LOCKS[:1], PROJECT["dependencies"] + extras["lab"] + extras["test"]),
        (LOCKS, extras["bench"]),
    ):
        installed = installed_on(machine, *locks)
        for name, allowed in ranges(asked).items():
            assert name in installed, f"{name} is not in {locks}: run 'make lock'"
            assert allowed.contains(installed[name]), (
                f"{name} {installed[name]} is locked, {allowed} asked for"
            )


def test_torch_is_locked_to_the_tested_release_in_no_particular_build():
    (torch,) = [pin for pin in pins("requirements.lock") if pin.name == "torch"]
    assert str(torch) == "torch==2.13.0"
    assert Requirement(str(torch)).specifier.contains("2.13.0+cpu"), "the CPU build has to satisfy it as well"


def test_reading_a_notebook_builds_no_grammar_of_web_addresses():
    """What builds it takes a second of computing to be imported: with nbformat, and in each Jupyter server."""
    assert "rfc3987-syntax" not in {pin.name for lock in LOCKS for pin in pins(lock)}


@pytest.mark.parametrize("file", [*LOCKS, "environment.yml"])
def test_no_place_to_install_from_is_written_down(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    assert "://" not in text
    assert "index-url" not in text
    assert "find-links" not in text


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_leaves_the_gpu_libraries_to_torch(lock):
    gpu_only = [pin.name for pin in pins(lock) if pin.name.startswith(("nvidia-", "cuda-", "triton"))]
    assert gpu_only == []


def test_binder_takes_conda_s_cpu_build_of_torch_and_all_else_from_the_lock():
    asked = yaml.safe_load((ROOT / ".binder" / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    (torch,) = [Requirement(each) for each in asked if each.startswith("pytorch-cpu")]
    (locked,) = [pin for pin in pins("requirements.lock") if pin.name == "torch"]
    assert torch.specifier.contains(str(locked.specifier).removeprefix("=="))
    assert "python=3.11" in asked
    build = (ROOT / ".binder" / "postBuild").read_text(encoding="utf-8")
    assert "grep -v '^torch==' requirements.lock" in build


def test_no_file_names_the_host_of_a_registry():
    """Who installs decides where from; a course that names a host fails with it."""
    registries = re.compile(
        r"\b(?:download\.pytorch\.org|pypi\.org|mcr\.|ghcr\.io|quay\.io|docker\.io|npmjs)"
    )
    folders = (".binder", ".devcontainer", ".github", "deploy", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [ROOT / name for name in ("Makefile", "README.md", "environment.yml", "pyproject.toml", *LOCKS)]
    assert [path.name for path in files if registries.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "file", [".binder/postBuild", ".binder/start", ".devcontainer/install", "deploy/zero-to-jupyterhub/start"]
)
def test_what_a_container_runs_can_be_run(file):
    assert os.access(ROOT / file, os.X_OK)
    assert (ROOT / file).read_text(encoding="utf-8").startswith("#!/bin/")


def test_binder_and_dev_containers_open_the_learner_s_copy(tmp_path):
    """The notebooks of a checkout hold the answers."""
    checkout = course(tmp_path / "course")
    run_cells(checkout / "notebooks/03_samplers.ipynb")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DDP_COURSE")}
    here = str(Path(sys.executable).parent)
    done = subprocess.run(
        [
            ROOT / ".binder/start",
            "sh",
            "-c",
            "echo $DDP_COURSE_MAX_RANKS; cat learner/notebooks/03_samplers.ipynb",
        ],
        cwd=checkout,
        env=clean | {"HOME": str(tmp_path / "home"), "PATH": os.pathsep.join([here, clean["PATH"]])},
        capture_output=True,
        text=True,
        check=True,
    )
    ranks, _, notebook = done.stdout.partition("\n")
    assert ranks == "8"
    assert not any(cell.get("outputs") for cell in json.loads(notebook)["cells"])
    index = "learner/notebooks/index.ipynb"
    assert (checkout / index).is_file()
    assert f"urlpath=lab/tree/{index}" in (ROOT / "docs/hub.md").read_text(encoding="utf-8")
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert container["customizations"]["codespaces"]["openFiles"] == [index]
    assert "ddp-course lab --only-copy" in (ROOT / container["postCreateCommand"]).read_text(encoding="utf-8")
