"""The three streams of events: their shapes, their ids, what is accepted."""
