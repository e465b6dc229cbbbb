"""An agent with a tool of your own. Without a model's address it talks to a scripted model.

python agent_with_tool.py FILE [BASE_URL MODEL [API_KEY]]
"""

import sys
from contextlib import ExitStack

from hermes_sessions import Agent, SessionDB, Tool
from hermes_sessions.agent.clients.openai_compatible import OpenAICompatibleClient

STOCK = {"tea": 12, "coffee": 3}


def look_up(arguments, context):
    """Return the stock of an item. A KeyError would be shown to the model as the result."""
    return {"item": arguments["item"], "stock": STOCK[arguments["item"]]}


CHECK_STOCK = Tool(
    "check_stock",
    "Returns how many of an item are in stock.",
    {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
    look_up,
)


def main(path: str, *endpoint: str) -> None:
    with ExitStack() as stack:
        db = stack.enter_context(SessionDB(path))
        if not endpoint:
            from hermes_sessions_testing.scripted_model import Call, ScriptedModel

            model = stack.enter_context(ScriptedModel())
            model.say(Call("check_stock", {"item": "tea"}))
            model.say("There are 12 packs of tea.")
            endpoint = (model.base_url, "scripted-1")
        url, name, *key = endpoint
        client = OpenAICompatibleClient(url, model=name, api_key=key[0] if key else None)

        agent = Agent(db, client, [CHECK_STOCK], instructions="You run a small shop.")
        result = agent.run("How much tea do we have?")
        print(result.text)

        # Everything is stored: the question, the tool call, its result and the answer.
        for message in db.get_messages(result.session_id):
            print(f"  {message['role']}: {message['content']}")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["example.db"])
