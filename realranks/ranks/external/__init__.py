"""LOOK FROM OUTSIDE at ranks without anything of the course in them: through py-spy and /proc, and reading only."""
