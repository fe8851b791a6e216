"""Events of the three streams: models, decoding, ids and validation."""
