"""Answers in the notebook itself: the lineage of a frame as a picture, as words, and as a widget."""
