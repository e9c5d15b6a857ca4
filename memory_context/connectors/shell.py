"""A shell as an agent sees it: what commands wrote since, how they ended, where it is and what still runs."""

import time
from typing import Any

from autogen_core import Component, ComponentBase
from autogen_core.tools import BaseTool, FunctionTool
from pydantic import BaseModel
from typing_extensions import Self

from memory_context.foundation.errors import ConnectorError

from .protocols import TextObservation
from .shell_process import Ended, ShellProcess

__all__ = ["ShellConnector", "ShellConnectorConfig"]

_MOST_BYTES = 4 << 20
_COMMAND_CHARACTERS = 200


class ShellConnectorConfig(BaseModel):
    """Arguments of `ShellConnector`."""

    folder: str
    id: str
    run_seconds: float


class ShellConnector(ComponentBase[BaseModel], Component[ShellConnectorConfig]):
    """Tools for one `bash` that stays open, with its folder and variables, and observations of what it writes.

    It runs with the rights of this program: a folder is where it begins, not a limit. Its processes end with it.

    Args:
        folder: Where it begins.
        run_seconds: How long a call of the tool waits for its command, which runs on afterwards.
    """

    component_type = "connector"
    component_config_schema = ShellConnectorConfig
    component_provider_override = "memory_context.ShellConnector"

    def __init__(self, folder: str = ".", id: str = "shell", *, run_seconds: float = 30.0) -> None:
        self.id = id
        self.state_limit_tokens = 200
        self._folder = self._first_folder = folder
        self._run_seconds = run_seconds
        self._shell: ShellProcess | None = None
        self._read = 0
        self._told: Ended | None = None
        self._command = ""
        self._began_at = 0.0

    def _to_config(self) -> ShellConnectorConfig:
        return ShellConnectorConfig(folder=self._first_folder, id=self.id, run_seconds=self._run_seconds)

    @classmethod
    def _from_config(cls, config: ShellConnectorConfig) -> Self:
        return cls(config.folder, config.id, run_seconds=config.run_seconds)

    async def on_start(self) -> None:
        """Open the shell."""
        if self._shell is None or not self._shell.is_open:
            await self.on_stop()
            shell = ShellProcess(self._folder)
            await shell.open()
            self._shell, self._read = shell, 0

    async def on_stop(self) -> None:
        """End the shell and all that it started."""
        shell, self._shell = self._shell, None
        if shell is not None:
            self._folder = shell.folder
            await shell.close()

    async def get_observations(self) -> list[TextObservation]:
        """Return the output since the last call, with exit code and duration of a command that ended."""
        shell = self._shell
        if shell is None:
            return []
        data = shell.output(self._read, _MOST_BYTES)
        ended = await shell.ended(0)
        is_news = ended is not None and ended is not self._told
        if not data and not is_news:
            return []
        self._read += len(data)
        left = shell.size - self._read
        lines = [f"[{self.id}] $ {self._command[:_COMMAND_CHARACTERS]}"]
        lines += [data.decode("utf-8", "replace").rstrip("\n")] if data else []
        if left:
            lines.append(f"[{left:,} more bytes: {self.id}_read_more]")
        elif ended is not None and is_news:
            self._told = ended
            lines.append(f"[exit code {ended.exit_code}, {ended.seconds:.1f} s]")
        return [TextObservation(self.id, "\n".join(lines), "output")]

    async def render_current_state(self) -> list[str]:
        """Return folder and running command."""
        shell = self._shell
        if shell is None or not shell.is_open:
            return ["The shell has ended."]
        running = ""
        if shell.command is not None:
            running = f"\nRunning for {time.monotonic() - self._began_at:.0f} s: {shell.command[:_COMMAND_CHARACTERS]}"
        return [f"In {shell.folder}{running}"]

    def tools(self) -> list[BaseTool[Any, Any]]:
        """Return tools to run a command, send input, read more, interrupt and stop."""
        made = (
            (self._run, "run", "Run a bash command. Folder and variables stay for the next one."),
            (self._send_input, "send_input", "Type a line into the running command."),
            (self._read_more, "read_more", "Wait for more output of the running command."),
            (self._interrupt, "interrupt", "Send Ctrl-C to the running command."),
            (self._stop, "stop", "Kill the shell and all that it started, and open a new one."),
        )
        return [FunctionTool(function, description, name=f"{self.id}_{name}") for function, name, description in made]

    async def _run(self, command: str) -> str:
        await self.on_start()  # anew, if it ended
        shell = self._open
        if shell.command is None:  # else it is refused
            self._command, self._began_at = command, time.monotonic()
        await shell.run(command)
        return self._outcome(await shell.ended(self._run_seconds))

    async def _send_input(self, text: str, enter: bool = True) -> str:
        shell = self._open
        if shell.command is None:
            raise ConnectorError(f"no command is running that could read it; start one with {self.id}_run")
        shell.send(f"{text}\n" if enter else text)
        await shell.wait(1.0)
        return self._outcome(await shell.ended(0.5))

    async def _read_more(self, seconds: float = 10.0) -> str:
        shell = self._open
        if shell.size == self._read and shell.command is not None:
            await shell.wait(min(max(seconds, 0.0), self._run_seconds))
        return self._outcome(await shell.ended(0))

    async def _interrupt(self) -> str:
        self._open.interrupt()
        return self._outcome(await self._open.ended(2.0))

    async def _stop(self) -> str:
        await self.on_stop()
        await self.on_start()
        return "The shell was killed; a new one is open."

    def _outcome(self, ended: Ended | None) -> str:
        if ended is not None:
            return f"exit code {ended.exit_code}"
        return "still running" if self._open.is_open else "the shell has ended"

    @property
    def _open(self) -> ShellProcess:
        if self._shell is None:
            raise ConnectorError("the shell is not open; the session has not begun, or has ended")
        return self._shell
