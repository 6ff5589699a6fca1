"""Hosts for the tests of this folder."""
