"""Stands where clients look for the Mooncake transfer engine; ``mooncake.engine`` is all it has."""
