# misconception: one_machine
# breaks: All machines are told how many machines and GPUs there are.
def launch_line(hosts, environment):
    return ["torchrun", "--standalone", f"--nproc-per-node={environment['SLURM_GPUS_ON_NODE']}", "train.py"]
