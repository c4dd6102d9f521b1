# The last line of the traceback itself.
import json
from pathlib import Path


def find_the_traceback(folder):
    files = sorted(Path(folder).glob("*/*/attempt_*/*/error.json"))
    last = max(int(file.parts[-3].removeprefix("attempt_")) for file in files)
    for file in files:
        if file.parts[-3] == f"attempt_{last}":
            text = json.loads(file.read_text())["message"]["extraInfo"]["py_callstack"]
            line = text.strip().splitlines()[-1]
            if "closed by peer" not in line:
                return file.parts[-5], file.parts[-2], line
