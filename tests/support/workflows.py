"""Read the workflows of .github, execute their steps here as a runner would, and build a release."""

import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
OWNER, NAME = "OWNER", "REPOSITORY"
ADDRESS = f"https://github.com/{OWNER}/{NAME}"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
_COPIED = ("course_lib", "realranks", "notebooks", "exercises", "solutions", "docs", "tools", "deploy/kaggle")


def jobs_of(path: Path) -> dict[str, dict[str, Any]]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]


def execute(step: dict[str, Any], checkout: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step's `run` in this Python's environment, as GitHub does: in bash, which stops at an error."""
    on_runner = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": f"{OWNER}/{NAME}"}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ours = (
        "PYTHONPATH",
        "MAKEFLAGS",
        "MAKELEVEL",
        "MFLAGS",
    )  # a make that is run by a make says where it enters
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=checkout,
        env={**clean, **on_runner, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def build_step() -> dict[str, Any]:
    """The step of release.yml that checks and builds."""
    steps = jobs_of(ROOT / ".github/workflows/release.yml")["build"]["steps"]
    (step,) = [step for step in steps if "tools.release" in step.get("run", "")]
    return step


def copy_ready_for_release(to: Path) -> Path:
    """Copy the checkout as it is when somebody has done what CONTRIBUTING.md asks for before a tag."""
    for path in (*map(ROOT.joinpath, _COPIED), *(each for each in ROOT.iterdir() if each.is_file())):
        copy = to / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            shutil.copy(path, copy)
        else:
            shutil.copytree(path, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "scratch"))
    subprocess.run([sys.executable, "-m", "tools.repository", ADDRESS], cwd=to, check=True)
    log = to / "CHANGELOG.md"
    log.write_text(
        log.read_text(encoding="utf-8").replace("[Unreleased]", f"[{VERSION}]", 1), encoding="utf-8"
    )
    return to


def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout in which the release workflow has built; the workers of one run share it."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "release"
    shared.mkdir(exist_ok=True)
    checkout, done = shared / "checkout", shared / "done"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(checkout, ignore_errors=True)
            copy_ready_for_release(checkout)
            ended = execute(build_step(), checkout, GITHUB_REF_NAME=f"v{VERSION}")
            assert ended.returncode == 0, ended.stderr
            done.touch()
    return checkout
