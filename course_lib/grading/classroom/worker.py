"""A process that grades answers: `python -m course_lib.grading.classroom.worker FD FOLDER`.

FD is a socket to the process that hands out the answers. When that is gone, for whatever reason, this one ends, with
all ranks, and removes FOLDER, where everything temporary is kept.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import sys
import threading

from course_lib.grading.classroom.messages import Failed, Grade, Graded
from course_lib.grading.grader import grade
from course_lib.grading.process_limits import remove_folder
from realranks.ranks.kernel.launcher import close_for_good, warm_up
from realranks.ranks.messages import Body, decode_message, encode_message
from realranks.ranks.protocol import BlockingChannel, Message


def main(fd: int, folder: str) -> None:
    """Grade what comes until nothing comes any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = BlockingChannel(socket.socket(fileno=fd))
    jobs: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, jobs, folder), daemon=True).start()
    warm_up()
    with contextlib.suppress(OSError):
        while True:
            channel.send(encode_message(_reply(decode_message(Grade, jobs.get()))))
    # The grader is gone: the listener has noticed, too, and ends this process when it has tidied up.
    threading.Event().wait()


def _listen(channel: BlockingChannel, jobs: queue.SimpleQueue[Message], folder: str) -> None:
    while (message := channel.receive()) is not None:
        jobs.put(message)
    # Whatever the main thread is doing: the grader does not need it any more.
    close_for_good()
    remove_folder(folder)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(folder))  # the last worker of a process that was killed
    os._exit(0)


def _reply(job: Grade) -> Body:
    try:
        return Graded(grade(job.task, job.source, first_line=job.first_line))
    except Exception as error:
        # A machine that cannot start ranks, a task with a mistake in it: reported for this answer; the next may work.
        why = str(error).strip().splitlines() or [type(error).__name__]
        return Failed(f"The grader could not run it: {why[0]}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
