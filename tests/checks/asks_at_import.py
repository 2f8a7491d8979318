"""A dataset whose module asks the network while it is imported, and goes on without it."""

import contextlib
import socket

import dataset_subjects

with contextlib.suppress(OSError):
    socket.create_connection(("localhost", 9), timeout=0.1)


def load(config):
    """The good dataset."""
    return dataset_subjects.load(config)
