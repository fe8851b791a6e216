"""`clew completion`: print a shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print a shell completion script for commands, options, sessions, datasets and columns.

    \b
    clew completion bash >> ~/.bashrc
    clew completion zsh >> ~/.zshrc
    clew completion fish > ~/.config/fish/completions/clew.fish
    """  # noqa: D301 - click looks for the character itself
    # Not `BashComplete.source()`: it starts bash to check its version.
    script = _SHELLS[shell](ctx.find_root().command, {}, "clew", "_CLEW_COMPLETE")
    click.echo(script.source_template % script.source_vars())
