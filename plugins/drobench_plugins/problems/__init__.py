"""Problems: what is to be minimised, and what counts."""
