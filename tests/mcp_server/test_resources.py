"""What a client reads without a model: the list, the texts, the conversations, completion, and the prompt."""

from base64 import b64decode

import pytest
from mcp import ClientSession, McpError, types
from pydantic import AnyUrl

from memory_context import MemoryStore
from memory_context.memory.items import NewItem
from memory_context.surfaces.mcp import ServedMemory
from tests.support.images import image_item, picture_of
from tests.support.mcp import talk

from .conftest import connected, stored


async def read(client: ClientSession, uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    (contents,) = (await client.read_resource(AnyUrl(uri))).contents
    return contents


async def test_resource_list_pages_sessions_then_items(store: MemoryStore):
    """Each once; every address in it can be read; a cursor of one's own invention is refused."""
    memory = await ServedMemory(store, "alice").memory()
    await memory.store_all([NewItem(f"text {n}", f"note {n}", 2, source="notes") for n in range(230)])
    await talk(store, "night/shift é", "what is the answer?")
    async with connected(store) as client:
        pages = [await client.list_resources()]
        while pages[-1].nextCursor is not None:
            params = types.PaginatedRequestParams(cursor=pages[-1].nextCursor)
            pages.append(await client.list_resources(params=params))
        assert [len(page.resources) for page in pages] == [101, 100, 30]
        session, *items = [resource for page in pages for resource in page.resources]
        assert (session.name, session.title) == ("night/shift é", "what is the answer?")
        assert len({item.name for item in items}) == 230
        assert {item.title for item in items} == {f"note {n}" for n in range(230)}
        said = await read(client, str(session.uri))
        assert isinstance(said, types.TextResourceContents)
        assert said.text == "(1) user said:\nwhat is the answer?\n(2) coder answered:\n42"
        text = await read(client, str(items[7].uri))
        assert isinstance(text, types.TextResourceContents)
        assert text.text == f"text {str(items[7].title).removeprefix('note ')}"
        for cursor in ("0", "50", "-100", "1e3", "100000000", "²", ""):
            with pytest.raises(McpError, match="begin without one"):
                await client.list_resources(params=types.PaginatedRequestParams(cursor=cursor))


async def test_resource_returns_exact_text_with_media_type(store: MemoryStore):
    """As text with its type, or as bytes where UTF-8 cannot say it."""
    memory = await ServedMemory(store, "alice").memory()
    async with connected(store) as client:
        for content, kind, mime_type in [
            ("plain\r\n\x00 text", "custom", "text/plain"),
            (' {"rows": [1, 2]}', "database_result", "application/json"),
            ("[not json", "custom", "text/plain"),
            ("[" * 100_000, "custom", "text/plain"),
            ("<!DOCTYPE html><p>page", "web_content", "text/html"),
            ("", "custom", "text/plain"),
        ]:
            ref = await memory.store(content, type=kind)
            for uri in (f"memory://{ref.key}", f"memory://{ref.key.replace('_', '%5F')}"):
                contents = await read(client, uri)
                assert isinstance(contents, types.TextResourceContents)
                assert (contents.text, contents.mimeType) == (content, mime_type)
        ref = await memory.store("half \ud83d")
        contents = await read(client, f"memory://{ref.key}")
        assert isinstance(contents, types.BlobResourceContents)
        assert b64decode(contents.blob).decode("utf-8", "surrogatepass") == "half \ud83d"


async def test_unknown_resource_is_resource_not_found_error(store: MemoryStore):
    """With the nearest key, or the addresses there are, in a sentence that ends once."""
    async with connected(store) as client:
        key = await stored(client, "text")
        for uri, told in [
            (f"memory://{key[:-1]}", f"did you mean '{key}'?"),
            ("memory://sessions/s9", "no session 's9'"),
            ("memory://sessions", "no item 'sessions'"),
            ("memory://ключ", "no item 'ключ' in this memory."),
            ("memory://%00..%2F", "no item '../'"),
            ("memory://%ED%A0%80", "no item"),
            ("memory:///etc/passwd", "is neither memory://{key} nor"),
            ("file:///etc/passwd", "is neither memory://{key} nor"),
            (f"memory://{key}/more", "is neither memory://{key} nor"),
        ]:
            with pytest.raises(McpError) as caught:
                await client.read_resource(AnyUrl(uri))
            assert caught.value.error.code == -32002
            assert told in caught.value.error.message
            assert not caught.value.error.message.endswith("?.")


@pytest.mark.parametrize("session", ["s/coder", "a/b/c", "what? #1", "50%", "a%2Fb", "Über uns", "a&b=c", "日誌"])
async def test_any_session_id_is_readable_by_its_listed_address(store: MemoryStore, session: str):
    """The list encodes it; one without an escape of its own is also read as it is."""
    await talk(store, session, "what is the answer?")
    async with connected(store) as client:
        (resource,) = [one for one in (await client.list_resources()).resources if one.name == session]
        addresses = [str(resource.uri), *([] if "%2F" in session else [f"memory://sessions/{session}"])]
        for address in addresses:
            said = await read(client, address)
            assert isinstance(said, types.TextResourceContents)
            assert "what is the answer?" in said.text
            assert str(said.uri) == str(AnyUrl(address))


async def test_completion_suggests_keys_and_sessions(store: MemoryStore):
    """First those that begin with what was typed, then those that hold it or are described by it; a hundred at most."""
    memory = await ServedMemory(store, "alice").memory()
    drafts = [NewItem(f"text {n}", "about the lake", 2, source="fish" if n % 2 else "jellyfish") for n in range(210)]
    await memory.store_all(drafts)
    await talk(store, "monday", "which fish?")
    item, session = (
        types.ResourceTemplateReference(type="ref/resource", uri=uri)
        for uri in ("memory://{key}", "memory://sessions/{session_id}")
    )
    async with connected(store) as client:
        templates = (await client.list_resource_templates()).resourceTemplates
        assert [template.uriTemplate for template in templates] == [item.uri, session.uri]
        found = (await client.complete(item, {"name": "key", "value": "FISH_"})).completion
        assert (len(found.values), found.total, found.hasMore) == (100, 210, True)
        assert all(value.startswith("fish_") for value in found.values)
        found = (await client.complete(item, {"name": "key", "value": "lake"})).completion
        assert found.total == 210
        for value, sessions in (("mon", ["monday"]), ("fish", ["monday"]), ("x", [])):
            found = (await client.complete(session, {"name": "session_id", "value": value})).completion
            assert found.values == sessions
        prompt = types.PromptReference(type="ref/prompt", name="use_memory")
        assert (await client.complete(prompt, {"name": "about", "value": "x"})).completion.values == []


async def test_prompt_repeats_the_instructions(store: MemoryStore):
    """As the server's instructions do; with what to look for, if that was said."""
    async with connected(store) as client:
        instructions = (await client.initialize()).instructions
        (prompt,) = (await client.list_prompts()).prompts
        (message,) = (await client.get_prompt(prompt.name)).messages
        assert isinstance(message.content, types.TextContent)
        assert message.content.text == instructions
        assert "[MemoryRef: run_shell_k3f7x2 - command=npm install, 500 lines - 2340 tokens]" in message.content.text
        (message,) = (await client.get_prompt(prompt.name, {"about": "deploys"})).messages
        assert isinstance(message.content, types.TextContent)
        assert message.content.text.endswith("Begin with search_memory for: deploys")
        with pytest.raises(McpError, match="Unknown prompt: other"):
            await client.get_prompt("other")


async def test_image_is_read_as_its_bytes_with_their_type(store: MemoryStore):
    """As a resource and as the answer of a tool; a cut of it is words."""
    memory = await ServedMemory(store, "alice").memory()
    item = image_item(picture_of(1))
    (ref,) = await memory.store_all([item])
    async with connected(store) as client:
        contents = await read(client, f"memory://{ref.key}")
        assert isinstance(contents, types.BlobResourceContents)
        assert (b64decode(contents.blob), contents.mimeType) == (item.data, "image/png")
        said, shown = (await client.call_tool("retrieve_memory", {"memory_key": ref.key})).content
        assert isinstance(shown, types.ImageContent)
        assert (b64decode(shown.data), shown.mimeType) == (item.data, "image/png")
        assert said.text == f"{ref.render()}\nImage of 8 x 8 (PNG, {len(item.data or b'')} bytes); it follows."
        (cut,) = (
            await client.call_tool("retrieve_memory", {"memory_key": ref.key, "transform": "first_n", "n": 2})
        ).content
        assert cut.text.endswith('bytes), without text: use transform="full".')
