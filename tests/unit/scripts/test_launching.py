"""Who starts a script's ranks is read from the script: from what its own process calls, not from what it passes on."""

import pytest

from realranks.scripts.launching import starts_its_ranks
from tests.scenarios.catalogue import FOLDER

SPAWN = """
def worker(rank):
    dist.init_process_group("gloo", rank=rank, world_size=2)

if __name__ == "__main__":
    mp.spawn(worker, nprocs=2)
"""
FUNCTION_IS_A_PARAMETER = """
def worker(rank):
    dist.init_process_group("gloo", rank=rank, world_size=2)

def run_demo(demo):
    torch.multiprocessing.start_processes(demo, nprocs=2)

for demo in (worker, worker):
    run_demo(demo)
"""
PROCESS_PER_RANK = """
def worker(rank, run):
    init_process_group("gloo", rank=rank, world_size=2)
    run(rank)

for rank in range(2):
    ctx.Process(target=worker, args=(rank, print)).start()
"""
PROCESS_CLASS = """
class Worker(mp.Process):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank
    def run(self):
        dist.init_process_group("gloo", rank=self.rank, world_size=2)

workers = [Worker(rank) for rank in range(2)]
"""
NAMED_LIKE_A_METHOD = """
def join(rank):
    dist.init_process_group("gloo", rank=rank, world_size=2)

processes = [Process(target=join, args=(rank,)) for rank in range(2)]
for process in processes:
    process.join()
"""
HELPER = """
def write(lines):
    print(lines.get())

def main():
    Process(target=write, args=(lines,)).start()
    dist.init_process_group("gloo")

main()
"""
BOTH = """
def worker(rank):
    dist.init_process_group("gloo", rank=rank, world_size=2)

if "LOCAL_RANK" in os.environ:
    worker(int(os.environ["LOCAL_RANK"]))
else:
    mp.spawn(worker, nprocs=2)
"""
PASSED_TO_A_LIBRARY = """
def main(arguments):
    Process(target=print).start()
    dist.init_process_group("gloo")

app.run(main)
"""
IN_A_METHOD = """
class Trainer:
    def fit(self):
        self.set_up()
    def set_up(self):
        Process(target=print).start()
        dist.init_process_group("gloo")

Trainer().fit()
"""
IN_A_CONSTRUCTOR = """
class Trainer:
    def __init__(self):
        Process(target=print).start()
        dist.init_process_group("gloo")

Trainer()
"""
NO_PROCESSES = """
dist.init_process_group("gloo")
"""


@pytest.mark.parametrize(
    "text",
    [SPAWN, FUNCTION_IS_A_PARAMETER, PROCESS_PER_RANK, PROCESS_CLASS, NAMED_LIKE_A_METHOD],
    ids=range(5),
)
def test_a_script_whose_processes_join_starts_its_ranks(tmp_path, text):
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    assert starts_its_ranks(str(script))


@pytest.mark.parametrize(
    "text", [HELPER, BOTH, PASSED_TO_A_LIBRARY, IN_A_METHOD, IN_A_CONSTRUCTOR, NO_PROCESSES], ids=range(6)
)
def test_a_script_that_joins_itself_does_not(tmp_path, text):
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    assert not starts_its_ranks(str(script))


def test_modules_of_its_folder_are_read_with_it(tmp_path):
    package = tmp_path / "project"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "launch.py").write_text(
        "def launch(fn):\n    mp.spawn(fn, nprocs=2)\n\nif __name__ == '__main__':\n    worker()\n",
        encoding="utf-8",
    )
    script = tmp_path / "train.py"
    worker = "def worker(rank):\n    dist.init_process_group('gloo')\n\n"
    script.write_text(f"from project.launch import launch\n\n{worker}launch(worker)\n", encoding="utf-8")
    assert starts_its_ranks(str(script))
    script.write_text(f"from project import launch\n\n{worker}worker(0)\n", encoding="utf-8")
    assert not starts_its_ranks(str(script))
    (package / "init.py").write_text("def join():\n    dist.init_process_group()\n", encoding="utf-8")
    script.write_text("from project import init, launch\n\ninit.join()\n", encoding="utf-8")
    assert not starts_its_ranks(str(script))


def test_of_the_scenarios_those_start_their_ranks_that_say_so():
    found = {path.stem for path in FOLDER.glob("*/*.py") if starts_its_ranks(str(path))}
    assert found == {
        "processes_more_than_ranks",
        "processes_one_rank_sends",
        "processes_with_a_queue",
        "registered_at_the_top",
        "registered_under_main",
        "settings_under_main",
        "spawn",
        "spawn_a_local_function",
        "spawn_early_return",
        "spawn_one_rank_raises",
        "spawn_same_port",
        "spawn_twice",
        "spawn_without_addresses",
        "starts_ranks_at_import",
    }
