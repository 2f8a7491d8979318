"""The solvers, problems and datasets that come with drobench, through the same door as a stranger's."""
