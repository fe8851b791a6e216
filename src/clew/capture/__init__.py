"""The notebook agent: what a notebook did to its data, as three streams of events."""
