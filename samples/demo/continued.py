"""The second process of the demo: takes the session up from a file, proves that its view is the same, and goes on.

Started by `run` as `python -m samples.demo.continued <session file> <result file>`.
"""

import asyncio
import hashlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memory_context import choose_light_model

from .display import Display
from .recorder import ModelError, as_bytes
from .script import CONTINUED_TASK, continued_script
from .stage import choose_model, demo_policy, stage

__all__ = ["main"]


async def _continue(session: dict[str, Any], display: Display) -> dict[str, Any]:
    first_number = session["calls"] + 1
    model, is_live = choose_model(continued_script, display.is_watched, first_number + 1000)
    light_model = choose_light_model(model if is_live else None).client
    async with stage(model, display, demo_policy(session["token_budget"]), first_number, light_model) as on:
        await on.agent.load_state(session["agent"])
        view = as_bytes(await on.context.get_messages())
        digest = hashlib.sha256(view).hexdigest()
        if digest != session["view_sha256"]:
            raise ModelError(f"The view differs from the one before: {digest} instead of {session['view_sha256']}.")
        display.say(
            f"Process {os.getpid()} has loaded the session. Its view is byte-identical to the one of process "
            f"{session['process']}: {len(view):,} bytes, sha256 {digest[:16]}…"
        )
        turn = session["turn"] + 1
        display.begin_turn(f"Turn {turn}, in the second process", CONTINUED_TASK)
        display.quote(await on.turn(turn, CONTINUED_TASK), style="green")
        transactions = on.context.memory_store.items.write_transactions
        return {"calls": [asdict(call) for call in on.recorder.calls], "write_transactions": transactions}


def main(session_file: str, result_file: str) -> int:
    """Return the exit status: 0 if the session went on as it was."""
    session = json.loads(Path(session_file).read_text(encoding="utf-8"))
    with Display() as display:
        try:
            result = asyncio.run(_continue(session, display))
        except KeyboardInterrupt:  # the first process says so
            return 130
        except ModelError as error:
            display.problem(str(error))
            return 1
    Path(result_file).write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
