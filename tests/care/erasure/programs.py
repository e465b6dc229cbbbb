"""A program that erases from a store and dies after a given number of writes."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from hermes_sessions import SessionDB
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.targets import ErasureSubject


def main(url: str, user_id: str, writes: int) -> None:
    """Resume the pending erasure, or begin one; print its status."""
    with SessionDB.from_url(url) as db:
        write = db.provider.write
        done = 0

        def dying(*arguments: Any, **options: Any) -> Any:
            nonlocal done
            if done == writes:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
            return write(*arguments, **options)

        db.provider.write = dying  # type: ignore[method-assign]
        erasure = Erasure(db.store)
        pending = [receipt for receipt in erasure.receipts() if receipt.status == "pending"]
        if pending:
            receipt = erasure.resume(pending[0].id)
        else:
            receipt = erasure.forget(ErasureSubject("user", user_id))
        print(receipt.status)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
