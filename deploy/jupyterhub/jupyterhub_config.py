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

#: Where the course's files are; everybody can read them. Each learner gets a copy to write in.
COURSE = os.environ.get("DDP_COURSE_FILES", str(Path(__file__).resolve().parents[2]))
#: In each learner's home.
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
    """Give a learner the lessons and exercises, once: what is there already is theirs, and stays as it is."""
    account = pwd.getpwnam(spawner.user.name)
    target = Path(account.pw_dir) / FOLDER
    if target.exists():
        return
    # As the learner, so that nothing of another user's can be written through a link in the learner's home.
    copy = (
        "import shutil, sys\n"
        "source, target = sys.argv[1:]\n"
        "for name in ('notebooks', 'exercises'):\n"
        "    shutil.copytree(f'{source}/{name}', f'{target}/{name}', ignore=shutil.ignore_patterns('sources'))"
    )
    subprocess.run(
        [sys.executable, "-I", "-c", copy, COURSE, str(target)],
        check=True,
        user=account.pw_uid if os.geteuid() == 0 else None,
        group=account.pw_gid if os.geteuid() == 0 else None,
        extra_groups=[] if os.geteuid() == 0 else None,
        env={"PATH": os.defpath, "HOME": account.pw_dir},
        cwd=account.pw_dir,
    )


c.Spawner.pre_spawn_hook = copy_course
