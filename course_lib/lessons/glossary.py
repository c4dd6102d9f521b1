# %% [markdown]
# # Glossary
#
# The words of the field, each in a sentence or two, with the lesson that shows it. They mean here what they mean in PyTorch; where
# a word is the course's own, it says so.
#
# **Accumulation.** Several forwards and backwards, their gradients added up, before one optimizer step.
# [10](10_accumulation.ipynb)
#
# **Agent.** The process of `torchrun` on each machine: it starts the workers there, watches them, and restarts all of them
# when one fails. [02](02_process_groups.ipynb), [12](12_elastic.ipynb)
#
# **algbw.** In tables of collectives, the size of the tensor / seconds. See *busbw*. [15](15_scale.ipynb)
#
# **All-gather.** A collective after which every rank has what each rank brought. [00](00_first_ranks.ipynb),
# [02](02_process_groups.ipynb)
#
# **All-reduce.** A collective after which every rank has the sum (or mean, or maximum) of what all brought. The one that DDP
# lives on. [00](00_first_ranks.ipynb), [04](04_buckets.ipynb)
#
# **Armed.** As a forward through the wrapper leaves DDP: the next backward averages what is in `.grad`, and disarms.
# [06](06_alternation.ipynb)
#
# **Asynchronous operation.** A collective called with `async_op=True`: it returns a *work handle* at once, and the result is
# there after `wait()`. [04](04_buckets.ipynb)
#
# **Backend.** The library that carries the bytes of a process group: gloo for CPU tensors, NCCL for CUDA tensors.
# [02](02_process_groups.ipynb)
#
# **Barrier.** A collective without data: nobody leaves before all have come. [00](00_first_ranks.ipynb)
#
# **Broadcast.** A collective that gives all ranks what one of them has. [00](00_first_ranks.ipynb), [09](09_synchronised.ipynb)
#
# **Bucket.** Gradients that travel together in one all-reduce. `bucket_cap_mb` says when one is full.
# [04](04_buckets.ipynb)
#
# **Buffer.** A tensor of a module's state that is no parameter: BatchNorm's running statistics, for example. DDP copies rank
# 0's to all ranks, before some forwards. [09](09_synchronised.ipynb)
#
# **busbw.** `algbw` times what the collective has each rank send: 2(*n* - 1)/*n* for an all-reduce. It can be compared with the
# bandwidth of a wire, and between numbers of ranks. [15](15_scale.ipynb)
#
# **Checkpoint.** What must be on disk for a training to go on as if nothing had happened: more than weights.
# [14](14_checkpoints.ipynb)
#
# **Collective.** An operation that all ranks of a process group call together, in the same order. A rank's call returns only when
# the ranks whose data it needs have made theirs. [00](00_first_ranks.ipynb)
#
# **Communication hook.** A function that replaces DDP's all-reduce of a bucket: to compress, to watch, to skip.
# [04](04_buckets.ipynb), [15](15_scale.ipynb)
#
# **DataParallel (DP).** One process, one thread for each GPU, the model copied in every forward. DDP's predecessor.
# [01](01_dataparallel.ipynb)
#
# **DCP.** `torch.distributed.checkpoint`: all ranks save into one folder, each what it has, and a job of another size can load
# it. [14](14_checkpoints.ipynb)
#
# **DDP.** `DistributedDataParallel`: one process for each GPU, each with a copy of the model that stays the same because all
# take the same steps with averaged gradients. [04](04_buckets.ipynb)
#
# **Deadlock.** Ranks that wait for each other and will wait for ever. From outside, it looks like a slow run: both are called a
# *hang*. The course proves the one (`--expect hang`), and says of the other that it is none (`--expect slow`).
# [00](00_first_ranks.ipynb), [13](13_debugging.ipynb)
#
# **Desync.** Ranks that go on, but no longer with the same weights, or no longer at the same collective. The first kind makes no
# noise. [06](06_alternation.ipynb), [11](11_out_of_memory.ipynb)
#
# **DTensor.** A tensor that is spread over a mesh: this rank holds its part of it, and knows how the others' parts make the whole.
# [17](17_sharding.ipynb)
#
# **Effective batch size.** The samples that one optimizer step averages over: ranks times micro-batches times batch size.
# [10](10_accumulation.ipynb)
#
# **Efficiency.** The speed-up divided by the number of ranks. *Weak* scaling keeps the batch of each rank, *strong* scaling that of
# all ranks together. [15](15_scale.ipynb)
#
# **Elastic training.** A gang that is started again when a rank fails, possibly with more or fewer ranks, from the last
# checkpoint. [12](12_elastic.ipynb)
#
# **`find_unused_parameters`.** Has DDP walk the graph after each forward to find the parameters that will get no gradient.
# [08](08_unused.ipynb)
#
# **Flight recorder.** PyTorch's ring of the last collectives of a process, with where they were called.
# [13](13_debugging.ipynb)
#
# **FSDP, FSDP2.** Fully sharded data parallelism: each rank keeps a part of parameters, gradients and optimizer state. FSDP2 is
# `fully_shard`, the newer one, whose parameters are DTensors. [17](17_sharding.ipynb)
#
# **Gang.** The course's word for the ranks that start, fail and restart together. PyTorch's elastic launcher calls those of one
# agent a *worker group*. [02](02_process_groups.ipynb), [12](12_elastic.ipynb)
#
# **gloo.** The backend for CPU tensors, in every PyTorch. The one that this course runs on where there are no GPUs.
# [02](02_process_groups.ipynb)
#
# **Heartbeat.** A sign of life that an agent gives its rendezvous every few seconds. One that gives none is struck off the list.
# [12](12_elastic.ipynb)
#
# **Host.** The course's word for its process on another machine, which starts ranks there. [16](16_cluster.ipynb)
#
# **Join.** A context in which a rank that has run out of batches takes part in the others' collectives, with zeros.
# [05](05_stragglers.ipynb)
#
# **Latency.** What a message costs however little it carries. [04](04_buckets.ipynb), [15](15_scale.ipynb)
#
# **Local rank.** A rank's number on its own machine: which GPU is mine? [02](02_process_groups.ipynb)
#
# **Mean of means.** The average of the ranks' averages. It is the average of all samples only when all ranks have the same number of samples.
# [05](05_stragglers.ipynb)
#
# **Mesh.** The ranks as a grid of one or more dimensions, such as machines and the GPUs in them (`DeviceMesh`). [17](17_sharding.ipynb)
#
# **MFU.** Model FLOPs utilisation: the arithmetic that the model needs, per second, as a part of what the GPUs can do at most.
# Efficiency compares with one rank, MFU with the hardware. [15](15_scale.ipynb)
#
# **Micro-batch.** What one forward and backward sees, when several make one step. [10](10_accumulation.ipynb)
#
# **NCCL.** NVIDIA's backend for CUDA tensors, within a machine and between machines. [02](02_process_groups.ipynb)
#
# **Node.** A machine with an agent on it. [12](12_elastic.ipynb)
#
# **`no_sync`.** A context in which DDP's backward sends nothing. [05](05_stragglers.ipynb), [10](10_accumulation.ipynb)
#
# **Padding.** The samples that `DistributedSampler` deals out twice, so that all ranks get the same number.
# [03](03_samplers.ipynb)
#
# **Preemption.** A scheduler takes machines away from a running job. First it sends a signal, and some time later it kills.
# [12](12_elastic.ipynb)
#
# **Process group.** Ranks that call collectives together. There is always one of all ranks; `new_group` makes smaller ones.
# [02](02_process_groups.ipynb)
#
# **Quorum.** The replicas that take part in the next step, in projects that go on without a restart. [12](12_elastic.ipynb)
#
# **Rank.** A process's number, from 0 to world size minus 1; also the process itself. [00](00_first_ranks.ipynb)
#
# **Reduce.** An all-reduce whose result only one rank may use. What the others are left with is not defined.
# [00](00_first_ranks.ipynb), [09](09_synchronised.ipynb), [14](14_checkpoints.ipynb)
#
# **Reduce-scatter.** A collective after which each rank has its own part of the sum. [00](00_first_ranks.ipynb),
# [17](17_sharding.ipynb)
#
# **Reducer.** The part of DDP, in C++, that keeps the hooks and buckets and sends them during backward.
# [06](06_alternation.ipynb)
#
# **Rendezvous.** How ranks find each other: an address where a store is, and who they are. [02](02_process_groups.ipynb)
#
# **Reshard.** To give up a layer's gathered weights, and keep this rank's part. FSDP2 does it after each forward and backward.
# [17](17_sharding.ipynb)
#
# **Ring.** An all-reduce in which each rank sends to its neighbour only: few bytes for each, many rounds.
# [15](15_scale.ipynb)
#
# **Round.** A step of a collective in which ranks send once, such as 2(*n* - 1) of a ring. [15](15_scale.ipynb)
#
# **Sampler.** What tells a `DataLoader` which samples come next; `DistributedSampler` tells each rank something else.
# [03](03_samplers.ipynb)
#
# **Shadow.** A rank that has left a `join()` and takes part in the others' all-reduces with zeros. [05](05_stragglers.ipynb)
#
# **Shard.** The part of the data (or of the weights) that is one rank's. [03](03_samplers.ipynb), [17](17_sharding.ipynb)
#
# **`static_graph`.** A promise to DDP that every step uses the same parameters in the same way. [08](08_unused.ipynb)
#
# **Store.** The dictionary through which ranks find each other before they can talk. [02](02_process_groups.ipynb)
#
# **Straggler.** The rank for which all others wait. [05](05_stragglers.ipynb)
#
# **SyncBatchNorm.** BatchNorm over the batches of all ranks. [09](09_synchronised.ipynb)
#
# **Timeout.** How long one wait in a collective may take before it becomes an error. [02](02_process_groups.ipynb),
# [05](05_stragglers.ipynb)
#
# **`torchrun`.** PyTorch's launcher: an agent on each machine, and the environment variables that tell workers who they are.
# [00](00_first_ranks.ipynb), [02](02_process_groups.ipynb), [12](12_elastic.ipynb)
#
# **Unused parameter.** One that a step's loss does not depend on: its gradient never comes, and DDP waits for it.
# [08](08_unused.ipynb)
#
# **Watchdog.** The thread with which NCCL's process group waits for collectives. After a timeout it ends the process, by default.
# [13](13_debugging.ipynb)
#
# **Witness.** The course's word for a rank that waits where it should be, and whose message says only what it waited in.
# [13](13_debugging.ipynb)
#
# **World size.** How many ranks there are. [00](00_first_ranks.ipynb)
#
# **Wrapper module.** One module around several, so that everything that is trained goes through one `forward` that DDP sees.
# [07](07_wrappers.ipynb)
#
# **ZeRO.** Sharding over the ranks in three stages: the optimizer's state, then gradients as well, then weights as well.
# [17](17_sharding.ipynb)
#
# **Back to:** the [index](index.ipynb).
