"""A Chainlit application: agents that forget nothing, a panel to see and mend what they remember, an agent builder.

    page ── hooks ──▶ chats (one live chat per thread) ──▶ agents ──▶ ui_hook ──▶ an agent with a MemoryContext
              └─ panel_hooks ──▶ panels (what is stored, what the model saw)          │
                                                           threads ──▶ MemoryStore ◀──┘

`make chainlit` starts it. Read `ui_hook/` first: it is what any web application takes from here.
"""
