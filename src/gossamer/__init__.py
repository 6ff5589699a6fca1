"""Gossamer: train models on many workers with any synchronisation strategy, behind one switch."""
