"""The main job on an example: a notebook, its events, one column's way back."""
