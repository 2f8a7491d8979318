"""Running checks on a subject that breaks a promise, and what is asked of the messages."""

from drobench.checks.running import run_checks


def failures(checks, entry):
    """Return the reasons of the checks that fail, by their names."""
    results = run_checks({"TestBroken": type("TestBroken", (checks,), {"entry": entry})})
    return {result.check: result.reason for result in results if result.outcome == "failed"}


def assert_exactly(failed, expected, kind):
    """Exactly these fail, and each says what was expected, what was found and what to do."""
    assert set(failed) == expected, failed
    for reason in failed.values():
        assert reason.startswith(f"{kind} 'sample': expected ")
        assert "; found " in reason
        assert " To do: " in reason
