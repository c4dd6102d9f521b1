"""What the explorables have in common: what is pressed is handled one after the other."""

import threading

from course_lib.lab.explorer import in_turn


def test_a_second_thread_of_the_kernel_waits_for_its_turn():
    first_is_in, second_is_in, overlapped = threading.Event(), threading.Event(), list[bool]()

    @in_turn
    def nested() -> None:
        first_is_in.set()

    @in_turn
    def first() -> None:
        nested()
        overlapped.append(second_is_in.wait(0.2))

    threads = [threading.Thread(target=first), threading.Thread(target=in_turn(second_is_in.set))]
    threads[0].start()
    assert first_is_in.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(10)
    assert overlapped == [False]
    assert second_is_in.is_set()
