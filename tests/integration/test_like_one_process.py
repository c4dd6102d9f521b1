"""`doctor --like-one-process`: the first gradients of real ranks beside those of one process with all their rows."""

import json

import pytest
from typer.testing import CliRunner

from course_lib.cli.app import application
from realranks.scripts.like_one_process import compare_with_one_process

SCRIPT = """
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

how = sys.argv[1]
dist.init_process_group("gloo")
ranks = dist.get_world_size()
generator = torch.Generator().manual_seed(1)
data = TensorDataset(torch.randn(60, 8, generator=generator), torch.randn(60, 1, generator=generator))
size = 4 if how == "rows" and dist.get_rank() == 1 else 8
loader = DataLoader(data, batch_size=size, sampler=DistributedSampler(data))
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4))
model = DDP(net if how != "alone" else nn.Sequential(nn.Linear(8, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
apart = how in ("norm_logged", "clipped_apart", "averaged_by_hand")
micro = 2 if apart else {"accumulates": 2, "for_the_ranks": 4 // ranks}.get(how, 1)
for step, (x, y) in enumerate(loader, 1):
    if how == "own_rows":
        x, y = (part[:6] for part in data[6 * dist.get_rank() :])
    if how == "own_noise":
        own = torch.Generator().manual_seed(dist.get_rank())
        x = x + torch.randn(x.shape, generator=own)
    if how == "noise":
        x = x + torch.randn_like(x)
    if how == "no_sync":
        model.require_backward_grad_sync = False  # as within no_sync()
    if apart:
        model.require_backward_grad_sync = step % micro == 0 and how != "averaged_by_hand"
    out = model(x)
    loss = nn.functional.mse_loss(out[:, :1], y, reduction="sum" if how == "sum" else "mean")
    if how == "masked":
        mask = (x[:, :1] > 0.7).float()
        loss = ((out[:, :1] - y).square() * mask).sum() / mask.sum()
    if how == "divided":
        loss = loss / ranks
    if how == "multiplied":
        loss = loss * ranks
    (loss / micro).backward()
    if how == "clipped":
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    if how == "norm_logged":
        nn.utils.clip_grad_norm_(model.parameters(), float("inf") if step % micro else 0.01)
    if how == "clipped_apart":
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    if how == "averaged_by_hand" and step % micro == 0:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= ranks
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    if step % micro == 0:
        optimizer.step()
        optimizer.zero_grad()
print("the script has gone on")
dist.destroy_process_group()
"""


#: Rows that are compared with those of all ranks.
GATHERS = """
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

how = sys.argv[1]
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
data = TensorDataset(torch.randn(60, 8))
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))


class Own(torch.autograd.Function):
    @staticmethod
    def forward(context, rows):
        rows = rows.contiguous()
        parts = [torch.zeros_like(rows) for _ in range(ranks)]
        dist.all_gather(parts, rows)
        return torch.cat(parts)

    @staticmethod
    def backward(context, gradient):
        dist.all_reduce(gradient)
        return gradient.chunk(ranks)[rank]


def of_all(rows):
    if how == "own_function":
        return Own.apply(rows)
    if how == "torch_function":
        return torch.cat(dist.nn.functional.all_gather(rows))
    parts = [torch.zeros_like(rows) for _ in range(ranks)]
    work = dist.all_gather(parts, rows, async_op=how == "async")
    if how == "async":
        work.wait()
    if how == "own_part":
        parts[rank] = rows
    return torch.cat(parts)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 4)
        self.temperature = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.encoder(x), self.temperature.exp()


model = DDP(Net(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in loader:
    rows, temperature = model(x)
    everything = of_all(rows)
    if how == "own_part":
        temperature = temperature.detach()  # every rank has all of its gradient
    scores = everything @ everything.T * temperature
    if how == "own_part":
        loss = ranks * nn.functional.cross_entropy(scores, torch.arange(len(scores)))
    elif how == "nothing_comes_back":
        loss = nn.functional.cross_entropy(scores, torch.arange(len(scores)))
    elif how == "for_the_log":
        loss = rows.square().mean()
    else:
        scores = rows @ everything.T * temperature
        loss = nn.functional.cross_entropy(scores, torch.arange(len(x)) + rank * len(x))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.fixture
def script(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(SCRIPT, encoding="utf-8")
    return str(file)


def compared(script, how, ranks=3):
    return compare_with_one_process(script, [how], ranks=ranks, method="forkserver")


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        ("right", 24),
        ("clipped", 24),
        ("accumulates", 48),
        ("norm_logged", 48),
        ("averaged_by_hand", 48),
        ("alone", 24),
    ],
)
def test_ranks_that_train_like_one_process(script, how, rows):
    found = compared(script, how)
    assert found.outcome.diagnosis is None
    assert found.checked[0] == f"the gradients are those of one process with the {rows} rows of all ranks"
    off = ("switched off for that: batch normalisation and dropout",) if how != "alone" else ()
    assert found.checked[1:] == off
    assert not any("gone on" in text for text in found.outcome.stdout.values())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("divided", "1/3 of those"),
        ("sum", "1/3 of those"),
        ("multiplied", "3 times those"),
        ("rows", "the ranks had 8 and 4 and 8 rows"),
        ("masked", "the loss is no mean over rows"),
        ("no_sync", "not the same on all ranks"),
        ("clipped_apart", "each rank clips its own gradients"),
    ],
)
def test_how_they_differ_is_named(script, how, words):
    found = compared(script, how)
    assert found.outcome.diagnosis.kind == "unlike_one_process"
    assert words in found.outcome.diagnosis.summary
    assert not found.sound


@pytest.mark.parametrize("how", ["own_function", "torch_function", "own_part", "for_the_log"])
def test_rows_of_all_ranks_that_are_gathered_with_their_gradients(tmp_path, how):
    (tmp_path / "gathers.py").write_text(GATHERS, encoding="utf-8")
    found = compared(str(tmp_path / "gathers.py"), how, ranks=2)
    assert found.outcome.diagnosis is None
    assert found.checked == ("the gradients are those of one process with the 16 rows of all ranks",)


@pytest.mark.parametrize("how", ["without_gradient", "async", "nothing_comes_back"])
def test_a_gather_that_passes_no_gradient_on_is_named(tmp_path, how):
    (tmp_path / "gathers.py").write_text(GATHERS, encoding="utf-8")
    found = compared(str(tmp_path / "gathers.py"), how, ranks=2)
    assert found.outcome.diagnosis.kind == "unlike_one_process"
    assert "no gradient comes back through the collective at gathers.py" in found.outcome.diagnosis.summary


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("noise", "the step draws random numbers"),
        ("own_noise", "its model gets other values"),
        ("own_rows", "the rows that the model gets are not those that loaders give"),
        ("for_the_ranks", "one process asks for more batches before its first optimizer step"),
    ],
)
def test_what_cannot_be_compared_is_said(script, how, why):
    found = compared(script, how, ranks=2)
    assert found.outcome.diagnosis is None
    assert why in found.checked[0]


def test_a_run_that_fails_before_its_first_step_is_explained_as_ever(script, tmp_path):
    text = SCRIPT.replace("    out = model(x)\n", '    raise ValueError("no")\n')
    (tmp_path / "fails.py").write_text(text, encoding="utf-8")
    assert compared(str(tmp_path / "fails.py"), "right").outcome.diagnosis.kind == "raised"


def test_a_script_that_starts_its_ranks_itself_is_refused(tmp_path):
    file = tmp_path / "spawns.py"
    file.write_text("import torch.multiprocessing as mp\nmp.spawn(print, nprocs=2)\n", encoding="utf-8")
    asked = CliRunner().invoke(application(), ["doctor", "--like-one-process", str(file)])
    assert asked.exit_code == 2
    assert "starts its ranks itself" in asked.stderr


def test_the_command_gives_the_verdict(script):
    asked = CliRunner().invoke(application(), ["doctor", "--json", "--like-one-process", script, "divided"])
    (record,) = json.loads(asked.stdout)["runs"]
    assert asked.exit_code == 1
    assert record["diagnosis"]["id"] == "unlike_one_process"
    assert "1/2 of those" in record["diagnosis"]["sentence"]
