"""The three places that say what the course needs agree: pyproject.toml, environment.yml and the locks."""

import os
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

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


def test_environment_yml_asks_for_the_same_packages_and_ranges_as_pyproject():
    (through_pip,) = [entry["pip"] for entry in conda()["dependencies"] if isinstance(entry, dict)]
    assert ranges([line for line in through_pip if line != "-e ."]) == ranges(PROJECT["dependencies"])
    assert "-e ." in through_pip, "course_lib itself must be installed too"


def test_environment_yml_asks_for_the_same_python_as_pyproject():
    (python,) = [Requirement(e) for e in conda()["dependencies"] if str(e).startswith("python")]
    assert python.specifier == SpecifierSet(PROJECT["requires-python"])


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m['sys_platform']}-{m['python_version']}")
def test_the_lock_satisfies_pyproject(machine):
    extras = PROJECT["optional-dependencies"]
    for locks, asked in (
        (LOCKS[:1], PROJECT["dependencies"] + extras["test"]),
        (LOCKS, PROJECT["dependencies"] + extras["test"] + extras["bench"]),
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


def test_binder_takes_the_cpu_build_of_the_locked_torch_and_the_lock():
    lines = (ROOT / ".binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    (torch,) = [Requirement(line) for line in lines if line.startswith("torch")]
    (locked,) = [pin for pin in pins("requirements.lock") if pin.name == "torch"]
    assert str(torch) == f"{locked}+cpu"
    (lock,) = [line.removeprefix("-r ") for line in lines if line.startswith("-r ")]
    assert (ROOT / ".binder" / lock).resolve() == ROOT / "requirements.lock"
    assert (ROOT / ".binder" / "runtime.txt").read_text(encoding="utf-8").strip() == "python-3.11"


@pytest.mark.parametrize(
    "file", [".binder/postBuild", ".binder/start", ".devcontainer/install", "deploy/zero-to-jupyterhub/start"]
)
def test_what_a_container_runs_can_be_run(file):
    assert os.access(ROOT / file, os.X_OK)
    assert (ROOT / file).read_text(encoding="utf-8").startswith("#!/bin/")
