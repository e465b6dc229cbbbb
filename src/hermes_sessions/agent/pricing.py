"""What a call costs, from an offline table of list prices. Nobody is asked over the network.

Prices in the configuration come first, then those of the `catalogue`. What neither knows costs an
unknown amount, which is never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.agent.clients.port import Reply, Usage
from hermes_sessions.agent.model_catalogue import catalogue_version, provider_at
from hermes_sessions.model.price import Price
from hermes_sessions.storage.sessiondb import SessionDB

# What calls of a model used and cost, written beside the session they were made for.
#
# The four kinds of tokens are stored apart, as the columns mean them: input is what was neither
# read from a provider's cache nor written to it. How a call was priced stands in ``billing_mode``
# of its row, so that calls of which nobody knows the cost never disappear in a sum with others.


def record_call_usage(
    db: SessionDB, session_id: str, reply: Reply, asked: str, pricing: Pricing
) -> Cost:
    """Add a call of the conversation itself to its session; return what it cost."""
    cost = pricing.cost(reply.usage, reply.model, asked)
    db.update_token_counts(
        session_id,
        **_tokens(reply.usage),
        **_costs(cost),
        **_route(reply, asked, pricing, cost),
        api_call_count=1,
        cost_status=cost.status,
        cost_source=cost.source,
        pricing_version=cost.version,
    )
    return cost


def record_side_call_usage(
    db: SessionDB, session_id: str, task: str, reply: Reply, asked: str, pricing: Pricing
) -> Cost:
    """Add a call for something beside the conversation, such as its title, unless that was deleted
    meanwhile; return its cost.
    """
    cost = pricing.cost(reply.usage, reply.model, asked)
    db.record_auxiliary_usage(
        session_id,
        task,
        **_tokens(reply.usage),
        **_costs(cost),
        **_route(reply, asked, pricing, cost),
        create=False,
    )
    return cost


def _tokens(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": uncached_input_tokens(usage),
        "output_tokens": usage.output_tokens or 0,
        "cache_read_tokens": usage.cache_read_tokens or 0,
        "cache_write_tokens": usage.cache_write_tokens or 0,
        "reasoning_tokens": usage.reasoning_tokens or 0,
    }


def _costs(cost: Cost) -> dict[str, Any]:
    name = "actual_cost_usd" if cost.status == "actual" else "estimated_cost_usd"
    return {name: cost.usd}


def _route(reply: Reply, asked: str, pricing: Pricing, cost: Cost) -> dict[str, Any]:
    return {
        "model": reply.model or asked,
        "billing_provider": pricing.provider,
        "billing_base_url": pricing.base_url,
        "billing_mode": f"{cost.source} {cost.version}" if cost.version else cost.status,
    }


CostStatus = Literal["actual", "estimated", "included", "unknown"]

_MILLION: Final = 1_000_000
#: Where the amount that the endpoint states is in US dollars.
_STATES_DOLLARS: Final = frozenset({"openrouter"})


class Cost(NamedTuple):
    """What a call costs, and how that is known."""

    #: None when it is unknown.
    usd: float | None
    status: CostStatus
    #: Where the prices are from: ``catalogue``, ``config``, ``provider``, ``local``.
    source: str | None = None
    #: Which prices: the version of the catalogue.
    version: str | None = None


UNKNOWN: Final = Cost(None, "unknown")
INCLUDED: Final = Cost(0.0, "included", "local")


@dataclass(frozen=True, slots=True)
class Pricing:
    """The prices at one endpoint. Reads the catalogue when it is first asked."""

    #: None where nobody is paid: the model in this process, when `is_local`.
    base_url: str | None = None
    #: Prices of the configuration, by the name of the model.
    own: tuple[tuple[str, Price], ...] = ()
    is_local: bool = False

    @property
    def provider(self) -> str | None:
        """Who is paid, as the catalogue names them; None when it does not know the address."""
        found = provider_at(self.base_url) if self.base_url else None
        return found.name if found else None

    def cost(self, usage: Usage, *models: str | None) -> Cost:
        """Return what a call of a model costs, which may have several names.

        Without the provider's count of tokens in both directions the cost is unknown.
        """
        if self.is_local:
            return INCLUDED
        provider = provider_at(self.base_url) if self.base_url else None
        if usage.stated_cost is not None and provider and provider.name in _STATES_DOLLARS:
            return Cost(usage.stated_cost, "actual", "provider")
        if usage.input_tokens is None or usage.output_tokens is None:
            return UNKNOWN
        names = [name.strip().lower() for name in models if name]
        for own, price in self.own:
            if own.strip().lower() in names:
                return Cost(_amount(usage, price), "estimated", "config")
        for name in names:
            found = provider.price(name, usage.input_tokens) if provider else None
            if found is not None:
                return Cost(_amount(usage, found), "estimated", "catalogue", catalogue_version())
        return UNKNOWN


#: Where nothing is known of prices.
UNPRICED: Final = Pricing()


def uncached_input_tokens(usage: Usage) -> int:
    """Return the input tokens that were neither read from a cache nor written to one.

    Endpoints count those within the input; the few that count them beside it are recognised by
    sums that would not add up.
    """
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    whole = usage.input_tokens or 0
    return whole - cached if whole >= cached else whole


def _amount(usage: Usage, price: Price) -> float:
    parts = (
        (uncached_input_tokens(usage), price.input),
        (usage.output_tokens or 0, price.output),
        (usage.cache_read_tokens or 0, price.input if price.cached is None else price.cached),
        (usage.cache_write_tokens or 0, price.input if price.written is None else price.written),
    )
    return sum(tokens * dollars for tokens, dollars in parts) / _MILLION
