# kind: rank_left
# culprits: 2
# ranks: 3
# The last thing is to gather the results; one rank has none and is done.
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    results = {} if dist.get_rank() == 2 else {"accuracy": 0.9}
    if not results:
        return
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, results)
    print(everyone)


main()
dist.destroy_process_group()
