"""What calls of a model used and cost, written beside the session they were made for.

The four kinds of tokens are stored apart, as the columns mean them: input is what was neither read
from a provider's cache nor written to it. How a call was priced stands in ``billing_mode`` of its
row, so that calls of which nobody knows the cost never disappear in a sum with others.
"""

from __future__ import annotations

from typing import Any

from hermes_sessions.agent.clients.port import Reply, Usage
from hermes_sessions.agent.pricing import Cost, Pricing, fresh_input
from hermes_sessions.storage.sessiondb import SessionDB


def count_call(db: SessionDB, session_id: str, reply: Reply, asked: str, pricing: Pricing) -> Cost:
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


def count_side_call(
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
        "input_tokens": fresh_input(usage),
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
