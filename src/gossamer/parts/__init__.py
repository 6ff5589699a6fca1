"""Pure bricks: no network, no clock, no global randomness."""
