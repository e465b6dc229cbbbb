"""The cost of model calls, from list prices, without network access.

Prices in the configuration come first, then those of the `model_catalogue`. A model that neither
knows has an unknown cost, which is never counted as zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.agent.clients.port import Reply, Usage
from hermes_sessions.agent.model_catalogue import catalogue_version, provider_at
from hermes_sessions.model.price import Price
from hermes_sessions.storage.sessiondb import SessionDB

# The four kinds of tokens are stored separately: "input" is neither read from the provider's cache
# nor written to it. ``billing_mode`` of a row says how the call was priced, so that calls of
# unknown cost are never hidden in a sum with others.


def record_call_usage(
    db: SessionDB, session_id: str, reply: Reply, asked: str, pricing: Pricing
) -> Cost:
    """Add a call of the conversation itself to its session; return its cost."""
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
    """Add a call beside the conversation, such as the one for its title; return its cost. No-op if
    the session was deleted meanwhile.
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
#: Providers whose stated cost is in US dollars.
_STATES_DOLLARS: Final = frozenset({"openrouter"})


class Cost(NamedTuple):
    """The cost of a call, and how it is known."""

    #: None if unknown.
    usd: float | None
    status: CostStatus
    #: The source of the prices: ``catalogue``, ``config``, ``provider``, ``local``.
    source: str | None = None
    #: The version of the catalogue.
    version: str | None = None


UNKNOWN: Final = Cost(None, "unknown")
INCLUDED: Final = Cost(0.0, "included", "local")


@dataclass(frozen=True, slots=True)
class Pricing:
    """The prices at one endpoint. Reads the catalogue on first use."""

    #: None for the free model in this process, see `is_local`.
    base_url: str | None = None
    #: Prices from the configuration, by model name.
    own: tuple[tuple[str, Price], ...] = ()
    is_local: bool = False

    @property
    def provider(self) -> str | None:
        """The provider's name in the catalogue; None if it does not know the URL."""
        found = provider_at(self.base_url) if self.base_url else None
        return found.name if found else None

    def cost(self, usage: Usage, *models: str | None) -> Cost:
        """Return the cost of a call of a model, which may have several names.

        The cost is unknown unless the provider reported input and output tokens.
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


#: Prices for an unknown endpoint.
UNPRICED: Final = Pricing()


def uncached_input_tokens(usage: Usage) -> int:
    """Return the input tokens that were neither read from a cache nor written to one.

    Most endpoints include cached tokens in the input. Where the cached tokens exceed the input, the
    endpoint counts them separately.
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
