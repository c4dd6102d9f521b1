"""The table of torch's own error messages: one row a message, in the words of torch 2.13. What they mean is told in
`diagnoses.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from realranks.doctor.sentences import Words
from realranks.doctor.words import names_in_a_row, shaped, steps
from realranks.outcome.facts import NO_FACTS
from realranks.outcome.outcome import Outcome
from realranks.outcome.places import place_name
from realranks.outcome.wrapped import WrappedModel

Fill = Callable[[Outcome, int, "re.Match[str]"], Words]


@dataclass(frozen=True)
class Meaning:
    """The meaning of one message of torch's.

    Attributes:
        name: of its sentence in `diagnoses.toml`: a kind, or `kind.variant`.
        pattern: found in the message of the exception. type_: instead of the pattern, the name of its class.
        fill: what the sentence needs besides the ranks and the line. everyone: the fault lies between the ranks: no
            rank is the culprit.
    """

    name: str
    pattern: str = ""
    type_: str = ""
    fill: Fill = field(default=lambda *_: {}, compare=False)
    everyone: bool = False

    @property
    def kind(self) -> str:
        """The kind of the diagnosis."""
        return self.name.partition(".")[0]


def indices_in(text: str) -> list[int]:
    """Read the indices of parameters, in DDP's order, from its error about missing gradients."""
    found = re.search(r"rank \d+: ?((?:\d+ ?)+)", text)
    return [int(number) for number in found[1].split()] if found else []


def _parameter_names(outcome: Outcome, rank: int, found: re.Match[str]) -> Words:
    """Name the parameters whose indices are in the message."""
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
    """Return the model that has parameters at these indices; None if models that differ have them.

    A wrapper that its cell has replaced lives on until Python collects it, and then looks the same.
    """
    fitting = [model for model in models if model.number > max(indices, default=0)]
    alike = {(model.parameters, model.gone, model.frozen, model.added) for model in fitting}
    return fitting[0] if len(alike) == 1 else None


def names_at(model: WrappedModel | None, indices: Iterable[int]) -> list[str]:
    """Name the parameters at these indices: by name, else by shape, else by number."""
    known = model.parameters if model is not None else ()
    return [
        known[index].name or shaped(known[index].shape) if index < len(known) else f"number {index}"
        for index in indices
    ]


def _twice(outcome: Outcome, rank: int, found: re.Match[str]) -> Words:
    text = found.group(0)
    index = re.search(r"Parameter at index (\d+)(?: with name (\S+))?", text)
    if index is None:
        return {"name": "A parameter"}
    places = [int(index.group(1))]
    model = model_with(outcome.facts.get(rank, NO_FACTS).models, places)
    return {"name": f"Parameter {index.group(2) or names_at(model, places)[0]}"}


def _culprit_of_barrier(outcome: Outcome, rank: int, found: re.Match[str]) -> Words:
    return {"late": tuple(int(number) for number in re.findall(r"\d+", found.group(1)))}


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


#: What DDP and torch.compile put before the names of a model's parameters.
_PREFIX = r"(?:module\.|_orig_mod\.)+"

MEANINGS = (
    Meaning("out_of_memory", r"can't allocate memory|out of memory|Cannot allocate memory"),
    Meaning("out_of_memory.cuda", type_="OutOfMemoryError"),
    Meaning("out_of_memory.host", type_="MemoryError"),
    Meaning(
        "unused_parameters.raised",
        r"(?s)Expected to have finished reduction in the prior iteration.*?(?=If you already|$).*",
        fill=_parameter_names,
    ),
    Meaning("parameter_ready_twice", r"(?s)Expected to mark a variable ready only once.*", fill=_twice),
    Meaning(
        "graph_changed", r"Your training graph has changed in this iteration|static_graph.*graph.*changed"
    ),
    Meaning("several_backwards", r"Encountered gradient which is undefined, but still allreduced by DDP"),
    Meaning("static_graph_no_sync", r"expect_autograd_hooks_ INTERNAL ASSERT FAILED"),
    Meaning(
        "different_models.raised",
        r"DDP expects same model across all ranks|appears not to match (?:sizes|strides) of the same param",
        fill=lambda outcome, rank, found: {"detail": _model_difference(outcome)},
        everyone=True,
    ),
    Meaning(
        "cannot_be_pickled",
        r"(?:Can't (?:pickle|get) local object '([^']+)'|cannot pickle '([^']+)' object|"
        r"Can't pickle <(?:function|class) '?([^ >']+))",
        fill=lambda outcome, rank, found: {"what": next(filter(None, found.groups()))},
    ),
    Meaning(
        "init_variable_missing",
        r"environment variable (\w+) expected, but not set",
        fill=lambda outcome, rank, found: {"name": found[1]},
    ),
    Meaning("init_port_taken", r"EADDRINUSE|address already in use"),
    Meaning(
        "nccl_without_gpu",
        r"ProcessGroupNCCL is only supported with GPUs|doesn't have NCCL built in|no NVIDIA driver|no GPUs found|"
        r"Torch not compiled with CUDA",
    ),
    Meaning("cuda_in_a_fork", r"Cannot re-initialize CUDA in forked subprocess"),
    Meaning("two_ranks_on_one_gpu", r"Duplicate GPU detected|Multiple Ranks are using the same GPU"),
    Meaning("nccl_timeout", r"Watchdog caught collective operation timeout"),
    Meaning(
        "gpu_context_lost",
        r"device-side assert triggered|illegal memory access was encountered|unspecified launch failure",
    ),
    Meaning("gpu_taken", r"CUDA-capable device\(s\) is/are busy or unavailable"),
    Meaning("nccl_error", r"NCCL error|ncclSystemError|ncclInternalError|ncclUnhandledCudaError"),
    Meaning("init_stale_address", r"connectFullMesh failed"),
    Meaning(
        "init_no_store",
        r"client socket has timed out|failed to connect to|Connection refused.*(?:TCPStore|MASTER)|"
        r"Name or service not known|gai error|getaddrinfo|hostname",
    ),
    Meaning(
        "init_rank_missing.raised",
        r"waiting for clients|wait timeout after|Wait timeout|timed out.*\bdefault_pg|store_based_barrier",
        fill=lambda outcome, rank, found: {"init": _init_note(outcome)},
    ),
    Meaning(
        "init_rank_missing.beyond",
        r"rank < size\. (\d+) vs (\d+)",
        fill=lambda outcome, rank, found: {
            "number": found[1],
            "size": found[2],
            "last": int(found[2]) - 1,
        },
    ),
    Meaning("no_process_group", r"Default process group has not been initialized"),
    Meaning("initialized_twice", r"trying to initialize the default process group twice"),
    Meaning("device_ids_on_cpu", r"device_ids and output_device arguments only work with"),
    Meaning(
        "sync_batchnorm_on_cpu",
        r"SyncBatchNorm (?:layers only work with GPU|expected input tensor to be on GPU)",
    ),
    Meaning("sampler_and_shuffle", r"sampler option is mutually exclusive with shuffle"),
    Meaning(
        "schedule_too_short.raised",
        r"Tried to step (\d+) times. The (?:total|specified) number of (?:total )?steps is (\d+)",
        fill=lambda outcome, rank, found: {
            "made": steps(int(found[1]), "time"),
            "length": steps(int(found[2]), "step"),
        },
    ),
    Meaning(
        "collective_timed_out.monitored",
        r"Rank (\d+(?:, \d+)*) failed to pass monitoredBarrier",
        fill=_culprit_of_barrier,
    ),
    Meaning(
        "state_dict_names.wrapped_file",
        rf'Missing key\(s\) in state_dict: "([^"]+)".*?(?s:.*)Unexpected key\(s\) in state_dict: "({_PREFIX})\1"',
        fill=lambda outcome, rank, found: {"name": found[1], "prefix": found[2]},
    ),
    Meaning(
        "state_dict_names.wrapped_model",
        rf'Missing key\(s\) in state_dict: "({_PREFIX})([^"]+)".*?(?s:.*)Unexpected key\(s\) in state_dict: "\2"',
        fill=lambda outcome, rank, found: {"name": found[2], "prefix": found[1]},
    ),
    Meaning(
        "state_dict_names.key",
        rf"^'({_PREFIX})(\S+)'$",
        fill=lambda outcome, rank, found: {"name": found[2], "prefix": found[1]},
    ),
    Meaning("file_not_whole", r"PytorchStreamReader failed|pickle data was truncated|Ran out of input"),
    Meaning(
        "file_renamed",
        r"No such file or directory: '([^']+)' -> '",
        fill=lambda outcome, rank, found: {"file": place_name(found[1])},
    ),
    Meaning("collective_timed_out", r"Timed out waiting|Operation timed out|timed out after"),
    Meaning("group_broken_before", r"Application timeout caused pair closure"),
)
