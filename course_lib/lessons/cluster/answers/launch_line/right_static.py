def launch_line(hosts, environment):
    job, gpus = environment["SLURM_JOB_ID"], environment["SLURM_GPUS_ON_NODE"]
    place = environment["SLURM_NODEID"]
#~ all_first -1 |    place = "0"
    head = hosts[0]
#~ own -1 |    head = hosts[int(environment["SLURM_NODEID"])]
#~ loopback -1 |    head = "127.0.0.1"
    port = 20000 + int(job) % 10000
#~ fixed -1 |    port = 29517
    machines = len(hosts)
#~ alone -1 |    machines = 1
#~ all_here -0 |    gpus = int(gpus) * len(hosts)
    return [
        "torchrun",
        "--nnodes",
        str(machines),
        "--nproc-per-node",
        str(gpus),
        "--node-rank",
        place,
        "--master-addr",
        head,
        "--master-port",
        str(port),
        "train.py",
    ]
#~ refused -1 |        "--no-such-option",
#~ |        "train.py",
#~ |    ]

#~ all_first: misconception: all_first
#~ all_first: breaks: The machines meet, and every rank of the job is started once.
#~ own: misconception: own_address
#~ own: breaks: All machines go to the same address, which is that of the first machine.
#~ loopback: misconception: own_address
#~ loopback: breaks: All machines go to the same address, which is that of the first machine.
#~ fixed: misconception: fixed_port
#~ fixed: breaks: Two jobs on the same machines do not meet: each has a port and an id of its own.
#~ alone: misconception: one_machine
#~ alone: breaks: All machines are told how many machines and GPUs there are.
#~ all_here: misconception: all_ranks_here
#~ all_here: breaks: All machines are told how many machines and GPUs there are.
#~ refused: misconception: none
