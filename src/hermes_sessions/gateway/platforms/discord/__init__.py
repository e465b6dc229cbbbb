"""Discord: a bot in private chats, channels and threads of servers."""

import warnings

with warnings.catch_warnings():
    # The SDK imports it for voice, which is not used here.
    warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
    import discord as discord
