"""The composites there are: of losses, of losses with dual variables, of plain functions."""
