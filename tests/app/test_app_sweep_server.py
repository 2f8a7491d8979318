"""The server of a sweep's processes, and how these have ended."""

import pytest

from drobench.app.sweep_server import how_it_ended, start_server


@pytest.mark.parametrize(
    ("code", "said"), [(0, "ended with code 0"), (3, "ended with code 3"), (-9, "was killed by signal 9 (SIGKILL)")]
)
def test_the_end_of_a_process_is_told_in_words(code, said):
    assert how_it_ended(code) == said


@pytest.mark.process
def test_there_is_one_server_however_often_it_is_started(tmp_path):
    parents = []
    for _ in range(2):
        context = start_server()
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=tell_parent, args=(there,))
        process.start()
        parents.append(here.recv())
        process.join()
    assert parents[0] == parents[1]


def tell_parent(pipe):
    import os

    pipe.send(os.getppid())
