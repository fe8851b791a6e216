"""The option that says which of several facets of one name counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from clew.events.facet_order import FacetOrder

_ORDERS = {order.option: order for order in FacetOrder}


def facet_order_option(when: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--facet-order`, given to the command as a FacetOrder or None."""

    def chosen(_: click.Context, __: click.Parameter, value: str | None) -> FacetOrder | None:
        return None if value is None else _ORDERS[value]

    text = f"Which of several facets of one name counts: the last received, or the last by its event's time. {when}"
    return click.option("--facet-order", type=click.Choice(list(_ORDERS)), callback=chosen, help=text)
