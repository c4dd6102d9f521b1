"""The capstone's task: a script that the learner has not seen before, repaired."""

from course_lib.lessons.capstone.tasks.promises import Promises


class Train(Promises):
    """The training script of lesson 18."""

    name = "capstone.train"
    script = "capstone/train.py"
    models = ("Reader", "Mender")
