"""What makes the tables and pictures of docs/: from the stored runs of a sweep, or from instances made on the spot."""
