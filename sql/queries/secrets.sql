-- Secrets: names, and values that were encrypted before they came here. Each block runs in a transaction that began with
-- act_as, and names the user again.

-- name: select_secret_names :many
-- The names of a user's own secrets; of those masked in tool results, nothing.
SELECT name, key_id IS NOT NULL AS has_value, created_at, updated_at
FROM memory_context.user_secrets
WHERE user_id = %(user_id)s AND session_id = ''
ORDER BY name
LIMIT %(limit)s;

-- name: select_secrets :many
-- A user's own secrets that have a value.
SELECT name, session_id, key_id, nonce, ciphertext
FROM memory_context.user_secrets
WHERE user_id = %(user_id)s AND session_id = '' AND key_id IS NOT NULL
ORDER BY name;

-- name: fetch_secret :one
-- One secret, also one that was masked in a tool result.
SELECT name, session_id, key_id, nonce, ciphertext
FROM memory_context.user_secrets
WHERE user_id = %(user_id)s AND name = %(name)s;

-- name: select_secrets_of_other_keys :many
-- A page of the secrets that another key than the current one encrypted.
SELECT name, session_id, key_id, nonce, ciphertext
FROM memory_context.user_secrets
WHERE user_id = %(user_id)s AND key_id <> %(key_id)s AND name > %(after)s
ORDER BY name
LIMIT %(limit)s;

-- name: upsert_secret :exec
-- Keep a value under its name, in place of an earlier one.
INSERT INTO memory_context.user_secrets AS known (user_id, name, session_id, key_id, nonce, ciphertext)
VALUES (%(user_id)s, %(name)s, %(session_id)s, %(key_id)s, %(nonce)s, %(ciphertext)s)
ON CONFLICT ON CONSTRAINT user_secrets_pkey DO UPDATE SET
    session_id = EXCLUDED.session_id, key_id = EXCLUDED.key_id, nonce = EXCLUDED.nonce,
    ciphertext = EXCLUDED.ciphertext, updated_at = now();

-- name: update_secret_key :many
-- Keep the same value by another key, unless it was set or deleted meanwhile.
UPDATE memory_context.user_secrets
SET key_id = %(key_id)s, nonce = %(nonce)s, ciphertext = %(ciphertext)s
WHERE user_id = %(user_id)s AND name = %(name)s AND nonce = %(known_nonce)s
RETURNING true AS is_changed;

-- name: delete_secret :many
-- Delete a name and its value.
DELETE FROM memory_context.user_secrets
WHERE user_id = %(user_id)s AND name = %(name)s
RETURNING true AS is_gone;
