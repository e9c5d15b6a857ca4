"""The inspector's files: served as they are, by relative addresses, with a policy that lets nothing else run."""

import re

from memory_context import MemoryStore

from .conftest import inspector_of


async def test_page_loads_only_its_own_files(store: MemoryStore):
    async with inspector_of(store) as client:
        moved = await client.get("http://localhost/inspector")
        assert (moved.status_code, moved.headers["location"]) == (307, "inspector/")
        page = await client.get("http://localhost/inspector/")
        names = set(re.findall(r'(?:src|href)="([^"#]+)"', page.text))
        assert {"app.js", "app.css"} <= names
        for name in names:
            found = await client.get(f"http://localhost/inspector/{name}")
            assert found.status_code == 200, name
            assert "script-src 'self'" in found.headers["content-security-policy"]
            names_within = re.findall(r'from "\./([a-z-]+\.js)"', found.text)
            for within in names_within:
                assert (await client.get(f"http://localhost/inspector/{within}")).status_code == 200, within
        assert (await client.get("http://localhost/inspector/router.py")).status_code == 404
    assert "<style" not in page.text
    assert not re.search(r"\son\w+=", page.text)


async def test_another_host_is_refused(store: MemoryStore):
    async with inspector_of(store) as client:
        refused = await client.get("sessions", headers={"Host": "evil.example"})
    assert refused.status_code == 421
