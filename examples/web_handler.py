"""An HTTP server that remembers what each visitor said. It uses asyncio and no framework.

python web_handler.py [FILE] [PORT]
curl 'http://127.0.0.1:8000/anna?Hello'
"""

import asyncio
import sys
from urllib.parse import unquote

from hermes_sessions import AsyncSessionDB


async def answer(db: AsyncSessionDB, visitor: str, text: str) -> str:
    """Store what the visitor said, and what we say."""
    session_id = f"web-{visitor}"
    await db.create_session(session_id, source="web", user_id=visitor)  # no-op if it exists
    count = await db.message_count(session_id) // 2
    reply = f"Hello {visitor}, you have written {count} times before."
    await db.append_messages(
        session_id,
        [{"role": "user", "content": text}, {"role": "assistant", "content": reply}],
    )
    return reply


async def serve(path: str, port: int) -> None:
    async with AsyncSessionDB.open(path) as db:

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await reader.readuntil(b"\r\n\r\n")
            target = request.split(b" ", 2)[1].decode("ascii", "replace")
            visitor, _, text = unquote(target.lstrip("/")).partition("?")
            body = (await answer(db, visitor or "stranger", text)).encode() + b"\n"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n")
            writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", port)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    file, number = [*sys.argv[1:], *["example.db", "8000"][len(sys.argv) - 1 :]]
    asyncio.run(serve(file, int(number)))
