"""A chat page for an agent whose context stays small, and whose conversations last.

`make web_chat` starts it; `page/` is the client, plain ES modules to copy.
"""
