#!/usr/bin/env bash
# The course on The Littlest JupyterHub: run as root on the machine where TLJH is installed. See docs/hub.md.
#
#   deploy/littlest/install.sh [INDEX]      INDEX: where pip finds PyTorch's CPU build (pytorch.org, "Get started")
set -euo pipefail
course=$(cd "$(dirname "$0")/../.." && pwd)
user=/opt/tljh/user
test -x $user/bin/pip || { echo "The Littlest JupyterHub is not installed here ($user is missing)." >&2; exit 1; }

# Into the environment that all learners share. A copy, not an editable install: nobody can write in it.
test -z "${1-}" || $user/bin/pip install --no-deps --index-url "$1" "$(grep '^torch==' "$course/requirements.lock")"
$user/bin/pip install -r "$course/requirements.lock"
$user/bin/pip install --no-deps "$course"
$user/bin/python -c 'import matplotlib.font_manager' 2>/dev/null

# What every new learner finds in the home folder; learners who are there already: cp -r /etc/skel/ddp-course ~.
(cd / && DDP_COURSE_LEARNER=/etc/skel/ddp-course $user/bin/ddp-course lab --only-copy)

install -m 644 "$course/deploy/littlest/ddp_course.py" /opt/tljh/config/jupyterhub_config.d/
tljh-config set user_environment.default_app jupyterlab
tljh-config reload hub
