"""Conformance checks for plugins, ours or anybody else's."""
