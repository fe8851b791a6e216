"""Command line.

- `main.py`: the `clew` group; commands are imported when called
- `options.py`, `server_options.py`: shared options
- `output.py`, `progress.py`: consoles, number formats, progress
- `completion.py`: shell completion
- `commands/`, `serving.py`: the commands
- `render/`: results as text
"""
