"""The contract of a problem, and the metrics every result is scored by."""
