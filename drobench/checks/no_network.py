"""Loading without a network: every attempt to reach one is refused and noted.

    python -m drobench.checks.no_network MODULE ...

imports modules in a new process whose network is cut off, and prints for each what it tried to reach.
"""

import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

_WAYS = ("connect", "connect_ex", "sendto")
_TIMEOUT = 120.0


class NetworkRefused(OSError):
    """Somebody tried to reach the network."""


@contextmanager
def no_network() -> Iterator[list[str]]:
    """Yield the list of what was tried; sockets of this machine itself stay usable."""
    tried: list[str] = []

    def refuse(*arguments: Any, **_options: Any) -> Any:
        tried.append(repr(arguments[-1]))
        raise NetworkRefused(f"the network is cut off here; tried to reach {arguments[-1]!r}")

    def guarded(original: Any) -> Any:
        def call(self: socket.socket, *arguments: Any) -> Any:
            if self.family in (socket.AF_INET, socket.AF_INET6):
                return refuse(*arguments)
            return original(self, *arguments)

        return call

    patches = [mock.patch.object(socket.socket, way, guarded(getattr(socket.socket, way))) for way in _WAYS]
    patches += [mock.patch.object(socket, name, refuse) for name in ("getaddrinfo", "create_connection")]
    for patch in patches:
        patch.start()
    try:
        yield tried
    finally:
        for patch in patches:
            patch.stop()


def tried_at_import(*modules: str) -> str:
    """Import modules in a new process and return what they tried to reach, or why one could not be imported.

    What was found is remembered, so that many modules can share the start of one process.
    """
    new = [module for module in modules if module not in _found]
    if new:
        done = subprocess.run(  # noqa: S603  # this very module
            [sys.executable, "-m", "drobench.checks.no_network", *new],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"drobench.checks.no_network ended with code {done.returncode}: {done.stderr}")
        _found.update(json.loads(done.stdout.splitlines()[-1]))
    return "; ".join(_found[module] for module in modules if _found[module])


_found: dict[str, str] = {}


def main() -> None:
    """Import the modules that are named on the command line."""
    found: dict[str, str] = {}
    for module in sys.argv[1:]:
        with no_network() as tried:
            try:
                importlib.import_module(module)
            except Exception as error:  # whatever a stranger's module raises belongs into the report about it
                found[module] = f"{type(error).__name__}: {error}"
        found.setdefault(module, f"attempts to reach {', '.join(tried)}" if tried else "")
    print(json.dumps(found))  # noqa: T201  # read by whoever started this process


if __name__ == "__main__":
    main()
