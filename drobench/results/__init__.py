"""What runs leave behind: records, the folder that keeps them, and the tables that compare them.

Nothing is imported here, so that reading one record does not load what only a leaderboard needs.
"""
