# make lab        open the course in JupyterLab               (make lab ARGS=--no-browser  on a server)
# make test       proof in minutes that the course works       (make test ARGS="-k sampler")
# make test-all   that, and all that takes longer: half an hour
# make quick      a part of it for while you work: a minute   (make quick ARGS=-x)
# make selfcheck-long   every right answer and solution on cases of 200 seeds, on all cores (hours)
# make notebooks  build the notebooks from their sources      (make notebooks ARGS=03)
# make test-hub   a class on a JupyterHub: six learners, a deadlock in all at once (needs npm and a browser; minutes)
# make test-room  half a day with thirty simulated learners and a class board (needs a browser; minutes)
# make test-oldest    the lessons on the oldest packages that pyproject.toml allows, as on Colab (PYTHON=python3.13)
# make test-gpu   what only a machine with GPUs can tell: writes docs/gpu.md   (make test-gpu PART=1, 1 to 5)
# make platforms  all notebooks on other builds and releases of torch: writes docs/platforms.md   (ARGS=2.14.1)
# make records    run scenarios, hung runs and answers, and keep what the judges read    (ARGS="-k uneven")
# make mutants    break rules on purpose, and see whether a cheap test notices (ARGS="realranks.doctor.drift*")
# make site       the lessons and documents as web pages, in site/
# make bench      compare speed with other ways to start ranks
# make wheels     a folder with everything that the first run downloads, for a room without a network
# make lint       format the code and say what is wrong with it
# make lock       pin the newest versions that pyproject.toml allows
# make clean      remove all that make made, .venv included
#
# Needs only Python >= 3.11 and make. The first run creates .venv from requirements.lock; later ones start at once.
#
#   TORCH=2.14.1          another release of torch than the locked one, in an environment of its own (.venv-torch-2.14.1):
#                         make test TORCH=2.14.1
#   PYTHON=python3.12     take this Python and look for no other
#   TORCH_INDEX=ADDRESS   where to get torch from, for when pip would take the CUDA build (several GB) and you have
#                         no GPU: the address that pytorch.org's "Get started" page shows for pip and CPU. Needed
#                         only when .venv is made:   make lab TORCH_INDEX=ADDRESS
#   WHEELS=FOLDER         install from this folder, made by make wheels, and ask no network:   make lab WHEELS=wheels

.POSIX:
PYTHON =
TORCH_INDEX =
WHEELS =
PART =
ARGS =

TORCH =

# With TORCH, an environment of its own: .venv-torch-2.14.1
VENV = .venv$(TORCH:%=-torch-%)
BIN = $(VENV)/bin
READY = $(VENV)/.ready
BENCH_READY = $(VENV)/.ready-bench
# Only what a GPU build of torch brings along: torch pins these itself, and the CPU build has no use for them.
GPU_ONLY = ^(nvidia-|cuda-|triton==)
UV_COMPILE = $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --fork-strategy fewest \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet --upgrade

.PHONY: lab test test-all records quick test-oldest platforms test-gpu test-hub test-room mutants selfcheck-long notebooks site bench wheels lint lock clean

lab: $(READY)
	@exec $(BIN)/ddp-course lab $(ARGS)

# One run of pytest, so that its last line is the whole verdict: house rules (format, lint, types, notebooks match
# their sources) are tests like any other, and --nbval adds the notebooks, cell by cell. Three at a time on two cores:
# a third of a test is waiting, for ranks to start or deadlocks to be proved (WORKERS=0: one after the other). Images for
# containers often set PYTHONDONTWRITEBYTECODE: each of hundreds of processes would compile the course anew.
# Which tests are in which tier: tests/tiers.py; what each group proves: CONTRIBUTING.md.
WORKERS = 3
PYTEST = PYTHONDONTWRITEBYTECODE= PATH="$$PWD/$(BIN):$$PATH" $(BIN)/python -m pytest --nbval -n $(WORKERS) --dist loadscope
test: $(READY)
	@$(PYTEST) --tier first --durations 15 $(ARGS)
	@echo "Proved: every cell of every notebook, every judge on every record, and one of each door live. Only" \
		"make test-all runs all answers, scenarios, hung runs and doors live, and the browser."

test-all: $(READY)
	@$(PYTEST) --durations 30 $(ARGS)

# While you work: the unit tests (house rules and types among them), ranks driven from a kernel, one lesson.
quick: $(READY)
	@$(PYTEST) tests/unit tests/integration/test_kernel.py notebooks/00_first_ranks.ipynb $(ARGS)

records: $(READY)
	@PATH="$$PWD/$(BIN):$$PATH" $(BIN)/python -m tests.records -n $(WORKERS) --dist loadscope $(ARGS)

platforms: $(READY)
	@$(BIN)/python -m tests.platforms $(ARGS)

# Five parts of eight minutes each; what has failed is named, and the exit code is 1. Without a GPU every step says so.
test-gpu: $(READY)
	@PYTHONDONTWRITEBYTECODE= PATH="$$PWD/$(BIN):$$PATH" $(BIN)/python -m tools.gpu_day $(PART:%=--part %) $(ARGS)

# The oldest notebook packages and torch that the course allows, beside new ones of all else. What differs on such a torch is
# listed in docs/platforms.md. Old IPythons bring a package `tests`, which would be found instead of the one here.
OLDEST = .venv-oldest
test-oldest: $(OLDEST)/.ready
	@PYDEVD_DISABLE_FILE_VALIDATION=1 PATH="$$PWD/$(OLDEST)/bin:$$PATH" $(OLDEST)/bin/python -m pytest --nbval -n $(WORKERS) \
		--dist loadscope notebooks $(ARGS)

$(OLDEST)/.ready: pyproject.toml setup.py
	@set -e; python="$(PYTHON)"; "$${python:-python3}" -m venv --clear $(OLDEST); \
	floors=$$(sed -n 's/^    "\(torch\|ipykernel\|ipython\|ipywidgets\|jupyter-client\)>=\(.*\)",$$/\1==\2/p' pyproject.toml); \
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check $$floors "setuptools>=70.1,<82" wheel \
		"nbval>=0.11" "pytest>=8.3" "pytest-timeout>=2.3" "pytest-xdist>=3.6" "nbclient>=0.10" "tqdm>=4.66"; \
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e .; \
	rm -rf $(OLDEST)/lib/python*/site-packages/IPython/extensions/tests; \
	touch $@

# A task whose cases are unfair once in a hundred draws is unfair to one learner in a hundred, for good: the cases of an
# answer belong to its text. make test tries a few.
selfcheck-long: $(READY)
	@$(BIN)/ddp-course selfcheck --seeds 200 --only-right --jobs 0 $(ARGS)

notebooks: $(READY)
	@$(BIN)/ddp-course notebooks $(ARGS)

site: $(READY)
	@$(BIN)/ddp-course site $(ARGS)

bench: $(BENCH_READY)
	@PATH="$$PWD/$(BIN):$$PATH" $(BIN)/python -m benchmarks $(ARGS)

# The plan of docs/instructor.md, with simulated learners, a network that breaks and a board that is killed (docs/board.md).
test-room: $(READY)
	@PATH="$$PWD/$(BIN):$$PATH" $(BIN)/python -m benchmarks.half_day $(ARGS)

# A class on a real JupyterHub, with six learners and a deadlock in all at once, once over its API and once in a browser
# (docs/hub.md; ARGS="--only api" needs no browser). In an environment of its own, which sees the course's: the course does
# not depend on JupyterHub. Needs npm, for the hub's proxy.
HUB_READY = .venv-hub/.ready
test-hub: $(HUB_READY)
	@$(BIN)/python -m tests.hub.try_hub $(ARGS)

$(HUB_READY): $(READY)
	@set -e; \
	$(BIN)/python -m venv --clear .venv-hub; \
	.venv-hub/bin/python -m pip install --quiet --disable-pip-version-check jupyterhub jupyterhub-idle-culler; \
	packages='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	$(BIN)/python -c "$$packages" > "$$(.venv-hub/bin/python -c "$$packages")/course.pth"; \
	npm install --silent --prefix .venv-hub configurable-http-proxy; \
	touch $@

# CONTRIBUTING.md, "I want to run a part of the tests". In an environment of its own, which sees the course's; without PYTHONPATH,
# because the tests must import the changed files, which are in mutants/. mutmut results and mutmut show NAME tell more.
MUTANTS_READY = .venv-mutants/.ready
mutants: $(MUTANTS_READY)
	@env -u PYTHONPATH PATH="$$PWD/.venv-mutants/bin:$$PATH" nice -n 5 .venv-mutants/bin/python -m mutmut run $(ARGS)

$(MUTANTS_READY): $(READY)
	@set -e; \
	$(BIN)/python -m venv --clear .venv-mutants; \
	.venv-mutants/bin/python -m pip install --quiet --disable-pip-version-check mutmut==3.8.1; \
	packages='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	$(BIN)/python -c "$$packages" > "$$(.venv-mutants/bin/python -c "$$packages")/course.pth"; \
	touch $@

# For machines of this kind, with this Python; ARGS are options of pip download, which can also fetch for others. For Linux, the
# package index has torch with CUDA: where learners have no GPU, give TORCH_INDEX here, too. pip then prefers that build.
wheels: $(READY)
	@set -e; mkdir -p wheels; \
	if [ -n "$(TORCH_INDEX)" ]; then \
		$(BIN)/python -m pip download --quiet --no-deps --dest wheels --index-url "$(TORCH_INDEX)" \
			"$$(grep '^torch==' $(VENV)/requirements.lock)" $(ARGS); \
	fi; \
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --dest wheels --find-links wheels \
		-r $(VENV)/requirements.lock $(ARGS); \
	du -sh wheels; echo "On a machine without a network, in a copy of this folder:  make lab WHEELS=wheels"

lint: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy

# .ready is written last, so an interrupted installation is done again. matplotlib's list of fonts is made here
# because making it prints a warning, which would otherwise stand in the output of somebody's first figure.
$(READY): requirements.lock pyproject.toml setup.py
	@set -e; \
	good='import sys; sys.exit(sys.version_info < (3, 11))'; \
	if $(BIN)/python -c "$$good" 2>/dev/null && $(BIN)/python -m pip --version >/dev/null 2>&1; then :; else \
		names="$(PYTHON)"; names=$${names:-python3 python3.13 python3.12 python3.11 python}; found=; \
		for candidate in $$names; do \
			if "$$candidate" -c "$$good" 2>/dev/null; then found=$$candidate; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo "The course needs Python 3.11 or newer, and found none (looked for: $$names)." >&2; \
			echo "Install one, or name it:  make lab PYTHON=/path/to/python3.11" >&2; exit 1; \
		fi; \
		if ! "$$found" -c 'import ensurepip, venv' 2>/dev/null; then \
			echo "$$found cannot create virtual environments: its venv module is a package of its own here." >&2; \
			echo "Debian and Ubuntu:  apt-get install python3-venv   (for a second Python: python3.12-venv, for example)" >&2; exit 1; \
		fi; \
		echo "Creating $(VENV) with $$found (once; a few minutes)"; \
		"$$found" -m venv --clear $(VENV); \
	fi; \
	if [ -n "$(WHEELS)" ]; then \
		ls "$(WHEELS)"/*.whl >/dev/null 2>&1 || { echo "There are no wheels in $(WHEELS): 'make wheels' makes them." >&2; exit 1; }; \
		export PIP_NO_INDEX=1 PIP_FIND_LINKS="$(WHEELS)"; \
	fi; \
	sed 's/^torch==.*/torch==$(TORCH)/' requirements.lock > $(VENV)/requirements.lock; \
	if [ -z "$(TORCH)" ]; then cp requirements.lock $(VENV)/requirements.lock; fi; \
	if [ -n "$(TORCH_INDEX)" ]; then \
		$(BIN)/python -m pip install --quiet --no-deps --index-url "$(TORCH_INDEX)" \
			"$$(grep '^torch==' $(VENV)/requirements.lock)"; \
	fi; \
	echo "Installing requirements.lock$(TORCH:%= with torch %)"; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements.lock; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	$(BIN)/python -c 'import matplotlib.font_manager' 2>/dev/null; \
	touch $@

$(BENCH_READY): $(READY) requirements-bench.lock
	@grep -v '^-r ' requirements-bench.lock > $(VENV)/requirements-bench.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-r $(VENV)/requirements.lock -r $(VENV)/requirements-bench.lock
	@touch $@

# Two steps: what everybody installs, then what the benchmarks add to exactly that. torch stays at the release on which
# the lessons' claims were checked, until somebody raises it here and has looked at what make test then says.
LOCKED_TORCH = 2.13.0
lock: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@set -e; new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT; \
	echo "torch==$(LOCKED_TORCH)" > "$$new/torch"; \
	$(UV_COMPILE) --extra lab --extra test --extra site --constraint "$$new/torch" -o "$$new/all" >/dev/null; \
	{ echo "# Written by 'make lock' from pyproject.toml; Python 3.11 to 3.13, every system."; \
	  grep -Ev '$(GPU_ONLY)' "$$new/all"; } > "$$new/lock"; \
	$(UV_COMPILE) --extra bench --constraint "$$new/all" -o "$$new/bench" >/dev/null; \
	{ echo "# Written by 'make lock': what the benchmarks need beyond requirements.lock."; \
	  echo "-r requirements.lock"; \
	  grep -Ev '$(GPU_ONLY)' "$$new/bench" | awk -F== 'NR == FNR { have[$$1]; next } !($$1 in have)' "$$new/lock" -; \
	} > "$$new/bench.lock"; \
	cp "$$new/lock" requirements.lock; cp "$$new/bench.lock" requirements-bench.lock
	@echo "requirements.lock and requirements-bench.lock are written; 'make test' says whether they work"

clean:
	rm -rf .venv .venv-torch-* .venv-hub .venv-oldest .venv-mutants mutants wheels site build dist *.egg-info realranks/*.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -type d -prune -exec rm -rf {} +
