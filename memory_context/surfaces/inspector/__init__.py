"""The inspector: a page that shows one user what the model read at each call, what was left out, why, and the saving.

    GET {prefix}/          the page: static files of `pages/`, no build step, nothing from elsewhere, strict CSP
    GET {prefix}/api/...   the data, as JSON, of the authenticated user only; another user's session is a 404

Conventions for a part of it:
- Routes: a module with `add_<part>(router, store, user)`, called in `router.create_inspector_router`. `user` is the
  dependency that returns the user's id. Paths begin with `/api/`; ids in paths are `{session_id:chat_id}`. Errors are
  HTTPException, or errors of the library, which `access.errors` explains.
- Pages: an ES module in `pages/` with `export const routes = {name: async (main, params) => ...}`, named in
  `app.js`. The address is `#/name/param/param?key=value`. A page fills `main` and sets `document.title`; `dom.js`
  makes elements (no innerHTML, no inline style), `api.js` fetches with the token and throws the server's sentence.
- Looks: the tokens of `app.css` (`--accent`, `--space-2`, …) and its classes; a rule of one page stands in its section.

The surface `web` stands above and mounts it; this one imports nothing of `web`.
"""

from memory_context.foundation.extras import needs

with needs("web", "the inspector"):
    from .router import create_inspector_router, inspector_app

__all__ = ["create_inspector_router", "inspector_app"]
