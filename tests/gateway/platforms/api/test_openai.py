"""Clients of OpenAI's API gain a memory by another URL and a header: seen by OpenAI's own SDK."""

from __future__ import annotations

import openai
import pytest

from hermes_sessions.gateway.platforms.api.adapter import MODEL
from hermes_sessions_testing.scripted_model import Call, Thought, failure, streamed
from tests.gateway.platforms.api.harness import ApiHarness


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def ask(client: openai.OpenAI, *messages: dict[str, str], **more: object) -> str:
    answer = client.chat.completions.create(model="any", messages=list(messages), **more)
    assert answer.choices[0].finish_reason == "stop"
    return answer.choices[0].message.content or ""


def without_system(messages: list[dict[str, object]]) -> list[dict[str, object]]:
    return [message for message in messages if message["role"] != "system"]


def test_a_session_id_gives_a_client_memory(harness: ApiHarness) -> None:
    with harness.openai(**{"X-Hermes-Session-Id": "walks"}) as client:
        assert ask(client, user("I have a dog")) == "You said: I have a dog"
        assert ask(client, user("What do I have?")) == "You said: What do I have?"
    assert without_system(harness.prompts()[-1]) == [
        user("I have a dog"),
        assistant("You said: I have a dog"),
        user("What do I have?"),
    ]


def test_memory_survives_a_restart(harness: ApiHarness) -> None:
    with harness.openai(**{"X-Hermes-Session-Id": "walks"}) as client:
        ask(client, user("I have a dog"))
    assert harness.running is not None
    assert harness.running.stop() is True
    harness.start()
    with harness.openai(**{"X-Hermes-Session-Id": "walks"}) as client:
        ask(client, user("What do I have?"))
    assert user("I have a dog") in harness.prompts()[-1]


def test_without_an_id_every_call_is_its_own_session(harness: ApiHarness) -> None:
    with harness.openai() as client:
        ask(client, user("I have a dog"))
        ask(client, user("What do I have?"))
    assert without_system(harness.prompts()[-1]) == [user("What do I have?")]
    with harness.open_db() as db:
        assert len(db.list_sessions_rich(source="api_server")) == 2


def test_without_an_id_the_model_sees_what_the_client_sends(harness: ApiHarness) -> None:
    talk = [user("I have a dog"), assistant("Nice."), user("And a cat")]
    with harness.openai() as client:
        ask(client, {"role": "system", "content": "Be a pirate."}, *talk)
    (prompt,) = harness.prompts()
    assert without_system(prompt) == talk
    assert str(prompt[0]["content"]).startswith("Be a pirate.")
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        stored = [(row["role"], row["content"]) for row in db.get_messages(session["id"])]
    assert stored == [
        ("user", "I have a dog"),
        ("assistant", "Nice."),
        ("user", "And a cat"),
        ("assistant", "You said: And a cat"),
    ]


def test_with_an_id_nothing_is_stored_twice(harness: ApiHarness) -> None:
    """Clients send all they know with every request."""
    with harness.openai(**{"X-Hermes-Session-Id": "walks"}) as client:
        first = ask(client, user("One"))
        second = ask(client, user("One"), assistant(first), user("Two"))
        ask(client, user("One"), assistant(first), user("Two"), assistant(second), user("Three"))
    texts = [message["content"] for message in without_system(harness.prompts()[-1])]
    assert texts == ["One", "You said: One", "Two", "You said: Two", "Three"]


def test_with_an_id_the_clients_system_prompt_counts(harness: ApiHarness) -> None:
    with harness.openai(**{"X-Hermes-Session-Id": "walks"}) as client:
        ask(client, {"role": "system", "content": "Be a pirate."}, user("One"))
        ask(client, {"role": "developer", "content": "Be a monk."}, user("Two"))
    first, second = (str(prompt[0]["content"]) for prompt in harness.prompts())
    assert "Be a pirate." in first
    assert "Be a monk." in second
    assert "pirate" not in second


def test_the_answer_names_the_session_to_go_on_with(harness: ApiHarness) -> None:
    with harness.openai() as client:
        answer = client.chat.completions.with_raw_response.create(
            model="any", messages=[user("I have a dog")]
        )
        session = answer.headers["X-Hermes-Session-Id"]
    with harness.openai(**{"X-Hermes-Session-Id": session}) as client:
        ask(client, user("What do I have?"))
    assert user("I have a dog") in harness.prompts()[-1]


def test_an_answer_is_streamed(harness: ApiHarness) -> None:
    harness.script.append(streamed(Thought("Hm."), "Hello", " there"))
    with harness.openai(**{"X-Hermes-Session-Id": "walks"}) as client:
        chunks = list(
            client.chat.completions.create(model="any", messages=[user("Hi")], stream=True)
        )
    texts = [chunk.choices[0].delta.content for chunk in chunks]
    assert [text for text in texts if text] == ["Hello", " there"]
    assert chunks[-1].choices[0].finish_reason == "stop"
    thoughts = [getattr(chunk.choices[0].delta, "reasoning_content", None) for chunk in chunks]
    assert "Hm." in thoughts
    assert {chunk.model for chunk in chunks} == {MODEL}


def test_an_answer_is_streamed_while_it_is_written(harness: ApiHarness) -> None:
    gate = harness.model.gate()
    harness.script.append(streamed("Hello", gate, " there"))
    with harness.openai() as client:
        stream = client.chat.completions.create(model="any", messages=[user("Hi")], stream=True)
        texts = (chunk.choices[0].delta.content for chunk in stream)
        assert next(text for text in texts if text) == "Hello"
        gate.open()
        assert [text for text in texts if text] == [" there"]


def test_texts_before_and_after_a_tool_are_told_apart(harness: ApiHarness) -> None:
    harness.script.append(streamed("Let me look.", Call("session_search", {"query": "dog"})))
    harness.script.append(streamed("Nothing."))
    with harness.openai() as client:
        chunks = client.chat.completions.create(model="any", messages=[user("Hi")], stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == "Let me look.\n\nNothing."


def test_a_command_is_answered(harness: ApiHarness) -> None:
    with harness.openai(**{"X-Hermes-Session-Id": "walks"}) as client:
        assert "/new" in ask(client, user("/help"))
        stream = client.chat.completions.create(model="any", messages=[user("/help")], stream=True)
        assert "/new" in "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert harness.prompts() == []


def test_a_model_that_fails_is_told_and_not_asked_again(harness: ApiHarness) -> None:
    harness.script.append(failure(400, "no such model"))
    with (
        harness.openai(**{"X-Hermes-Session-Id": "walks"}) as client,
        pytest.raises(openai.APIStatusError) as failed,
    ):
        ask(client, user("Hi"))
    assert failed.value.status_code == 502
    assert "no such model" in failed.value.message
    assert len(harness.prompts()) == 1


def test_a_model_that_fails_ends_the_stream_with_an_error(harness: ApiHarness) -> None:
    harness.script.append(failure(400, "no such model"))
    with harness.openai() as client:
        stream = client.chat.completions.create(model="any", messages=[user("Hi")], stream=True)
        with pytest.raises(openai.APIError, match="no such model"):
            list(stream)


def test_parts_of_text_are_one_text(harness: ApiHarness) -> None:
    parts = [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]
    with harness.openai() as client:
        assert ask(client, {"role": "user", "content": parts}) == "You said: One\nTwo"  # type: ignore[dict-item]


def test_the_models_are_listed(harness: ApiHarness) -> None:
    with harness.openai() as client:
        assert [model.id for model in client.models.list()] == [MODEL]


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"n": 2}, "n"),
        ({"n": [2]}, "n"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_what_the_agent_cannot_do_is_refused(
    harness: ApiHarness, more: dict[str, object], param: str
) -> None:
    with harness.openai() as client, pytest.raises(openai.BadRequestError) as refused:
        ask(client, user("Hi"), **more)
    assert refused.value.param == param
    assert refused.value.code == "unsupported_parameter"


def test_a_wrong_token(harness: ApiHarness) -> None:
    with (
        harness.openai() as client,
        pytest.raises(openai.AuthenticationError) as refused,
    ):
        client.with_options(api_key="wrong").models.list()
    assert refused.value.code == "invalid_api_key"


def test_how_the_model_samples_is_the_gateways_matter(harness: ApiHarness) -> None:
    with harness.openai() as client:
        assert ask(client, user("Hi"), temperature=0.1, max_tokens=5, user="anna@example.org")
