"""Methods for constrained problems by what they make of a dial: error against violation."""
