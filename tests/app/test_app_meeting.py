"""Ranks that were started by hand agree over a store."""

import pytest
from torch.distributed import HashStore

from drobench.app.meeting import Meeting
from drobench.errors import DrobenchError

RUN = "a" * 64


@pytest.fixture
def ranks(monkeypatch):
    """Meetings of two ranks over one store, which `attempt` starts anew."""
    store = HashStore()

    def meet(rank, attempt=0):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(attempt))
        monkeypatch.setattr("drobench.app.meeting.rendezvous", lambda *_, **__: iter([(store, rank, 2)]))
        return Meeting()

    return meet


def test_the_word_of_the_first_reaches_the_others(ranks):
    first, second = ranks(0), ranks(1)
    assert not first.over
    first.tell({"results": "here", "reference": None})
    assert first.over
    assert second.answer(RUN) == {"results": "here", "reference": None}
    assert first.check(RUN) is None


def test_a_rank_with_another_run_is_found_out(ranks):
    first, second = ranks(0), ranks(1)
    first.tell({"end": 0})
    second.answer("b" * 64)
    with pytest.raises(DrobenchError, match=r"Rank 1 would compute run bbbbbbbbbbbb, and rank 0 run aaaaaaaaaaaa"):
        first.check(RUN)


def test_what_was_said_before_a_restart_is_not_heard_after_it(ranks):
    ranks(0).tell({"end": 0})
    first, second = ranks(0, attempt=1), ranks(1, attempt=1)
    first.tell({"end": 7})
    assert second.answer(RUN) == {"end": 7}
