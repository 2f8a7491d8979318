"""Places that curves go to besides the record."""
