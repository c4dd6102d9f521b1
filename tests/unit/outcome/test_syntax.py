"""Source text is read by several threads at once: the doctor's, those that examine scripts, a rank's own."""

import gc
import sys
import threading
import time
from pathlib import Path

from realranks.outcome import syntax
from realranks.outcome.syntax import parsed, parsed_expression
from tests.support.lesson_code import is_module

ROOT = Path(__file__).parents[3]
TEXTS = [file.read_bytes() for file in sorted((Path(__file__).parents[1] / "doctor").glob("test_*.py"))]


def test_threads_that_parse_at_once_do_not_disturb_each_other():
    """ast.parse itself fails here after some ten thousand texts, on CPython 3.11: the collector lets others run."""
    failed = []

    def read():
        for _ in range(3):
            for text in TEXTS:
                try:
                    parsed(text)
                except SystemError as error:
                    failed.append(str(error))

    def let_others_run(*_):
        time.sleep(0)

    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-5)
    gc.set_threshold(50)
    gc.callbacks.append(let_others_run)
    try:
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(let_others_run)
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
    assert failed == []


def test_a_finalizer_may_parse_while_its_thread_parses():
    class Parses:
        def __del__(self):
            done.append(parsed_expression("f(1)"))

    done = []
    circle = [Parses()]
    circle.append(circle)
    del circle
    with syntax._ONE_AT_A_TIME:
        gc.collect()
    assert done


def test_nothing_of_the_course_parses_past_it():
    parse = [
        str(file.relative_to(ROOT))
        for package in ("course_lib", "realranks")
        for file in sorted((ROOT / package).rglob("*.py"))
        if is_module(file) and "ast.parse(" in file.read_text()
    ]
    assert parse == ["realranks/outcome/syntax.py"]
