"""Recording, expanding and delivering the three event streams of a session."""
