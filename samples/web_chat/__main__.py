"""Starts the chat: `python -m samples.web_chat` in the checkout, or `python <checkout>/samples/web_chat`."""

import sys
from pathlib import Path

if not __package__:  # started by its path: Python looks for modules in this folder, not in the checkout
    sys.path[0] = str(Path(__file__).resolve().parents[2])

if __name__ == "__main__":
    from samples.web_chat.app import main

    sys.exit(main())
