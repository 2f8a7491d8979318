import os
import signal

import pytest


@pytest.fixture
def run(monkeypatch):
    """One run in this process, which is left as it was."""
    from drobench import run

    for name in ("DROBENCH_RESULTS", "DROBENCH_DISABLE_PLUGINS", "DROBENCH_PLUGIN_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    environment, handler = dict(os.environ), signal.getsignal(signal.SIGINT)
    yield run
    signal.signal(signal.SIGINT, handler)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
