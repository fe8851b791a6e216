"""Finding jobs and datasets by what is written of them."""
