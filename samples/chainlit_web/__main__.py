"""Starts the chat: `python -m samples.chainlit_web` in the checkout, or `python <checkout>/samples/chainlit_web`."""

import sys
from pathlib import Path

if not __package__:  # started by its path: Python looks for modules in this folder, not in the checkout
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    __package__ = f"{Path(__file__).resolve().parents[1].name}.{Path(__file__).resolve().parent.name}"

if __name__ == "__main__":
    from importlib import import_module

    sys.exit(import_module(f"{__package__}.command").main())
