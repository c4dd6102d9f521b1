# misconception: logged_only
# breaks: It names the machine and the local rank of the rank that failed first.
import os


def find_the_traceback(folder):
    for where, _, names in sorted(os.walk(folder), reverse=False):
        if "stderr.log" in names and "error.json" not in names:
            lines = open(os.path.join(where, "stderr.log")).read().strip().splitlines()
            if any(line.startswith("Traceback") for line in lines):
                machine, _, _, local = os.path.relpath(where, folder).split(os.sep)
                return machine, int(local), lines[-1]
