"""Datasets as the rest of the program sees them: checked, split, standardized, with a checksum."""
