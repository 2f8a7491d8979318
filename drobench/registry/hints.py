"""Where plugins and the rooms above find the hint for a misspelt name, which lower rooms need too."""

from drobench.hints import did_you_mean

__all__ = ["did_you_mean"]
