"""The cost of calls, and what is stored of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.agent.clients.chat_stream import usage_of
from hermes_sessions.agent.clients.model_selection import choose_model
from hermes_sessions.agent.clients.port import Reply, Usage
from hermes_sessions.agent.compaction import compact
from hermes_sessions.agent.model_catalogue import catalogue_version, provider_at
from hermes_sessions.agent.pricing import (
    INCLUDED,
    UNKNOWN,
    UNPRICED,
    Pricing,
    uncached_input_tokens,
)
from hermes_sessions.agent.title_generator import title_session
from hermes_sessions.agent.tools.registry import ToolRegistry
from hermes_sessions.agent.turn import Agent
from hermes_sessions.config import load_settings
from hermes_sessions.model.price import Price
from tests.agent.scripted_client import ScriptedClient

OPENAI = Pricing("https://api.openai.com/v1")
MILLION = 1_000_000


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as db:
        db.create_session("s", "cli")
        yield db


def said(usage: Usage, model: str | None = "gpt-4o-2024-08-06") -> list[Reply]:
    return [Reply("ok", "stop", usage=usage, model=model)]


class TestPrices:
    def test_by_the_catalogue(self) -> None:
        cost = OPENAI.cost(Usage(MILLION, MILLION), "gpt-4o-2024-08-06")
        assert (cost.usd, cost.status, cost.source) == (12.5, "estimated", "catalogue")
        assert cost.version == catalogue_version()
        assert "genai-prices" in catalogue_version()

    def test_cached_input_costs_less(self) -> None:
        cost = OPENAI.cost(Usage(MILLION, 0, cache_read_tokens=MILLION), "gpt-4o")
        assert cost.usd == 1.25

    def test_long_questions_cost_more(self) -> None:
        google = Pricing("https://generativelanguage.googleapis.com/v1beta/openai/")
        short = google.cost(Usage(200_000, 0), "gemini-2.5-pro").usd
        long = google.cost(Usage(200_001, 0), "gemini-2.5-pro").usd
        assert short == pytest.approx(0.25)
        assert long == pytest.approx(0.5, rel=1e-4)

    def test_the_name_that_was_asked_for_helps(self) -> None:
        assert OPENAI.cost(Usage(MILLION, 0), "some-alias", "GPT-4o").usd == 2.5
        assert OPENAI.cost(Usage(MILLION, 0), "gpt-4o-20240806").usd == 2.5

    @pytest.mark.parametrize(
        ("pricing", "model", "usage"),
        [
            (OPENAI, "no-such-model", Usage(1, 1)),
            (OPENAI, None, Usage(1, 1)),
            (OPENAI, "gpt-4o", Usage()),
            (OPENAI, "gpt-4o", Usage(1, None)),
            (Pricing("http://localhost:11434/v1"), "gpt-4o", Usage(1, 1)),
            (UNPRICED, "gpt-4o", Usage(1, 1)),
        ],
    )
    def test_an_unknown_price_is_an_unknown_cost(
        self, pricing: Pricing, model: str | None, usage: Usage
    ) -> None:
        assert pricing.cost(usage, model) == UNKNOWN

    def test_the_local_model_costs_nothing(self) -> None:
        assert Pricing(is_local=True).cost(Usage(), None) == INCLUDED

    def test_prices_of_the_configuration_come_first(self) -> None:
        own = (("GPT-4o", Price(1.0, 2.0)), ("mine", Price(0.0, 0.0)))
        cost = Pricing("https://api.openai.com/v1", own).cost(Usage(MILLION, MILLION), "gpt-4o")
        assert (cost.usd, cost.source, cost.version) == (3.0, "config", None)
        assert Pricing("http://gpu/v1", own).cost(Usage(5, 5), "mine").usd == 0.0

    def test_a_cost_that_the_endpoint_states(self) -> None:
        usage = usage_of({"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.25})
        cost = Pricing("https://openrouter.ai/api/v1").cost(usage, "anything")
        assert (cost.usd, cost.status, cost.source) == (0.25, "actual", "provider")
        assert Pricing("http://elsewhere/v1").cost(usage, "anything") == UNKNOWN

    @pytest.mark.parametrize("cost", [True, -1, "0.1", None, {"total": 1}, float("inf")])
    def test_what_is_no_amount(self, cost: object) -> None:
        assert usage_of({"cost": cost}).stated_cost is None

    def test_models_at_places_that_resell_them(self) -> None:
        azure = Pricing("https://mine.openai.azure.com/openai/v1")
        assert azure.cost(Usage(MILLION, 0), "gpt-4o").usd == 2.5

    def test_fresh_input(self) -> None:
        assert uncached_input_tokens(Usage(10, 1, 4, 3)) == 3
        assert uncached_input_tokens(Usage(10, 1)) == 10
        assert uncached_input_tokens(Usage(2, 1, 400)) == 2, "counted beside the input"


class TestCatalogue:
    def test_every_entry_can_be_used(self) -> None:
        text = files("hermes_sessions.agent").joinpath("catalogue.json").read_text()
        providers = json.loads(text)["providers"]
        assert {"openai", "anthropic", "google", "openrouter", "groq", "mistral"} <= set(providers)
        for facts in providers.values():
            for names, rows, context in facts["models"]:
                assert names
                assert rows[0][0] == 0
                assert all(len(row) == 5 and min(row[1:3]) >= 0 for row in rows)
                assert context is None or context > 0

    def test_how_much_a_model_reads(self) -> None:
        provider = provider_at("https://API.openai.com/v1")
        assert provider is not None
        assert provider.context_length("gpt-4o") == 128_000
        assert provider.context_length("no-such-model") is None
        assert provider_at("http://localhost:1234/v1") is None

    def test_the_configuration_knows_better(self, tmp_path: object) -> None:
        settings = load_settings(str(tmp_path), {}).model
        chosen = choose_model(settings, environ={"OPENAI_API_KEY": "k", "OPENAI_MODEL": "gpt-4o"})
        assert chosen.context_length == 128_000
        assert chosen.pricing.provider == "openai"
        assert choose_model(settings, environ={}).pricing == Pricing(is_local=True)

    def test_no_login_is_stored(self, tmp_path: object) -> None:
        settings = load_settings(str(tmp_path), {}).model
        chosen = choose_model(settings, environ={"HERMES_BASE_URL": "http://me:word@gpu:1/v1?k=w"})
        assert chosen.pricing.base_url == "http://gpu:1/v1"


class TestAccounts:
    def test_a_turn(self, db: SessionDB) -> None:
        client = ScriptedClient(said(Usage(1000, 100, 400)), said(Usage(10, 10), "mystery"))
        agent = Agent(db, client, ToolRegistry(), pricing=OPENAI)
        list(agent.run_turn("s", "one"))
        session = db.get_session("s")
        assert session is not None
        assert session["estimated_cost_usd"] == pytest.approx(0.0025 * 0.6 + 0.0005 + 0.001)
        assert (session["cost_status"], session["cost_source"]) == ("estimated", "catalogue")
        assert session["pricing_version"] == catalogue_version()
        assert (session["input_tokens"], session["cache_read_tokens"]) == (600, 400)
        assert session["billing_provider"] == "openai"
        list(agent.run_turn("s", "two"))
        overview = db.get_insights(0)["overview"]
        assert (overview["total_tokens"], overview["cost_complete"]) == (1120, False)
        assert overview["cost_usd"] == pytest.approx(0.003)

    def test_a_call_of_unknown_cost_does_not_hide_among_others(self, db: SessionDB) -> None:
        client = ScriptedClient(said(Usage(1000, 100)), said(Usage()))
        agent = Agent(db, client, ToolRegistry(), pricing=OPENAI)
        for text in ("one", "two"):
            list(agent.run_turn("s", text))
        modes = {row["billing_mode"]: row["estimated_cost_usd"] for row in db.get_model_usage("s")}
        assert modes == {f"catalogue {catalogue_version()}": 0.0035, "unknown": None}
        assert db.get_insights(0)["overview"]["cost_complete"] is False

    def test_titles_and_summaries_are_counted_and_priced(self, db: SessionDB) -> None:
        for number in range(8):
            db.append_message("s", "user", f"question {number} " * 300)
            db.append_message("s", "assistant", "answer " * 300)
        client = ScriptedClient(said(Usage(1000, 0, 0)), said(Usage(2000, 0)))
        title_session(db, "s", client, "gpt-4o", OPENAI)
        compact(db, "s", client, new_session_id="t", model="gpt-4o", pricing=OPENAI)
        costs = {row["task"]: row["estimated_cost_usd"] for row in db.get_model_usage("s")}
        assert costs == {"title": 0.0025, "compression": 0.005}

    def test_the_local_model_is_included(self, db: SessionDB) -> None:
        client = ScriptedClient(said(Usage(1000, 100), None))
        list(Agent(db, client, ToolRegistry(), pricing=Pricing(is_local=True)).run_turn("s", "x"))
        overview = db.get_insights(0)["overview"]
        assert (overview["cost_usd"], overview["cost_complete"]) == (0.0, True)
