"""CodeAgent: an AutoGen agent that works on code with a shell, a file reader and grep, and never fills its context.

The tools are ordinary: they give back everything they find, however large. Keeping the model's context small is the
business of the `MemoryContext` the agent holds; take another context to see the difference.

Commands are run by AutoGen's own `LocalCommandLineCodeExecutor`, on this machine and with your rights. Its scratch
folder keeps a well-behaved command from leaving files in the code, but it is no sandbox.
"""

import os
import shlex
import warnings
from pathlib import Path
from typing import Annotated, Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken, ComponentModel
from autogen_core.code_executor import CodeBlock
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, FunctionTool, StaticStreamWorkbench, Workbench
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor
from pydantic import BaseModel
from typing_extensions import Self

from memory_context import MemoryContext, choose_light_model
from memory_context.context.builder import openai_client

__all__ = ["CodeAgent", "CodeAgentConfig", "model_client_from_env"]

DEFAULT_MODEL = "gpt-4.1-mini"

SYSTEM_MESSAGE = """\
You are a careful software engineer who answers questions about code by reading it.
The code is in the folder $CODE_ROOT of your shell; paths of read_file and grep are relative to it. Find with grep,
then read; name files and lines for what you claim, and claim nothing that you have not seen."""


class CodeAgentConfig(BaseModel):
    """A CodeAgent as component data. Its tools are made anew from the folders."""

    name: str
    model_client: ComponentModel
    model_context: ComponentModel
    work_dir: str | None = None
    code_root: str
    system_message: str = SYSTEM_MESSAGE
    description: str | None = None
    max_tool_iterations: int = 100
    timeout_seconds: int = 60


class CodeAgent(AssistantAgent):
    """An assistant with shell, read_file and grep, and with the tools of its memory once they have a use.

    Args:
        name: The agent's name.
        model_client: The model; it has to know function calling.
        model_context: The context to hold; None for a MemoryContext on the default store, which `close` then closes.
        work_dir: Where shell commands run; None for a scratch folder that `close` removes.
        code_root: The code: what read_file and grep see, and `$CODE_ROOT` in the shell. None for the current folder.
        user_id: Whose memory it is, if `model_context` is None.
        light_model: Decides in that context; None for `model_client`, "off" for rules (see `choose_light_model`).
        system_message: What it is told first; what teaches it its memory is appended.
        description: What other agents are told about it.
        max_tool_iterations: Model calls in one turn, at most.
        timeout_seconds: The longest a command may run. AutoGen's executor then ends the shell, but waits for what the
            shell had started.
    """

    component_config_schema = CodeAgentConfig  # type: ignore[assignment]  # AssistantAgent is declared for its own
    component_provider_override = f"{__name__}.CodeAgent"  # it is imported under more than one name

    def __init__(
        self,
        name: str,
        model_client: ChatCompletionClient,
        *,
        model_context: ChatCompletionContext | None = None,
        work_dir: str | Path | None = None,
        code_root: str | Path | None = None,
        user_id: str = "user",
        light_model: ChatCompletionClient | str | None = None,
        system_message: str = SYSTEM_MESSAGE,
        description: str | None = None,
        max_tool_iterations: int = 100,
        timeout_seconds: int = 60,
    ) -> None:
        self._owned_context: MemoryContext | None = None
        if model_context is None:
            light = choose_light_model(model_client, light_model).client
            model_context = self._owned_context = MemoryContext(user_id=user_id, agent_id=name, model_client=light)
        self._code_root = Path(code_root or Path.cwd()).resolve()
        self._given = {
            "work_dir": None if work_dir is None else str(work_dir),
            "code_root": str(self._code_root),
            "system_message": system_message,
            "description": description,
            "max_tool_iterations": max_tool_iterations,
            "timeout_seconds": timeout_seconds,
        }
        with warnings.catch_warnings():  # "may be unsafe": this module's docstring says so
            warnings.simplefilter("ignore", UserWarning)
            self._executor = LocalCommandLineCodeExecutor(timeout=timeout_seconds, work_dir=work_dir)
        own_tools: list[BaseTool[Any, Any]] = [
            FunctionTool(self.shell, "Run a shell command and return what it prints. $CODE_ROOT is the code's folder."),
            FunctionTool(self.read_file, "Return a text file of the code with line numbers, whole or a range."),
            FunctionTool(self.grep, "Search the code with a regular expression; returns path:line:text."),
        ]
        if isinstance(model_context, MemoryContext):
            workbench: Workbench = model_context.workbench(own_tools)
            model_context.note_agent(system_message=system_message, model_client=model_client)
        else:
            workbench = StaticStreamWorkbench(own_tools)
        super().__init__(
            name,
            model_client,
            workbench=workbench,
            model_context=model_context,
            description=description or "An engineer who answers questions about code by reading it.",
            system_message=system_message,
            max_tool_iterations=max_tool_iterations,
        )

    # --- tools ------------------------------------------------------------------------------------------------------

    async def shell(
        self, command: Annotated[str, "The command, for sh."], cancellation_token: CancellationToken
    ) -> str:
        """Return what a command prints, errors first; a status other than 0 is told in the first line."""
        status, output = await self._run(command, cancellation_token)
        return output if status == 0 else f"exit code {status}\n{output}"

    async def read_file(
        self,
        path: Annotated[str, "The file, relative to $CODE_ROOT."],
        start_line: Annotated[int, "First line, from 1."] = 1,
        end_line: Annotated[int | None, "Last line; the end of the file if left out."] = None,
    ) -> str:
        """Return the lines of a file, each with its number."""
        lines = self._inside(path).read_text(encoding="utf-8", errors="replace").splitlines()
        if start_line < 1 or (end_line is not None and end_line < start_line):
            raise ValueError(f"lines {start_line} to {end_line} are no range; lines count from 1")
        if start_line > max(len(lines), 1):
            raise ValueError(f"{path} ends at line {len(lines)}")
        shown = lines[start_line - 1 : end_line]
        return "\n".join(f"{number}\t{line}" for number, line in enumerate(shown, start_line)) or "(an empty file)"

    async def grep(
        self,
        pattern: Annotated[str, "An extended regular expression, as for grep -E."],
        cancellation_token: CancellationToken,
        path: Annotated[str, "A folder or file, relative to $CODE_ROOT."] = ".",
        include: Annotated[str, "Only files with such a name."] = "*.py",
    ) -> str:
        """Return the matching lines as path:line:text, sorted by path."""
        where = self._inside(path).relative_to(self._code_root)
        search = f"grep -rHnE --include={shlex.quote(include)} -e {shlex.quote(pattern)} -- {shlex.quote(str(where))}"
        by_place = "printf '%s\\n' \"$found\" | sed 's,^\\./,,' | LC_ALL=C sort -t: -k1,1 -k2,2n"
        command = f'cd "$CODE_ROOT" && found=$({search}) || exit $?\n{by_place}'
        status, output = await self._run(command, cancellation_token)
        if status == 1 and not output:
            return f"no match of {pattern!r} in {include} of {path}"
        return output if status == 0 else f"exit code {status}\n{output}"

    async def _run(self, command: str, cancellation_token: CancellationToken) -> tuple[int, str]:
        code = f"CODE_ROOT={shlex.quote(str(self._code_root))}; export CODE_ROOT\n{command}\n"
        result = await self._executor.execute_code_blocks([CodeBlock(code=code, language="sh")], cancellation_token)
        return result.exit_code, result.output

    def _inside(self, path: str) -> Path:
        resolved = (self._code_root / path).resolve()
        if not resolved.is_relative_to(self._code_root):
            raise ValueError(f"{path!r} is outside of the code; give a path relative to $CODE_ROOT")
        return resolved

    # --- life cycle -------------------------------------------------------------------------------------------------

    @property
    def work_dir(self) -> Path:
        """The folder that shell commands run in."""
        return self._executor.work_dir

    async def close(self) -> None:
        """Remove the scratch folder, and close the context if it was made here."""
        await super().close()
        await self._executor.stop()
        if self._owned_context is not None:
            await self._owned_context.close()

    def _to_config(self) -> CodeAgentConfig:  # type: ignore[override]
        model_client, model_context = self._model_client.dump_component(), self._model_context.dump_component()
        return CodeAgentConfig(name=self.name, model_client=model_client, model_context=model_context, **self._given)  # type: ignore[arg-type]

    @classmethod
    def _from_config(cls, config: CodeAgentConfig) -> Self:  # type: ignore[override]
        return cls(
            config.name,
            ChatCompletionClient.load_component(config.model_client),
            model_context=ChatCompletionContext.load_component(config.model_context),
            **config.model_dump(exclude={"name", "model_client", "model_context"}),
        )


def model_client_from_env() -> ChatCompletionClient | None:
    """Return the model that OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL name; None without a key."""
    if not os.environ.get("OPENAI_API_KEY"):
        return None
    return openai_client(os.environ.get("OPENAI_MODEL") or DEFAULT_MODEL)
