-- Which process holds a live session. Each claim has a random id of its own: while that stands in the row, nobody else had the
-- session. Times are the server's.

-- name: delete_stale_claims :exec
-- What processes of the user left behind that died: each session that was ever live would else keep a row.
DELETE FROM memory_context.session_claims AS claim
USING (
    SELECT agent_id, session_id FROM memory_context.session_claims
    WHERE user_id = %(user_id)s AND claimed_until < now() - interval '1 hour'
    LIMIT 100
    FOR UPDATE SKIP LOCKED
) AS stale
WHERE claim.user_id = %(user_id)s AND claim.agent_id = stale.agent_id AND claim.session_id = stale.session_id;

-- name: claim_session :one
-- Take a session that is free, and else ask for it. Who asked first stays the next for as long as it keeps asking.
INSERT INTO memory_context.session_claims AS held (user_id, agent_id, session_id, claimed_by, claimed_until)
VALUES (
    %(user_id)s, %(agent_id)s, %(session_id)s, %(claim)s, now() + make_interval(secs => %(lease_seconds)s::float8)
)
ON CONFLICT ON CONSTRAINT session_claims_pkey DO UPDATE SET (claimed_by, claimed_until, wanted_by, wanted_at) = (
    SELECT
        CASE WHEN is_mine THEN excluded.claimed_by ELSE held.claimed_by END,
        CASE WHEN is_mine THEN excluded.claimed_until ELSE held.claimed_until END,
        CASE WHEN NOT is_mine AND NOT is_next THEN held.wanted_by WHEN NOT is_mine THEN excluded.claimed_by END,
        CASE WHEN NOT is_mine AND NOT is_next THEN held.wanted_at WHEN NOT is_mine THEN now() END
    FROM (
        SELECT
            held.claimed_by = excluded.claimed_by OR held.claimed_until <= now() AS is_mine,
            coalesce(held.wanted_by = excluded.claimed_by OR held.wanted_at <= now() - interval '1 second', true) AS is_next
    ) AS found
)
RETURNING claimed_by = %(claim)s AS is_mine;

-- name: renew_claims :many
-- Keep claims of all users; tell only of those that are lost, and of sessions that another process wants.
SELECT claim, is_lost FROM memory_context.renew_claims(
    %(claims)s::uuid[], %(lease_seconds)s::float8, %(least_seconds)s::float8
);

-- name: pass_session :exec
-- Give a session to the claim that waits for it, which finds it there when it asks again; after a second it is free.
UPDATE memory_context.session_claims
SET claimed_by = wanted_by, claimed_until = now() + interval '1 second', wanted_by = NULL, wanted_at = NULL
WHERE user_id = %(user_id)s AND agent_id = %(agent_id)s AND session_id = %(session_id)s
    AND claimed_by = %(claim)s AND wanted_at > now() - interval '1 second';

-- name: withdraw_wish :exec
-- Ask no more for a session.
UPDATE memory_context.session_claims SET wanted_by = NULL, wanted_at = NULL
WHERE user_id = %(user_id)s AND agent_id = %(agent_id)s AND session_id = %(session_id)s AND wanted_by = %(claim)s;

-- name: free_session :exec
-- Give up a claim that nobody waits for.
DELETE FROM memory_context.session_claims
WHERE user_id = %(user_id)s AND agent_id = %(agent_id)s AND session_id = %(session_id)s AND claimed_by = %(claim)s;

-- name: delete_user_claims :exec
-- For a user who is erased.
DELETE FROM memory_context.session_claims WHERE user_id = %(user_id)s;
