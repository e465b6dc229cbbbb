"""How adapters hand over what arrived: nothing is confirmed to a platform that is not kept."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hermes_sessions.errors import HermesSessionsError, InvalidInput
from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.port import Services


async def is_taken(
    services: Services | None,
    inbound: Inbound,
    *,
    named: str,
    skip: Callable[[str], None],
    logger: logging.Logger,
) -> bool:
    """Offer a message to the gateway; return whether it need not be offered again, and may be
    confirmed to its platform. *skip* hears why one is no message for anybody; *named* is how the
    log calls it. Raises nothing but cancellation: whoever receives goes on.
    """
    if services is None:
        return False
    try:
        await services.accept(inbound)
    except InvalidInput as error:
        skip(str(error))
    except HermesSessionsError as error:
        logger.warning("%s cannot be stored yet: %s", named, error)
        return False
    except Exception:
        logger.exception("%s could not be taken", named)
        return False
    return True
