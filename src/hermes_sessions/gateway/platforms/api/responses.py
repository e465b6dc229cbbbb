"""Answers in JSON, whatever they say."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse


class Json(JSONResponse):
    """JSON in UTF-8. Stored text can hold what UTF-8 cannot, the half of a pair: then it is ASCII,
    in which everything can be written.
    """

    def render(self, content: Any) -> bytes:
        """See `JSONResponse.render`."""
        try:
            return super().render(content)
        except UnicodeEncodeError:
            return json.dumps(content, allow_nan=False).encode("ascii")
