"""What is ready for GitHub works before anything is pushed: each workflow's steps, as far as they need no account."""

import email
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from course_lib.cli.app import COMMANDS
from realranks.cli.app import ENGINE
from tests.support.workflows import ADDRESS, ROOT, VERSION, WORKFLOWS, build_step, execute, jobs_of, released
from tests.unit.test_environment import MACHINES
from tests.unit.test_house import ours
from tools.release import DISTRIBUTIONS
from tools.repository import FILES, main, repository

TO_COPY = ROOT / "deploy/github-actions/notebooks.yml"
JOBS = {f"{path.stem}.{name}": job for path in WORKFLOWS for name, job in jobs_of(path).items()}
#: Jobs that may write, and what: none of them runs a line of the repository's.
MAY_WRITE = {"site.deploy": {"pages", "id-token"}, "release.publish": {"id-token"}}
PROJECTS = {
    name: tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
    for name, folder in DISTRIBUTIONS.items()
}


def lines() -> list[str]:
    """Every command of every workflow, with a matrix's own."""
    rows = [
        row for job in JOBS.values() for row in job.get("strategy", {}).get("matrix", {}).get("include", [])
    ]
    steps = [step for job in JOBS.values() for step in job.get("steps", [])]
    runs = [each["run"] for each in (*rows, *steps) if "run" in each]
    return sorted(line for run in runs for line in run.splitlines() if line != "${{ matrix.run }}")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    return released(tmp_path_factory)


@pytest.mark.parametrize("line", lines())
def test_a_command_of_a_workflow_is_one_that_works_here(line):
    """An installation is not run, but read; make says what it would run, and that is asked for its help."""
    words = [word for word in shlex.split(line) if not word.startswith("TORCH_INDEX=")]
    if words[:4] == ["python", "-m", "pip", "install"]:
        assert all(Requirement(word) for word in words[4:])
    elif words[:3] == ["python", "-m", "tools.release"]:
        assert line == build_step()["run"], "it is executed by the tests below"
    elif words[0] == "make":
        dry = [*words, "-n", *(["-o", ".venv/.ready"] if words[1] != ".venv/.ready" else [])]
        # make has run these tests; the one here is to say what a make of one's own does.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        would = subprocess.run(dry, cwd=ROOT, env=own, capture_output=True, text=True, check=False)
        assert would.returncode == 0, would.stderr
        if " -m pytest" in would.stdout:
            assert all((ROOT / word).exists() for word in "".join(words[2:]).removeprefix("ARGS=").split())
        elif words[1] != ".venv/.ready":
            (command,) = would.stdout.splitlines()
            course = [sys.executable, "-m", "course_lib.cli", *shlex.split(command)[1:], "--help"]
            assert subprocess.run(course, cwd=ROOT, capture_output=True, check=False).returncode == 0
    else:
        assert [line] == [".ci/run"]
        subprocess.run(["bash", "-n", line], cwd=ROOT, check=True)


def test_the_tests_run_on_each_python_that_is_promised():
    rows = JOBS["tests.tests"]["strategy"]["matrix"]["include"]
    on = sorted({row["python"] for row in rows})
    assert on == sorted({machine["python_version"] for machine in MACHINES})
    for each in PROJECTS.values():
        promised = [
            word.rpartition(" ")[2] for word in each["project"]["classifiers"] if ":: Python ::" in word
        ]
        assert promised == on
        assert all(SpecifierSet(each["project"]["requires-python"]).contains(version) for version in on)
    assert [row["python"] for row in rows if row["run"] == ".ci/run"] == [on[0]], "as the lessons were saved"


@pytest.mark.parametrize("name", JOBS)
def test_a_job_may_do_no_more_than_it_needs(name):
    job = JOBS[name]
    workflow = yaml.safe_load(
        (ROOT / f".github/workflows/{name.partition('.')[0]}.yml").read_text(encoding="utf-8")
    )
    assert workflow["permissions"] in ({}, {"contents": "read"})
    assert workflow["concurrency"]["group"]
    rights = job.get("permissions", workflow["permissions"])
    assert {right for right, kind in rights.items() if kind == "write"} == MAY_WRITE.get(name, set())
    assert "timeout-minutes" in job or "uses" in job
    used = [step.get("uses", "") for step in job.get("steps", [])]
    if name in MAY_WRITE:
        assert not any("run" in step for step in job["steps"])
        assert not any(action.startswith("actions/checkout@") for action in used)
    for step in job.get("steps", []):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        assert "${{" not in step.get("run", "").replace("${{ matrix.run }}", ""), (
            "an expression is no shell word"
        )
    assert "secrets." not in str(job)


def test_actions_are_github_s_own_by_major_version_or_others_by_commit():
    versions = defaultdict(set)
    for path in (*WORKFLOWS, TO_COPY):
        for used in re.findall(r"uses: (\S.*)", path.read_text(encoding="utf-8")):
            if used.startswith("./"):
                assert (ROOT / used).is_file()
                continue
            assert re.fullmatch(r"actions/[\w-]+@v\d+|[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", used), used
            action, _, version = used.partition("@")
            versions[action].add(version)
    assert {action: each for action, each in versions.items() if len(each) > 1} == {}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_release_builds_a_wheel_and_its_source_with_sound_metadata(built, name):
    publish = JOBS["release.publish"]
    assert publish["strategy"]["matrix"]["distribution"] == [*DISTRIBUTIONS]
    folder = built / publish["steps"][-1]["with"]["packages-dir"].replace("${{ matrix.distribution }}", name)
    stem = f"{name.replace('-', '_')}-{VERSION}"
    assert sorted(path.name for path in folder.iterdir()) == [f"{stem}-py3-none-any.whl", f"{stem}.tar.gz"]
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl") as wheel:
        of_wheel = wheel.read(f"{stem}.dist-info/METADATA")
    with tarfile.open(folder / f"{stem}.tar.gz") as source:
        (member,) = [each for each in source.getmembers() if each.name == f"{stem}/PKG-INFO"]
        of_source = source.extractfile(member).read()
    assert of_wheel == of_source
    found = Metadata.from_email(of_wheel, validate=True)
    assert (found.name, str(found.version), found.license_expression) == (name, VERSION, "BSD-3-Clause")
    assert found.project_urls == {"Repository": ADDRESS}
    assert (found.description_content_type, found.description[:2]) == ("text/markdown", "# ")
    assert email.message_from_bytes(of_wheel).defects == []


def test_a_build_leaves_nothing_but_what_is_published(built):
    there = {path.relative_to(built).parts[0] for path in built.rglob("*")}
    assert {name for name in there if not (ROOT / name).exists()} <= {"dist", "ddp_course.egg-info"}


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"GITHUB_REF_NAME": "v999.0"}, "the tag v999.0"),
        (
            {"GITHUB_REF_NAME": f"v{VERSION}", "GITHUB_REPOSITORY": "OWNER/OTHER"},
            "python -m tools.repository",
        ),
    ],
)
def test_nothing_is_built_for_another_tag_or_from_another_repository(built, variables, said):
    before = sorted((built / "dist").rglob("*"))
    ended = execute(build_step(), built, **variables)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "dist: it is there" in ended.stderr
    assert sorted((built / "dist").rglob("*")) == before


@pytest.mark.parametrize("missing", ["CHANGELOG.md", "CITATION.cff"])
def test_nothing_is_built_while_a_file_does_not_say_the_version(built, tmp_path, missing):
    for name in (*FILES, "CHANGELOG.md", "tools/__init__.py", "tools/release.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(built / name, tmp_path / name)
    text = (tmp_path / missing).read_text(encoding="utf-8")
    (tmp_path / missing).write_text(text.replace(VERSION, "999.0"), encoding="utf-8")
    ended = execute(build_step(), tmp_path, GITHUB_REF_NAME=f"v{VERSION}")
    assert (ended.returncode, ended.stderr.splitlines()[0].partition(":")[0]) == (1, missing)
    assert not (tmp_path / "dist").exists()


def test_the_address_is_written_into_every_file_that_needs_it_and_can_change(tmp_path, monkeypatch):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for address in ("https://github.com/OWNER/REPOSITORY", "https://git.example.org/group/course"):
        assert main([address]) == 0
        read = {name: (tmp_path / name).read_text(encoding="utf-8") for name in FILES}
        assert repository(tmp_path) == address
        assert tomllib.loads(read["realranks/pyproject.toml"])["project"]["urls"] == {"Repository": address}
        assert yaml.safe_load(read["CITATION.cff"])["repository-code"] == address
        badge = f"[![tests]({address}/actions/workflows/tests.yml/badge.svg)]({address}/actions/workflows/tests.yml)"
        assert badge in read["README.md"].splitlines()
        assert f"    %pip install -q git+{address}" in read["docs/pypi.md"].splitlines()
        assert f'REPOSITORY = \\"{address}\\"' in read["deploy/kaggle/kaggle_gpus.ipynb"]
        assert not any("ADDRESS" in text for text in read.values())
    for bad in (
        ["https://github.com/OWNER"],
        ["github.com/OWNER/NAME"],
        ["https://github.com/OWNER/NAME.git"],
        [],
    ):
        assert main(bad) == 2
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in FILES} == read


def test_the_address_stands_in_these_files_and_in_no_other():
    """While there is none, each of them has one place for it."""
    address = repository(ROOT) or "ADDRESS"
    assert [name for name in FILES if address not in (ROOT / name).read_text(encoding="utf-8")] == []
    if address != "ADDRESS":
        texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ours()}
        assert {name for name, text in texts.items() if address in text} <= {*FILES}


def test_the_citation_says_what_pyproject_and_the_licence_say():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = PROJECTS["ddp-course"]["project"]
    assert citation.keys() - {"repository-code", "date-released"} == {
        "cff-version", "message", "title", "abstract", "type", "authors", "version", "license"
    }  # fmt: skip
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert citation["abstract"] == project["description"]
    (author,) = citation["authors"]
    assert f", {author['name']}\n" in (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["claim", "verdict", "install"])
def test_an_issue_form_is_one_and_names_commands_that_exist(name):
    text = (ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text(encoding="utf-8")
    form = yaml.safe_load(text)
    assert form.keys() == {"name", "description", "body"}
    assert {field["type"] for field in form["body"]} <= {"input", "textarea"}
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len({*ids})
    assert any(field.get("validations") == {"required": True} for field in form["body"])
    assert all(field["attributes"]["label"] for field in form["body"])
    commands = re.findall(r"`(ddp-course|realranks) ([a-z]+)", text)
    known = {"ddp-course": COMMANDS, "realranks": ENGINE.modules}
    assert all(command in known[program] for program, command in commands)
    for target in re.findall(r"`make ([a-z-]+)", text):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert all((ROOT / page).is_file() for page in re.findall(r"docs/[\w-]+\.md", text))
