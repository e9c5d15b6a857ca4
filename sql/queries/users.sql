-- The users of a store: read by functions of the owner, each of which answers one question.

-- name: select_users :many
-- All users, page by page, for maintenance that then acts as each in turn. Not for the application's login.
SELECT user_id FROM memory_context.list_users(%(after)s, %(limit)s) AS user_id;

-- name: fetch_only_user :one
-- The user of a store that has one; else none, and whether there are several.
SELECT users, user_id FROM memory_context.only_user();
