# kind: cannot_be_pickled
# culprits: -
# What each process is to run is defined within a function.
# ranks: 2
# timeout: 150
import torch.distributed as dist
import torch.multiprocessing as mp


def main(port):
    def work(rank):
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
        dist.barrier()
        dist.destroy_process_group()

    mp.spawn(work, nprocs=2)
#~ mended -7 |def work(rank):
#~ |    dist.init_process_group("gloo", init_method=f"file://{__file__}.store", rank=rank, world_size=2)
#~ |    dist.barrier()
#~ |    dist.destroy_process_group()
#~ |
#~ |
#~ |def main(port):
#~ |    mp.spawn(work, nprocs=2)


if __name__ == "__main__":
    main(29500)
