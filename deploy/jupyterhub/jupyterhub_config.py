"""A JupyterHub for a class on one Linux machine: every learner has an account there. See docs/hub.md.

    jupyterhub --config deploy/jupyterhub/jupyterhub_config.py

Servers are started by JupyterHub's own LocalProcessSpawner, as the learner's user, from the environment in which
JupyterHub and the course are installed. Change what is in capitals.
"""

import os
import pwd
import subprocess
import sys
from pathlib import Path

#: In each learner's home: their copy of the course.
FOLDER = "ddp-course"
#: Ranks in a gang, at most: with two cores for all, four are enough for most lessons.
MAX_RANKS = "8"
#: Gangs that nobody has used for so long are ended; their learner is told.
IDLE_MINUTES = "60"

c = get_config()  # noqa: F821 - JupyterHub gives it to its configuration

c.JupyterHub.bind_url = os.environ.get("DDP_COURSE_HUB_URL", "http://127.0.0.1:8000")
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.JupyterHub.cleanup_servers = True

# Who may come in: accounts of this machine, by their passwords (PAM). Name them, or a group of the system.
c.Authenticator.allowed_users = set(filter(None, os.environ.get("DDP_COURSE_LEARNERS", "").split()))
c.Authenticator.admin_users = set(filter(None, os.environ.get("DDP_COURSE_INSTRUCTORS", "").split()))

c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.notebook_dir = "~"
c.Spawner.default_url = f"/lab/tree/{FOLDER}/notebooks/index.ipynb"
# A server on a busy machine takes longer than the default of 30 seconds to come up.
c.Spawner.http_timeout = 120
c.Spawner.start_timeout = 120
c.Spawner.environment = {
    "DDP_COURSE_MAX_RANKS": MAX_RANKS,
    "DDP_COURSE_IDLE_MINUTES": IDLE_MINUTES,
    # `!torchrun` and `!python` in a lesson are the environment's own.
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
}


def copy_course(spawner) -> None:
    """Make or update the learner's copy of the course; what they have changed in it stays."""
    account = pwd.getpwnam(spawner.user.name)
    # As the learner, so that nothing of another user's can be written through a link in the learner's home. A copy that
    # cannot be brought up to date is opened as it is.
    subprocess.run(
        [sys.executable, "-P", "-m", "course_lib.cli", "lab", "--only-copy"],
        check=False,
        user=account.pw_uid if os.geteuid() == 0 else None,
        group=account.pw_gid if os.geteuid() == 0 else None,
        extra_groups=[] if os.geteuid() == 0 else None,
        env={"PATH": os.defpath, "HOME": account.pw_dir, "DDP_COURSE_LEARNER": f"{account.pw_dir}/{FOLDER}"},
        cwd=account.pw_dir,
    )


c.Spawner.pre_spawn_hook = copy_course
