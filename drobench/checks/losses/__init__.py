"""The checks of losses, by what they are about."""
