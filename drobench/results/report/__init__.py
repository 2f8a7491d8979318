"""The report and the figures: from records and curves to one HTML page, or to PNG and SVG files.

Nothing is imported here, so that a command which needs one part does not load the others.
"""
