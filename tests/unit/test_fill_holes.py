"""After the holes are filled, what is made comes to lie together; nothing else changes."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Every second object of many sizes is thrown away; then new ones are made, with or without the holes filled before.
MAKE = """
import ctypes, json, sys
from course_lib.ranks.server.fill_holes import fill_holes

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
libc.free.restype, libc.free.argtypes = None, (ctypes.c_void_p,)
kept = [bytes(40 + number % 400) for number in range(100_000)]
texts = [str(one) for one in kept]
chunks = [libc.malloc(200 + number % 5_000) for number in range(6_000)]
del kept[::2]
for place in chunks[::2]:
    libc.free(place)
before = list(kept)
if sys.argv[1] == "filled":
    fill_holes()
made = [bytes(40 + number % 400) for number in range(2_000)]
places = [libc.malloc(200 + number % 5_000) for number in range(200)]
whole = kept == before and [str(one) for one in kept] == texts[1::2]
print(json.dumps([len({id(one) >> 12 for one in made}), len({place >> 12 for place in places}), whole]))
"""


def made(how):
    run = [sys.executable, "-c", MAKE, how]
    return json.loads(subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_what_is_made_comes_to_lie_together():
    objects, chunks, whole = made("filled")
    scattered_objects, scattered_chunks, _ = made("with holes")
    assert whole
    # 2,000 objects of 240 bytes are 120 pages, and 200 chunks of 300 bytes are 15.
    assert objects < 200
    assert scattered_objects > 1.5 * objects
    if hasattr(ctypes.CDLL(None), "mallinfo2"):  # glibc 2.33 and newer
        assert chunks < 30
        assert scattered_chunks > 1.5 * chunks
