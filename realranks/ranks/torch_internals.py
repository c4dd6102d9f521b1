"""Every private name of torch that the course uses: where torch has it, and what the course does with it.

A new release of torch may move any of them. `tests/unit/test_torch_internals.py` resolves each on the installed torch,
so that a move is one red line with a name, and finds private names in the course that are missing here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Internal:
    """One private name.

    Attributes:
        name: where it is found, dotted, from `torch` on. use: what the course needs it for.
        held_by: `class` or `module` (it is an attribute of what stands before the last dot), or `self`: the class's
            methods set it on their instances.
        stack: the course looks for this function's name, and its file's, in stacks.
        optional: where torch does not have it, something takes longer, and nothing is wrong.
        cuda: only a torch that is built for GPUs has it.
    """

    name: str
    use: str
    held_by: str = "module"
    stack: bool = False
    optional: bool = False
    cuda: bool = False


_C10D = "torch.distributed.distributed_c10d"
_C = "torch._C._distributed_c10d"
_DDP = "torch.nn.parallel.DistributedDataParallel"

INTERNALS = (
    # Process groups
    Internal(f"{_C10D}._world", "which groups there are, their names and ranks"),
    Internal(f"{_C10D}._get_default_store", "the store of the default group, in tasks"),
    Internal(f"{_C10D}._set_pg_timeout", "a default group with a short timeout, in a task"),
    Internal(f"{_C10D}._rank_not_in_group", "which group a batch of sends and receives goes to"),
    Internal(f"{_C10D}._new_group_with_tag", "a rank in new_group", stack=True),
    Internal(f"{_C}.Backend._get_sequence_number_for_group", "how far a rank has got", "class"),
    Internal(f"{_C}.ProcessGroup._get_backend", "a group's timeout, and how far a rank has got", "class"),
    Internal(f"{_C}.ProcessGroup._device_types", "the backends of a group", "class"),
    Internal(f"{_C}.ProcessGroupNCCL._group_start", "all groups are aborted in one go", "class", cuda=True),
    Internal(f"{_C}.ProcessGroupNCCL._group_end", "all groups are aborted in one go", "class", cuda=True),
    Internal(f"{_C}.Backend.Options._timeout", "a group's timeout", "class"),
    Internal(f"{_C}._dump_fr_trace", "the flight recorder: collectives issued, with their sizes and stacks"),
    Internal(f"{_C}._dump_nccl_trace", "NCCL's own flight recorder: how far a rank's GPU has got", cuda=True),
    Internal("torch._C._dynamo.eval_frame._FrameAction", "Dynamo passes over the probe", optional=True),
    Internal("torch._C._dynamo.eval_frame._FrameExecStrategy", "Dynamo passes over the probe", optional=True),
    Internal("torch.nn.Module._compiled_call_impl", "a wrapped model that is compiled in place", "class"),
    Internal("torch.cuda._lazy_call", "a rank takes its GPU when it first uses CUDA"),
    Internal("torch.distributed.rendezvous._rendezvous_handlers", "a gang's own rendezvous for env://"),
    Internal(
        f"{_C10D}._check_valid_timeout", "a process that a script has started comes to init_process_group"
    ),
    Internal(
        "torch.distributed.elastic.agent.server.api.SimpleElasticAgent._rendezvous",
        "when an agent meets the others",
        "class",
    ),
    Internal(
        "torch.distributed.elastic.multiprocessing.api.MultiprocessContext._close",
        "when an agent ends its workers",
        "class",
    ),
    Internal(
        "torch.distributed.elastic.multiprocessing.api.MultiprocessContext._worker_finished_event",
        "what forked workers wait for at their end",
        "self",
    ),
    # DistributedDataParallel
    Internal(f"{_DDP}._update_process_group", "a wrapper lives on with a rebuilt group", "class"),
    Internal(f"{_DDP}._module_parameters", "the parameters that DDP manages", "self"),
    Internal(f"{_DDP}._has_rebuilt_buckets", "buckets of the first iteration or of all others", "self"),
    Internal(f"{_DDP}._bucket_config", "how large buckets may be", "self"),
    Internal("torch.distributed._DEFAULT_FIRST_BUCKET_BYTES", "the same before torch 2.13"),
    Internal(
        f"{_DDP}._get_ddp_logging_data",
        "sizes and settings of buckets, and how many parameters there are",
        "class",
    ),
    Internal(f"{_DDP}._check_reducer_finalized", "whether all gradients were reduced", "class"),
    Internal(
        f"{_DDP}._static_graph_delay_allreduce_enqueued",
        "a static graph has heard of a backward pass",
        "self",
    ),
    Internal(
        "torch.nn.parallel.distributed._find_tensors", "whether DDP finds a tensor in what forward returns"
    ),
    Internal("torch.utils._pytree.tree_leaves", "whether DDP finds a tensor in what forward returns"),
    Internal(f"{_C}.Reducer._get_zeros_like_grad_buckets", "which parameters share a bucket", "class"),
    Internal(f"{_C}.Reducer._rebuild_buckets", "DDP waits in it: a range of the timeline", "class"),
    Internal("torch.distributed._broadcast_coalesced", "DDP waits in it: a range of the timeline"),
    Internal("torch.distributed._verify_params_across_processes", "DDP waits in it: a range of the timeline"),
    Internal("torch.distributed._compute_bucket_assignment_by_size", "what buckets would be"),
    Internal(f"{_DDP}._sync_buffers", "the stage of a collective: buffers", "class", stack=True),
    Internal(f"{_DDP}._sync_module_buffers", "the stage of a collective: buffers", "class", stack=True),
    Internal(f"{_DDP}._pre_forward", "the stage of a collective: buckets are rebuilt", "class", stack=True),
    Internal(f"{_DDP}._post_forward", "a rank in a forward", "class", stack=True),
    Internal(f"{_DDP}._run_ddp_forward", "a rank in a forward", "class", stack=True),
    Internal(f"{_DDP}._ddp_init_helper", "the stage of a collective: construction", "class", stack=True),
    Internal("torch.distributed.utils._sync_module_states", "a rank in DDP's constructor", stack=True),
    Internal("torch.distributed.utils._sync_params_and_buffers", "a rank that broadcasts", stack=True),
    Internal(
        "torch.distributed.utils._verify_param_shape_across_processes",
        "a rank in DDP's constructor",
        stack=True,
    ),
    # Everything else
    Internal("torch.autograd.graph._engine_run_backward", "a rank in a backward pass", stack=True),
    Internal(
        "torch.profiler._cupti_monitor",
        "imported early: the profiler of 2.13 does it in each rank",
        optional=True,
    ),
    Internal("torch._dynamo.trace_rules.clear_lru_cache", "init_process_group empties it in each rank"),
    Internal("torch._C._current_graph_task_id", "a step inside a backward pass"),
    Internal("torch.Tensor._version", "whether weights or gradients were changed in place", "class"),
    Internal("torch.utils._python_dispatch._disable_current_modes", "looking at weights under a mode"),
    Internal("torch._ops.OpOverload._schema", "which operations make a tensor: one of them fails", "self"),
    Internal("torch.utils.data.dataloader._BaseDataLoaderIter._next_index", "samples of each rank", "class"),
    Internal("torch.utils.data._utils.fetch._MapDatasetFetcher.fetch", "random numbers of loaders", "class"),
    Internal(
        "torch.utils.data.dataloader._SingleProcessDataLoaderIter._dataset_fetcher",
        "random numbers of loaders",
        "self",
    ),
    Internal("torch.utils.data.DataLoader._index_sampler", "the batches of a loader", "class"),
    Internal("torch.utils.data.DataLoader._iterator", "a loader with persistent workers", "self"),
    Internal("torch.optim.lr_scheduler.SequentialLR._schedulers", "the parts of a schedule", "self"),
    Internal(
        "torch.optim.lr_scheduler.SequentialLR._milestones", "where a schedule's last part begins", "self"
    ),
)
