"""Here so that this folder is on the path of the tests in its rooms, which share its samples."""
