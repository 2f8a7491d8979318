"""Which solver did best, by how much, and with what right that can be said: from records and curves to boards.

Nothing is imported here, so that a command which needs one part does not load the others.
"""
