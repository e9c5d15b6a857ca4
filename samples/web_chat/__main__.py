"""Starts the chat: `python -m samples.web_chat` in the checkout, or `python <checkout>/samples/web_chat`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    if __package__:
        from .app import main
    else:  # started by its path: Python looks for modules in this folder, not in the checkout
        sys.path[0] = str(Path(__file__).resolve().parents[2])
        from samples.web_chat.app import main

    main()
