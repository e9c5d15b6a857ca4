-- Which process holds a live session: a lease that only this server's clock ends. A session has no row in agent_sessions before
-- its first batch, so claims have a table of their own. It is unlogged: a claim lost in a crash is claimed anew, and renewing
-- it writes no log.
CREATE UNLOGGED TABLE memory_context.session_claims (
    user_id text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    claimed_by uuid NOT NULL,
    claimed_until timestamptz NOT NULL,
    wanted_by uuid,
    wanted_at timestamptz,
    CONSTRAINT session_claims_pkey PRIMARY KEY (user_id, agent_id, session_id),
    CONSTRAINT session_claims_user_id_named CHECK (user_id <> ''),
    CONSTRAINT session_claims_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(agent_id) <= 512 AND octet_length(session_id) <= 512
    )
) WITH (fillfactor = 50);
COMMENT ON TABLE memory_context.session_claims IS 'which process holds a live session; neither exported nor in backups of the log';
COMMENT ON COLUMN memory_context.session_claims.claimed_by IS 'made anew for each claim: while it stands here nobody else had the session';
COMMENT ON COLUMN memory_context.session_claims.claimed_until IS 'after that anybody may claim it';
COMMENT ON COLUMN memory_context.session_claims.wanted_by IS 'the claim that waits longest; a release passes the session to it';
COMMENT ON COLUMN memory_context.session_claims.wanted_at IS 'when it last asked; the holder hears of it when it renews';
CREATE INDEX session_claims_claimed_by ON memory_context.session_claims (claimed_by);
CALL memory_context.fence_table('session_claims');

-- Renew claims of any users that have less than `least_seconds` left, and tell which are lost, and which
-- sessions another process wants. The claims are random: only their holder can name them.
CREATE FUNCTION memory_context.renew_claims(claims uuid[], lease_seconds float8, least_seconds float8)
RETURNS TABLE (claim uuid, is_lost boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM memory_context.see_every_user(true);
    UPDATE memory_context.session_claims SET claimed_until = now() + make_interval(secs => lease_seconds)
    WHERE claimed_by = ANY(claims) AND claimed_until < now() + make_interval(secs => least_seconds);
    RETURN QUERY
    SELECT asked, held.claimed_by IS NULL
    FROM unnest(claims) AS asked LEFT JOIN memory_context.session_claims AS held ON held.claimed_by = asked
    WHERE held.claimed_by IS NULL OR held.wanted_at > now() - interval '1 second';
    PERFORM memory_context.see_every_user(false);
END
$$;
REVOKE ALL ON FUNCTION memory_context.renew_claims(uuid[], float8, float8) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.renew_claims(uuid[], float8, float8) TO memory_context_app;
