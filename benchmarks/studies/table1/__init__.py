"""The paper's Table 1, measured: how the work of each method grows with the problem and with the accuracy."""
