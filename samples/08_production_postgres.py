"""Your own Postgres in production: who migrates, who works, and what the application's login can never do.

Learn: `08_production_postgres.sql` beside this file is all that a database administrator runs. The owner's address
goes into MEMORY_CONTEXT_OWNER_URL of a deploy step, which migrates. The application has MEMORY_CONTEXT_URL only, with
a login that owns nothing, so row-level security holds for whatever it runs. It works through PgBouncer in transaction
mode, since nothing it does outlasts a transaction.

The server is one in a temporary folder, in place of yours (`postgres_stand_in.py`); nothing of it is left behind.

Try: run the .sql file with psql on a server of your own, then any other sample with its MEMORY_CONTEXT_URL; and leave
`IN ROLE memory_context_app` out of it, and read what you are told to do.
"""

import asyncio
import os
import textwrap
from pathlib import Path

import psycopg
from autogen_agentchat.agents import AssistantAgent
from postgres_stand_in import StandIn, pgbouncer, running_server

from memory_context import MemoryContext, MemoryStore, SchemaError
from memory_context.testing import ScriptedModel, call

SQL = Path(__file__).with_suffix(".sql")
OWNER, APP = ("memory_owner", "owner-password"), ("memory_app", "app-password")
ATTEMPTS = (
    "SELECT count(*) FROM memory_context.agent_memories",
    "SET row_security = off; SELECT count(*) FROM memory_context.agent_memories",
    "ALTER TABLE memory_context.agent_memories DISABLE ROW LEVEL SECURITY",
    "ALTER ROLE memory_app BYPASSRLS",
    "SET ROLE memory_owner",
)
STATUS = """\
SELECT concat('Postgres ', current_setting('server_version'), ', pgvector ', extversion, ', schema version ',
    (SELECT max(version) FROM memory_context.schema_migrations), ', items: ',
    (SELECT count(*) FROM memory_context.agent_memories))
FROM pg_extension WHERE extname = 'vector'"""


async def read_log() -> str:
    """Return the log of the payment service."""
    outcomes = ["accepted"] * 400
    outcomes[40] = "declined"
    return "\n".join(f"{12 + n // 60}:{n % 60:02} payment {n} {one} in 17 ms" for n, one in enumerate(outcomes))


async def run_agent(memory_store: MemoryStore) -> str:
    """Run an agent as the application would, and return what it looked up at last."""
    detail = call("retrieve_memory", memory_key="{key}", transform="filtered", pattern="declined", context_lines=0)
    model = ScriptedModel(call("read_log"), "I have read it.", detail, "{result}")
    async with memory_store, MemoryContext("sample-production", "operator", memory_store=memory_store) as context:
        agent = AssistantAgent(
            "operator", model, workbench=context.workbench([read_log]), model_context=context, max_tool_iterations=2
        )
        await agent.run(task="Read the log.")
        return (await agent.run(task="Was anything declined?")).messages[-1].to_text()  # type: ignore[union-attr]


def attempt(url: str, statements: str) -> str:
    """Return what a login gets for some statements."""
    with psycopg.connect(url) as connection:
        try:
            (answer,) = [connection.execute(one) for one in statements.split("; ")][-1].fetchone()  # type: ignore
        except psycopg.Error as error:
            answer = f"refused: {error.diag.message_primary}"
    return str(answer)


def tell(heading: str, text: str) -> None:
    """Print one step."""
    wrapped = "\n".join(
        textwrap.fill(line, 110, break_long_words=False, break_on_hyphens=False) for line in text.strip().splitlines()
    )
    print(f"{heading}\n\n{textwrap.indent(wrapped, '   ')}\n")


async def main(server: StandIn) -> None:
    """Tell the story."""
    server.administrate(SQL)
    tell("1. A database administrator ran, once:", SQL.read_text(encoding="utf-8"))
    app_url = server.url(*APP)
    try:
        await MemoryStore(app_url).open()
    except SchemaError as error:
        tell("2. The application alone cannot make the schema, and says what to do:", str(error))

    async with MemoryStore(app_url, owner_url=server.url(*OWNER)) as memory_store:
        place = f"{memory_store.describe()} is ready."
        tell("3. A deploy step migrates; it has the owner's address in MEMORY_CONTEXT_OWNER_URL:", place)

    with pgbouncer(server, '"memory_app" "app-password"\n') as pooler:
        way = "through PgBouncer" if pooler else "without PgBouncer, which is not installed"
        answer = await run_agent(MemoryStore((pooler or server).url(*APP)))
        tell(f"4. The application's agent works {way}. Its look-up:", answer)

    tried = "\n".join(f"{statements}\n-- {attempt(app_url, statements)}" for statements in ATTEMPTS)
    tell("5. What the application's login tries beside it, and gets:", tried)
    tell("6. Status, as the superuser sees it:", attempt(server.url("postgres"), STATUS))


if __name__ == "__main__":
    os.environ.pop("MEMORY_CONTEXT_OWNER_URL", None)  # that of your own server, which is not meant here
    with running_server() as running:
        asyncio.run(main(running))
