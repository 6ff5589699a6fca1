"""The imagined run: real numbers in virtual time."""
