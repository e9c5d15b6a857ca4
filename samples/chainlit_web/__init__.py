"""A Chainlit application whose agents remember: a template to copy.

Read `app.py` (what Chainlit calls), `chats.py` (one live chat a thread), `turns.py` (one answer on the page),
`agents.py` and `ui_hook/` (who answers), then `panel.py` with `public/elements/Memory.jsx` (the side panel).
`reconnecting.py` has what a restart of the server needs. `make chainlit` starts it.
"""
