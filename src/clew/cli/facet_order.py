"""The option `--facet-order`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from clew.events.facet_order import FacetOrder

_ORDERS = {order.option: order for order in FacetOrder}


def facet_order_option(extra_help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--facet-order`; the command receives a FacetOrder or None."""

    def parse(_: click.Context, __: click.Parameter, value: str | None) -> FacetOrder | None:
        return None if value is None else _ORDERS[value]

    help_text = (
        f"Which facet wins when several have the same name: the last received, or the last by event time. {extra_help}"
    )
    return click.option("--facet-order", type=click.Choice(list(_ORDERS)), callback=parse, help=help_text)
