"""What the user's own loop is made of, shared out over members: its data now, its model and optimizer beside it."""
