"""The messages fabric: asks and replies between any two members, keyed, where nobody else may wait."""
