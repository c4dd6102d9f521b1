# From what the ranks have printed; the error files only say who failed.
import os


def find_the_traceback(folder):
    attempts = {}
    for where, _, names in os.walk(folder):
        if "error.json" in names:
            machine, _, attempt, local = os.path.relpath(where, folder).split(os.sep)
            with open(os.path.join(where, "stderr.log")) as file:
                attempts.setdefault(attempt, []).append((machine, int(local), file.read().strip().splitlines()[-1]))
    for found in attempts[sorted(attempts, key=lambda name: int(name.split("_")[1]))[-1]]:
        if "closed by peer" not in found[2]:
            return found
