"""What several solvers of ours are made of: no solver by itself."""
