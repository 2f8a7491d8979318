"""The mathematics of one problem instance: losses, forms, outer functions, regularizers and counted oracles."""
