# kind: init_wrong_address
# culprits: 2
# ranks: 3
# args: --port {free_port}
# One rank looks for the others at another port.
import argparse
import os

import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
options = parser.parse_args()
rank = int(os.environ["RANK"])
os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
os.environ["MASTER_PORT"] = str(options.port if rank < 2 else options.port + 1)
#~ mended -1 |os.environ["MASTER_PORT"] = str(options.port)
dist.init_process_group("gloo")
dist.barrier()
