"""The script that grows: handed out in lesson 00 with fifteen faults, repaired from lesson to lesson."""

from course_lib.lessons.capstone.tasks.promises import Promises


class Script(Promises):
    """The learner's own training script."""

    name = "checkpoints.script"
    script = "script/train.py"
    models = ("Classifier", "Completer")
