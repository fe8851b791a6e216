"""The documents that the page's views are drawn from, one module each."""
