"""What torch's launcher tells a process, and what other launchers say that is not for us."""

import pytest

from drobench.app.ranks import told_by_launcher


@pytest.mark.parametrize(("name", "alone"), [("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)])
def test_only_torchs_launcher_is_listened_to(monkeypatch, name, alone):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    # As srun or mpirun would set it.
    monkeypatch.setenv(name, "5")
    assert told_by_launcher(name, alone) == alone
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
    assert told_by_launcher(name, alone) == 5
