"""`clew completion`: what makes a shell complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options, sessions, datasets and columns.

    \b
    clew completion bash >> ~/.bashrc
    clew completion zsh >> ~/.zshrc
    clew completion fish > ~/.config/fish/completions/clew.fish
    """  # noqa: D301 - click looks for the character itself
    # Written out rather than asked of the shell: the completion of bash starts bash to see how old it is.
    shown = _SHELLS[shell](ctx.find_root().command, {}, "clew", "_CLEW_COMPLETE")
    click.echo(shown.source_template % shown.source_vars())
