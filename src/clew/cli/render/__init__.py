"""Results rendered as text."""
