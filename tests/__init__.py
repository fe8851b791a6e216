"""A package, since some that are installed bring one of the same name."""
