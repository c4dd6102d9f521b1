"""The gang's key-value store, listening before any rank starts.

It lives in a process of its own, as torchrun's agent does it: when rank 0 dies, the others can still be told so. The
kernel opens the listening socket (with ranks on one machine on the loopback interface) and hands it over, so that a
rank that is early waits in the listen queue instead of retrying for seconds.
"""

from __future__ import annotations

import socket
from datetime import timedelta

from realranks.ranks.host_names import ask_no_name_server
from realranks.ranks.starting import StoreConfig


def host_store(fd: int, config: StoreConfig) -> int:
    """Serve the store on the inherited listening socket until the kernel closes its end of `fd`."""
    control = socket.socket(fileno=fd)
    ask_no_name_server()
    import torch.distributed as dist

    store = dist.TCPStore(
        config.address,
        config.port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(minutes=30),
        master_listen_fd=config.extra_fd,
    )
    while control.recv(1):
        pass
    del store
    return 0


def listen_on(address: str, port: int = 0) -> socket.socket:
    """Listen on a port at this machine's address; 0 is a free one, picked by the system."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((address, port))
    listener.listen(1024)
    return listener
