import json
from pathlib import Path


def find_the_traceback(folder):
    found = []
    for path in sorted(Path(folder).glob("*/*/attempt_*/*/error.json")):
        machine, _, attempt, local, _ = path.relative_to(folder).parts
        content = json.loads(path.read_text())["message"]
        found.append((int(attempt.partition("_")[2]), machine, int(local), content["message"], content["extraInfo"]["timestamp"]))
#~ as_text -1 |        found.append((attempt, machine, int(local), content["message"], content["extraInfo"]["timestamp"]))
    last = max(entry[0] for entry in found)
#~ first_attempt -1 |    last = min(entry[0] for entry in found)
    found = [entry for entry in found if entry[0] == last]
    causes = [entry for entry in found if "Connection closed by peer" not in entry[3]]
#~ any -1 |    causes = found
#~ clocks -1 |    causes = sorted(found, key=lambda entry: entry[4])
    _, machine, local, message, _ = causes[0]
    return machine, local, message
#~ whole -1 |    return machine, local, "failed"

#~ first_attempt: misconception: old_attempt
#~ first_attempt: breaks: It names the machine and the local rank of the rank that failed first.
#~ as_text: misconception: old_attempt
#~ as_text: breaks: It names the machine and the local rank of the rank that failed first.
#~ any: misconception: first_file
#~ any: breaks: It names the machine and the local rank of the rank that failed first.
#~ clocks: misconception: clocks_trusted
#~ clocks: breaks: It names the machine and the local rank of the rank that failed first.
#~ whole: misconception: none
#~ whole: breaks: It gives the last line of the traceback of that rank.
