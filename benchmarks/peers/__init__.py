"""What other packages answer on small instances, written down for tests to compare with."""
