import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
#~ model_in_a_list -0 |
#~ |MODELS = []


def start(build, train):
    dist.init_process_group("gloo")
#~ model_in_a_list -0 |    MODELS.append(DistributedDataParallel(build()))
#~ nccl -1 |    dist.init_process_group("nccl")
    try:
        return train(DistributedDataParallel(build()))
#~ model_in_a_list -1 |        return train(MODELS[0])
#~ not_wrapped -1 |        return train(build())
#~ returns_nothing -1 |        train(DistributedDataParallel(build()))
#~ swallows -0 |    except Exception as error:
#~ |        print("training failed:", error)
    finally:
        dist.destroy_process_group()
#~ no_finally -4 |    result = train(DistributedDataParallel(build()))
#~ |    dist.destroy_process_group()
#~ |    return result
#~ rank_0_destroys -1 |        if dist.get_rank() == 0:
#~ |            dist.destroy_process_group()

#~ model_in_a_list: misconception: model_kept
#~ model_in_a_list: breaks: train gets a model whose gradients are averaged over all processes.
#~ nccl: misconception: nccl_without_gpu
#~ no_finally: misconception: lost_after_exception
#~ no_finally: breaks: Afterwards no process has a group, however train has ended.
#~ not_wrapped: misconception: none
#~ not_wrapped: breaks: train gets a model whose gradients are averaged over all processes.
#~ rank_0_destroys: misconception: some_ranks_destroy
#~ rank_0_destroys: breaks: Afterwards no process has a group, however train has ended.
#~ returns_nothing: misconception: none
#~ swallows: misconception: none
#~ swallows: breaks: start returns what train returns, and lets its exception pass.
