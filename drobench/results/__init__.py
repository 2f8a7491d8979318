"""What runs leave behind: records and the folder that keeps them; above it, their comparison and the report.

Nothing is imported here, so that reading one record does not load what only a leaderboard needs.
"""
