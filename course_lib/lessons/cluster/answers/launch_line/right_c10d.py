# The agents number the machines themselves.
import os


def launch_line(hosts, environment):
    job = environment["SLURM_JOB_ID"]
    return [
        os.path.join("/opt/env/bin", "torchrun"),
        f"--nnodes={environment['SLURM_JOB_NUM_NODES']}",
        f"--nproc_per_node={environment['SLURM_GPUS_ON_NODE']}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={hosts[0]}:{int(job) % 20000 + 10000}",
        f"--rdzv-id={job}",
#~ same_id -1 |        "--rdzv-id=train",
        f"--rdzv-conf=is_host={environment['SLURM_NODEID'] == '0'}",
        "train.py",
    ]

#~ same_id: misconception: same_id
#~ same_id: breaks: Two jobs on the same machines do not meet: each has a port and an id of its own.
