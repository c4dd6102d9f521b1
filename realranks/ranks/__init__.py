"""START: real ranks as processes, driven from a notebook's kernel. Which process runs a file is its folder.

* `kernel/`: the process of the notebook (or of `ddp-course`). A `Gang` starts ranks, gives them jobs, proves deadlocks.
* `server/`: processes that start others: the forkserver, which has torch loaded and forks ranks, the zygote, which
  forks forkservers, and the process of a gang's key-value store.
* `inside/`: a rank. Its main thread runs jobs, a second thread answers the kernel while the first is blocked.
* `observed/`: ranks that another launcher has started, such as `torchrun`, and that talk to who watches them.
* `external/`: ranks that say nothing of themselves, looked at with py-spy and /proc.
* `hosts/`: ranks on other machines, behind a command such as ssh.

What they share: `protocol.py` is the framing, `messages.py` and `starting.py` are the kinds of messages, `codec.py`
reads them, and `status.py` is what a rank says of where it is.
"""
