"""Starts the demo: `python -m samples.demo` in the checkout, or `python <checkout>/samples/demo` from anywhere."""

import sys
from pathlib import Path

if __name__ == "__main__":
    try:
        if __package__:
            from .run import main
        else:  # started by its path: Python looks for modules in this folder, not in the checkout
            sys.path[0] = str(Path(__file__).resolve().parents[2])
            from samples.demo.run import main

        sys.exit(main())
    except KeyboardInterrupt:  # while Python was still importing
        sys.exit(130)
