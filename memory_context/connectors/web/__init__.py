"""The web connector: pages that an agent reads as trees of elements and acts on, behind a boundary of the network."""

from memory_context.foundation.extras import needs

with needs("browser", "the web connector"):
    import playwright.async_api as _  # pyright: ignore[reportUnusedImport]  # noqa: F401
