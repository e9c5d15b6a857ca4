"""The shell connector, with a real bash: state between commands, input, interrupts, large output, and its end."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from autogen_core import CancellationToken

from memory_context import ConnectorError
from memory_context.connectors.shell import ShellConnector
from tests.support.waiting import soon, until

pytestmark = pytest.mark.thorough


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[ShellConnector]:
    connector = ShellConnector(str(tmp_path))
    await connector.on_start()
    yield connector
    await connector.on_stop()


async def use(shell: ShellConnector, name: str, **arguments: Any) -> str:
    tool = next(one for one in shell.tools() if one.name == f"shell_{name}")
    return str(await tool.run_json(arguments, CancellationToken()))


async def output(shell: ShellConnector) -> str:
    return "\n".join(one.text for one in await shell.get_observations())


async def test_folder_and_variables_stay_between_commands(shell: ShellConnector, tmp_path: Path) -> None:
    assert await use(shell, "run", command="mkdir sub && cd sub && X=3") == "exit code 0"
    assert await use(shell, "run", command="echo $X; echo oops >&2; (exit 7)") == "exit code 7"
    told = await output(shell)
    assert told.splitlines()[:3] == ["[shell] $ echo $X; echo oops >&2; (exit 7)", "3", "oops"]
    assert told.splitlines()[-1].startswith("[exit code 7, ")
    assert await output(shell) == ""
    assert await shell.render_current_state() == [f"In {tmp_path / 'sub'}"]


async def test_command_reads_what_is_sent(shell: ShellConnector) -> None:
    shell._run_seconds = 0.0
    assert await use(shell, "run", command="read name; echo hello $name") == "still running"
    (state,) = await shell.render_current_state()
    assert "Running for" in state
    with pytest.raises(ConnectorError, match="still running: send it input"):
        await use(shell, "run", command="echo other")
    shell._run_seconds = 30.0
    await use(shell, "send_input", text="Ada")
    while await use(shell, "read_more") == "still running":
        pass
    assert "hello Ada" in await output(shell)
    with pytest.raises(ConnectorError, match="no command is running"):
        await use(shell, "send_input", text="x")


async def test_interrupt_ends_the_command_and_not_the_shell(shell: ShellConnector) -> None:
    shell._run_seconds = 0.0
    await use(shell, "run", command="Y=1; echo begun; sleep 1000")
    shown = ""
    while "\nbegun\n" not in shown:  # an interrupt before it would leave Y unset
        await use(shell, "read_more")
        shown += f"{await output(shell)}\n"
    while await use(shell, "interrupt") == "still running":  # before sleep began
        pass
    shell._run_seconds = 30.0
    assert await use(shell, "run", command="test $Y = 1") == "exit code 0"


async def test_shell_that_ended_opens_again(shell: ShellConnector) -> None:
    assert await use(shell, "run", command="exit 3") == "the shell has ended"
    assert await use(shell, "run", command="echo again") == "exit code 0"


async def test_any_bytes_of_any_size_come_through(shell: ShellConnector) -> None:
    command = r"head -c 9000000 /dev/zero | tr '\0' x; printf '\xff\x00end'"
    assert await use(shell, "run", command=command) == "exit code 0"
    told = ""
    while piece := await output(shell):
        told += piece
    assert told.count("x") >= 9_000_000
    assert "\ufffd\x00end" in told
    assert told.count("more bytes: shell_read_more]") == 2


async def test_endless_output_of_a_background_process_does_not_hold_the_loop(shell: ShellConnector) -> None:
    assert await soon(use(shell, "run", command="yes & true")) == "exit code 0"
    assert await soon(use(shell, "stop")) == "The shell was killed; a new one is open."


async def test_long_command_does_not_hold_the_loop(shell: ShellConnector) -> None:
    """It is longer than a pipe holds."""
    assert await soon(use(shell, "run", command=f"x='{'y' * 300_000}'; test ${{#x}} = 300000")) == "exit code 0"


async def test_syntax_error_is_told(shell: ShellConnector) -> None:
    assert await use(shell, "run", command="if then") == "exit code 2"
    assert "syntax error" in await output(shell)


async def test_stop_kills_what_the_shell_started(shell: ShellConnector, tmp_path: Path) -> None:
    await use(shell, "run", command="sleep 1000 & echo $! > pid")
    pid = int((tmp_path / "pid").read_text())
    await use(shell, "stop")
    await until(lambda: not _is_alive(pid))


def test_shell_does_not_outlive_its_killed_program(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import asyncio, sys
        from memory_context.connectors.shell import ShellConnector
        async def main():
            shell = ShellConnector(sys.argv[1])
            await shell.on_start()
            await shell._run("sleep 1000 & echo $! $$ > pids")
            print("ready", flush=True)
            await asyncio.sleep(1000)
        asyncio.run(main())
    """)
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    pids = [int(one) for one in (tmp_path / "pids").read_text().split()]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    asyncio.run(until(lambda: not any(map(_is_alive, pids))))


async def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="no shell in"):
        await ShellConnector(str(tmp_path / "none")).on_start()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")  # a zombie that nobody waits for is no running process
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
