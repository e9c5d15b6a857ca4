"""The second process of the demo: takes the session up from a file, proves that its view is the same, and goes on.

Started by `run` as `python -m samples.demo.continued <session file>`; it leaves its calls in that file.
"""

import asyncio
import hashlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .display import Display
from .script import CONTINUATION, CONTINUED_TASK
from .stage import DemoError, Stage, view_bytes

__all__ = ["main"]


async def _continue(session: dict[str, Any], display: Display) -> dict[str, Any]:
    async with Stage(CONTINUATION, display, session["token_budget"], session["first_call"]) as on:
        await on.agent.load_state(session["agent"])
        view = await view_bytes(on.context)
        digest = hashlib.sha256(view).hexdigest()
        if digest != session["view_sha256"]:
            raise DemoError(f"The view differs from the one before: {digest} instead of {session['view_sha256']}.")
        display.say(
            f"Process {os.getpid()} has loaded the session. Its view is byte-identical to the one of process "
            f"{session['process']}: {len(view):,} bytes, sha256 {digest[:16]}…"
        )
        await on.turn("2nd process", CONTINUED_TASK)
        return {**session, "agent": await on.agent.save_state(), "calls": [asdict(call) for call in on.calls]}


def main(session_file: str) -> int:
    """Return the exit status: 0 if the session went on as it was."""
    path, display = Path(session_file), Display()
    try:
        session = asyncio.run(_continue(json.loads(path.read_text(encoding="utf-8")), display))
    except KeyboardInterrupt:  # the first process says so
        return 130
    except DemoError as error:
        display.problem(str(error))
        return 1
    path.write_text(json.dumps(session), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
