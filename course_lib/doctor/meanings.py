"""The table of torch's own error messages: one row a message, in the words of torch 2.13."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from course_lib.doctor.words import capital, names_in_a_row, rank_list, shaped, steps
from course_lib.outcome.facts import NO_FACTS
from course_lib.outcome.outcome import Outcome
from course_lib.outcome.wrapped import WrappedModel

Fill = Callable[[Outcome, int, "re.Match[str]"], dict[str, str]]


@dataclass(frozen=True)
class Meaning:
    """What one message of torch's means.

    Attributes:
        pattern: found in the message (or, with `type_`, in the type's name) of the exception.
        summary: a sentence with `{ranks}`, `{s}` (the verb's ending) and what `fill` adds; advice, too.
        type_: instead of the pattern, the name of the exception's class. lessons: where it is taught.
        everyone: the fault lies between the ranks: no rank is the culprit.
    """

    kind: str
    pattern: str
    summary: str
    advice: str
    lessons: tuple[int, ...] = ()
    type_: str = ""
    fill: Fill = field(default=lambda *_: {}, compare=False)
    everyone: bool = False


def indices_in(text: str) -> list[int]:
    """The places of parameters, in DDP's order, that DDP's complaint about missing gradients names."""
    found = re.search(r"rank \d+: ?((?:\d+ ?)+)", text)
    return [int(number) for number in found[1].split()] if found else []


def _parameter_names(outcome: Outcome, rank: int, found: re.Match[str]) -> dict[str, str]:
    """Names for the indices in the message."""
    text = found.group(0)
    named = re.search(r"Parameters which did not receive grad for rank \d+: ([^\n]+?)(?:\n|$)", text)
    indices = indices_in(text)
    if named:
        names = [name.strip() for name in named.group(1).split(",")]
    else:
        names = names_at(model_with(outcome.facts.get(rank, NO_FACTS).models, indices), indices)
    return {
        "names": names_in_a_row(names, 6) or "unknown names",
        "number": steps(len(names) or len(indices), "parameter"),
    }


def model_with(models: Iterable[WrappedModel], indices: Collection[int]) -> WrappedModel | None:
    """The model that alone has parameters at these places."""
    fitting = [model for model in models if model.number > max(indices, default=0)]
    return fitting[0] if len(fitting) == 1 else None


def names_at(model: WrappedModel | None, indices: Iterable[int]) -> list[str]:
    """What the parameters at these places are called, or their shapes, or else their numbers."""
    known = model.parameters if model is not None else ()
    return [
        known[index].name or shaped(known[index].shape) if index < len(known) else f"number {index}"
        for index in indices
    ]


def _twice(outcome: Outcome, rank: int, found: re.Match[str]) -> dict[str, str]:
    text = found.group(0)
    index = re.search(r"Parameter at index (\d+)(?: with name (\S+))?", text)
    if index is None:
        return {"name": "A parameter"}
    places = [int(index.group(1))]
    model = model_with(outcome.facts.get(rank, NO_FACTS).models, places)
    return {"name": f"Parameter {index.group(2) or names_at(model, places)[0]}"}


def _culprit_of_barrier(outcome: Outcome, rank: int, found: re.Match[str]) -> dict[str, str]:
    late = rank_list(int(number) for number in re.findall(r"\d+", found.group(1)))
    return {"late": late, "Late": capital(late)}


def _model_difference(outcome: Outcome) -> str:
    messages = [error.message for error in outcome.errors.values()]
    for message in messages:
        if found := re.search(
            r"Rank (\d+) has (\d+) params, while rank (\d+) has inconsistent (\d+)", message
        ):
            a, m, b, n = found.groups()
            return f"rank {a} has {m} parameters, rank {b} has {n}"
        pattern = (
            r"\[(\d+)\]: params\[(\d+)\] in this process with sizes (\[[\d, ]*\]) appears not to match (\w+)"
        )
        if found := re.search(pattern, message):
            a, index, sizes, what = found.groups()
            other = "another one" if what == "sizes" else f"other {what}"
            return f"parameter {index} has shape {sizes} on rank {a}, and {other} on rank 0"
    return "the number or the shapes of their parameters differ"


def _init_note(outcome: Outcome) -> str:
    asked = {rank: facts.init for rank, facts in outcome.facts.items() if facts.init is not None}
    worlds = sorted({init.world_size for init in asked.values() if init.world_size is not None})
    if worlds and worlds != [outcome.world_size]:
        return f" (asked for world size {', '.join(map(str, worlds))}; {outcome.world_size} processes run)"
    return ""


#: What to do about a backward pass for each loss.
ADD_LOSSES = "add up the losses of a forward pass and call backward() once, on the sum."

MEANINGS = (
    Meaning(
        "out_of_memory",
        r"can't allocate memory|out of memory|Cannot allocate memory",
        "{Ranks} ran out of memory at {where}{others}.",
        "use a smaller batch on every rank; let the error end the rank, or let all ranks leave the batch out: "
        "going on alone shifts the iterations against each other.",
        (11,),
    ),
    Meaning(
        "out_of_memory",
        "",
        "{Ranks} ran out of memory at {where}{others}.",
        "use a smaller batch on every rank; let the error end the rank, or let all ranks leave the batch out.",
        (11,),
        type_="OutOfMemoryError",
    ),
    Meaning(
        "out_of_memory",
        "",
        "{Ranks} ran out of the host's memory at {where}{others}.",
        "Python itself got no memory: look at what grows on this rank (a list or a replay buffer that keeps every "
        "sample, tensors that keep their graph, a cache of the data), and at limits of the process; a smaller batch "
        "helps only where the batch is what is large.",
        (11,),
        type_="MemoryError",
    ),
    Meaning(
        "unused_parameters",
        r"(?s)Expected to have finished reduction in the prior iteration.*?(?=If you already|$).*",
        "In the step before, {number} got no gradient on {ranks}: {names}.",
        "let every parameter take part in the loss, or wrap with find_unused_parameters=True. When an exception was "
        "swallowed in the step before, that is the cause.",
        (8,),
        fill=_parameter_names,
    ),
    Meaning(
        "parameter_ready_twice",
        r"(?s)Expected to mark a variable ready only once.*",
        "{name} got its gradient twice on {ranks}, where DDP expects it once for a forward pass.",
        "where backward() is called for each of several losses, add them up and call it once; with checkpointing, pass "
        "use_reentrant=False; with find_unused_parameters=True, put both uses into one forward pass, or leave that "
        "option out.",
        (8, 6),
        fill=_twice,
    ),
    Meaning(
        "graph_changed",
        r"Your training graph has changed in this iteration|static_graph.*graph.*changed",
        "The graph of {ranks} differs from that of the first iteration: static_graph=True promised it would not.",
        "leave static_graph out, or make every iteration use the same parameters.",
        (8,),
    ),
    Meaning(
        "several_backwards",
        r"Encountered gradient which is undefined, but still allreduced by DDP",
        "DDP was to average a gradient on {ranks} at {where} that no backward pass has computed: with "
        "find_unused_parameters=True that comes, as a rule, of several backward passes for one forward pass.",
        ADD_LOSSES,
        (6, 8),
    ),
    Meaning(
        "static_graph_no_sync",
        r"expect_autograd_hooks_ INTERNAL ASSERT FAILED",
        "{Ranks} made the first backward pass of a model with static_graph=True within no_sync(), at {where}: DDP "
        "learns the graph in that pass, and fails there with an internal error.",
        "use no_sync() from the second step on: `with model.no_sync() if step > 0 and not last else nullcontext():`. "
        "Or leave static_graph out.",
        (10, 8),
    ),
    Meaning(
        "different_models",
        r"DDP expects same model across all ranks|appears not to match (?:sizes|strides) of the same param",
        "The ranks wrap different models: {detail}.",
        "build the same model, with the same parameters in the same order, on every rank.",
        (7, 9),
        fill=lambda outcome, rank, found: {"detail": _model_difference(outcome)},
        everyone=True,
    ),
    Meaning(
        "init_port_taken",
        r"EADDRINUSE|address already in use",
        "The address of the process group is already in use (seen on {ranks}).",
        "another program (or an earlier run of this one) listens on MASTER_PORT, or two processes are rank 0: choose a "
        "free port, let torchrun choose one (--standalone), and give every process a rank of its own.",
        (2,),
    ),
    Meaning(
        "nccl_without_gpu",
        r"ProcessGroupNCCL is only supported with GPUs|doesn't have NCCL built in|no NVIDIA driver|no GPUs found|"
        r"Torch not compiled with CUDA",
        "{Ranks} asked for NCCL or CUDA at {where}, and this machine (or this build of torch) has no GPU.",
        'use init_process_group("gloo") on the CPU; "cpu:gloo,cuda:nccl" carries both kinds of tensors where there is '
        "a GPU. A plain init_process_group() takes NCCL alone there.",
        (2,),
    ),
    Meaning(
        "two_ranks_on_one_gpu",
        r"Duplicate GPU detected|Multiple Ranks are using the same GPU",
        "{Ranks} share a GPU with another rank, which NCCL refuses.",
        "call torch.cuda.set_device(local_rank) before init_process_group, and start no more ranks than GPUs.",
        (2,),
    ),
    Meaning(
        "nccl_timeout",
        r"Watchdog caught collective operation timeout",
        "NCCL's watchdog ended {ranks}: a collective did not finish within its timeout.",
        "one rank did not come: the same script on gloo (ddp-course doctor) shows which one and where.",
        (13,),
    ),
    Meaning(
        "gpu_context_lost",
        r"device-side assert triggered|illegal memory access was encountered|unspecified launch failure",
        "A kernel failed on the GPU of {ranks}; it was noticed at {where}, and may have been started long before.",
        "an index out of range is the usual reason (a label, a token): run it on the CPU, or with "
        "CUDA_LAUNCH_BLOCKING=1, to see the line. No CUDA call of this process works any more: start the ranks anew.",
        (13,),
    ),
    Meaning(
        "gpu_taken",
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        "The GPU of {ranks} is taken by another process, or does not work (seen at {where}).",
        "in exclusive compute mode one process has a GPU to itself, so that ranks cannot share it: start no more ranks "
        "than GPUs, or choose others with CUDA_VISIBLE_DEVICES. nvidia-smi says who uses what.",
        (2,),
    ),
    Meaning(
        "nccl_error",
        r"NCCL error|ncclSystemError|ncclInternalError|ncclUnhandledCudaError",
        "NCCL reported an error on {ranks} at {where}.",
        "set NCCL_DEBUG=WARN to read NCCL's own reason; in containers the shared memory (--shm-size) and the "
        "network interface (NCCL_SOCKET_IFNAME) are the usual ones.",
        (13,),
    ),
    Meaning(
        "init_stale_address",
        r"connectFullMesh failed",
        "{Ranks} found an address in the store of the process group at which nobody answers, at {where}{others}.",
        "a store that outlives a run (a file, an agent's store after a restart) holds its addresses: take a file or a "
        "prefix that no run has used. Between machines, look at GLOO_SOCKET_IFNAME and at firewalls.",
        (2, 12),
    ),
    Meaning(
        "init_no_store",
        r"client socket has timed out|failed to connect to|Connection refused.*(?:TCPStore|MASTER)|"
        r"Name or service not known|gai error|getaddrinfo|hostname",
        "{Ranks} found nobody at the address of the process group.",
        "all ranks need the same MASTER_ADDR and MASTER_PORT, and rank 0 must run there.",
        (2,),
    ),
    Meaning(
        "init_rank_missing",
        r"waiting for clients|wait timeout after|Wait timeout|timed out.*\bdefault_pg|store_based_barrier",
        "{Ranks} waited in vain for the other ranks of the process group{init}.",
        "start as many processes as WORLD_SIZE says, each with a RANK of its own, and let all of them call "
        "init_process_group.",
        (2,),
        fill=lambda outcome, rank, found: {"init": _init_note(outcome)},
    ),
    Meaning(
        "no_process_group",
        r"Default process group has not been initialized",
        "{Ranks} used torch.distributed at {where} without a process group: before init_process_group, or after "
        "destroy_process_group.",
        "call init_process_group once at the beginning (and nothing of torch.distributed after destroy_process_group).",
        (2,),
    ),
    Meaning(
        "initialized_twice",
        r"trying to initialize the default process group twice",
        "{Ranks} called init_process_group a second time at {where}.",
        "call it once; ask dist.is_initialized() where it may have been called already.",
        (2,),
    ),
    Meaning(
        "device_ids_on_cpu",
        r"device_ids and output_device arguments only work with",
        "{Ranks} gave device_ids to DistributedDataParallel for a model that is on the CPU, at {where}.",
        "leave device_ids out on the CPU; on GPUs, move the model to its GPU first.",
        (2, 1),
    ),
    Meaning(
        "sync_batchnorm_on_cpu",
        r"SyncBatchNorm (?:layers only work with GPU|expected input tensor to be on GPU)",
        "{Ranks} use SyncBatchNorm without a GPU, at {where}.",
        "SyncBatchNorm needs GPUs; on the CPU, use BatchNorm and larger batches a rank.",
        (9,),
    ),
    Meaning(
        "sampler_and_shuffle",
        r"sampler option is mutually exclusive with shuffle",
        "{Ranks} gave a DataLoader both a sampler and shuffle=True, at {where}.",
        "DistributedSampler(..., shuffle=True) shuffles; leave shuffle out of the DataLoader.",
        (3,),
    ),
    Meaning(
        "collective_timed_out",
        r"Rank (\d+(?:, \d+)*) failed to pass monitoredBarrier",
        "{Late} did not come to the monitored_barrier at {where} before its timeout.",
        "look at what {late} did instead of coming to the barrier.",
        (13,),
        fill=_culprit_of_barrier,
    ),
    Meaning(
        "collective_timed_out",
        r"Timed out waiting|Operation timed out|timed out after",
        "A collective of {ranks} at {where} did not finish within its timeout{others}.",
        "a timeout is the end of a wait, not its cause: look for the rank that did not come, or was late.",
        (13, 5),
    ),
    Meaning(
        "group_broken_before",
        r"Application timeout caused pair closure",
        "A wait of {ranks} had timed out before it came to {where}, and gloo closes the connections of a rank whose "
        "wait times out: the process group was broken from then on{others}.",
        "on gloo a timeout breaks the group, also where the exception is caught: make a new process group after it, "
        "and look for what did not come in time.",
        (13, 5),
    ),
)
