"""What `chainlit run` loads; `hooks.py` has what it does.

Chainlit loads this as a file, not as a module of a package, so it says where its package is.
"""

import sys
from importlib import import_module
from pathlib import Path

_here = Path(__file__).resolve().parent
if str(_here.parents[1]) not in sys.path:
    sys.path.insert(0, str(_here.parents[1]))
import_module(f"{_here.parent.name}.{_here.name}.hooks")
