"""The description says what the routes do: the same routes, and answers of the described shape."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from hermes_sessions.gateway.metrics import GatewayMetrics
from hermes_sessions.gateway.platforms.api.openapi import description
from hermes_sessions.gateway.platforms.api.routes import Api
from hermes_sessions.gateway.platforms.api.settings import ApiSettings
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.platforms.api.harness import TOKEN, ApiHarness

SPEC = description()
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def faults(schema: dict[str, Any], value: Any, where: str = "") -> list[str]:
    """What of JSON Schema the description uses, checked; keys that it does not name are faults."""
    if "$ref" in schema:
        return faults(
            SPEC["components"]["schemas"][schema["$ref"].rpartition("/")[2]], value, where
        )
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{where}: {value!r} is not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is none of {schema['enum']}")
    if kinds := schema.get("type"):
        kinds = [kinds] if isinstance(kinds, str) else kinds
        allowed = tuple(type_ for kind in kinds for type_ in TYPES[kind])
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            return [*found, f"{where}: {value!r} is no {kinds}"]
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{where}: {value!r} does not match")
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            found += faults(schema["items"], item, f"{where}[{number}]")
    if isinstance(value, dict) and "properties" in schema:
        found += [f"{where}.{name} is missing" for name in schema["required"] if name not in value]
        for name, item in value.items():
            known = schema["properties"].get(name)
            at = f"{where}.{name}"
            found += [f"{at} is not described"] if known is None else faults(known, item, at)
    return found


def schema_of(method: str, path: str, status: int) -> dict[str, Any]:
    answers = SPEC["paths"][path][method.lower()]["responses"]
    answer = answers.get(str(status), answers.get("default"))
    schema: dict[str, Any] = answer["content"]["application/json"]["schema"]
    return schema


def test_every_route_is_described_and_nothing_else() -> None:
    settings = ApiSettings(token=TOKEN)
    services = RecordingServices()
    api = Api(settings, services, GatewayMetrics(), asyncio.Event(), "m", services.watch)
    routes = {
        (method, route.path)
        for route in api.app().routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {
        (method.upper(), path) for path, methods in SPEC["paths"].items() for method in methods
    }
    assert routes == described


def test_it_is_what_openapi_asks_for() -> None:
    assert SPEC["openapi"] == "3.1.0"
    names = [
        operation["operationId"] for path in SPEC["paths"].values() for operation in path.values()
    ]
    assert len(set(names)) == len(names)
    for path, methods in SPEC["paths"].items():
        for operation in methods.values():
            named = {
                parameter["name"]
                for parameter in operation.get("parameters", [])
                if parameter["in"] == "path"
            }
            assert named == set(re.findall(r"{(\w+)}", path))
            assert all(answer["description"] for answer in operation["responses"].values())


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*(references(item) for item in value.values()))
    return set().union(*(references(item) for item in value)) if isinstance(value, list) else set()


def test_every_schema_is_used_and_every_reference_leads_somewhere() -> None:
    known = {f"#/components/schemas/{name}" for name in SPEC["components"]["schemas"]}
    assert references(SPEC) == known


def test_the_checker_finds_faults() -> None:
    receipt = {"$ref": "#/components/schemas/Receipt"}
    assert faults(receipt, {"object": "receipt", "status": "lost", "waiting": True})


def test_answers_have_the_described_shape(harness: ApiHarness, client: httpx.Client) -> None:
    chat = {"messages": [{"role": "user", "content": "Hi"}]}
    calls: list[tuple[str, str, str, Any]] = [
        ("GET", "/healthz", "/healthz", None),
        ("GET", "/readyz", "/readyz", None),
        ("GET", "/v1/models", "/v1/models", None),
        ("POST", "/v1/chat/completions", "/v1/chat/completions", chat),
        ("POST", "/v1/chat/completions", "/v1/chat/completions", {}),
    ]
    messages = "/v1/conversations/{conversation}/messages"
    calls += [
        ("POST", "/v1/conversations/x/messages", messages, {"text": "Hi"}),
        ("POST", "/v1/conversations/x/messages?wait", messages, {"text": "Hi"}),
        ("POST", "/v1/conversations/x/messages?wait", messages, {"text": "/help"}),
        ("GET", "/v1/conversations/x/messages", messages, None),
        ("GET", "/v1/conversations/nothing/messages", messages, None),
        ("GET", "/v1/sessions", "/v1/sessions", None),
    ]
    for method, address, path, body in calls:
        answer = client.request(method, address, json=body)
        schema = schema_of(method, path, answer.status_code)
        assert faults(schema, answer.json()) == [], (method, address)
    (session, *_) = client.get("/v1/sessions").json()["data"]
    found = client.get(f"/v1/sessions/{session['id']}/messages")
    schema = schema_of("GET", "/v1/sessions/{session_id}/messages", 200)
    assert faults(schema, found.json()) == []


def test_it_can_be_fetched_without_the_token(harness: ApiHarness) -> None:
    with harness.client(token=None) as anybody:
        assert anybody.get("/openapi.json").json() == SPEC


@pytest.mark.parametrize("path", [path for path in SPEC["paths"] if path.startswith("/v1")])
def test_everything_that_is_said_needs_the_token(path: str) -> None:
    for operation in SPEC["paths"][path].values():
        assert "security" not in operation
        assert "default" in operation["responses"]
