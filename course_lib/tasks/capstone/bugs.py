"""The fifteen faults of the script, as a report names them: what behaves wrong, and the lesson that explains it."""

from __future__ import annotations

from course_lib.tasks.capstone import taught
from course_lib.tasks.task import Misconception

BUGS = (
    Misconception(
        "local_rank",
        "Processes of different machines take each other's place: the local rank begins anew on each of them.",
        taught.LAUNCHER,
    ),
    Misconception("same_order", "Every epoch goes through the images in the same order.", taught.SET_EPOCH),
    Misconception(
        "counted_twice", "Some test images are counted twice in the accuracy, or not at all.", taught.ACCURACY
    ),
    Misconception(
        "impatient", "A process that is slow for a moment takes the whole run down.", taught.TIMEOUT
    ),
    Misconception(
        "uneven", "When a process has fewer images than the others, they wait for it for ever.", taught.JOIN
    ),
    Misconception(
        "two_backwards",
        "Of two passes through one model, only what the first backward brings is averaged.",
        taught.TWO_BACKWARDS,
    ),
    Misconception(
        "bypassed", "A model is trained past its wrapper: nobody averages its gradients.", taught.FORWARD_ONLY
    ),
    Misconception(
        "own_statistics",
        "Each process evaluates with running statistics of its own: that is not one model.",
        taught.BUFFERS,
    ),
    Misconception(
        "gradients_lost", "Gradients are thrown away before the step they were made for.", taught.COPIED_LOOP
    ),
    Misconception(
        "not_averaged", "The gradients of a step are not averaged when the step is taken.", taught.NO_SYNC
    ),
    Misconception("summed", "A step adds micro-batches up instead of averaging them.", taught.WRONG_GRADIENT),
    Misconception(
        "swallowed",
        "When a process runs out of memory, the processes go on in different steps, or with half a step.",
        taught.SWALLOWED,
    ),
    Misconception("forgotten", "After a restart, the optimizer has lost its memory.", taught.RESUME),
    Misconception("rank_0_alone", "A collective is called by one process alone.", taught.RANK_0_ONLY),
    Misconception(
        "half_written", "A kill while the checkpoint is written leaves no checkpoint at all.", taught.ATOMIC
    ),
)
