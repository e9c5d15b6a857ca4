-- The audit trail: what happened to items beside being stored, which they tell themselves.

-- Written in batches by the processes that saw it happen. The id is the process's, so that a batch which comes again
-- after a lost answer changes nothing; the order of a session is created_at, then id.
CREATE TABLE memory_context.agent_memory_events (
    user_id text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    is_private boolean NOT NULL,
    kind text COLLATE "C" NOT NULL,
    memory_keys text[] NOT NULL,
    detail text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT agent_memory_events_pkey PRIMARY KEY (user_id, id),
    CONSTRAINT agent_memory_events_user_id_named CHECK (user_id <> ''),
    CONSTRAINT agent_memory_events_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(agent_id) <= 512 AND octet_length(session_id) <= 512
        AND octet_length(kind) <= 64
    )
);
COMMENT ON TABLE memory_context.agent_memory_events IS
    'what happened to items: look-ups, expansions, compactions; the items themselves say when they were stored';
COMMENT ON COLUMN memory_context.agent_memory_events.is_private IS 'read by that agent in that session only';
COMMENT ON COLUMN memory_context.agent_memory_events.created_at IS
    'when it happened, by the clock of the server: when it was written less its age';

-- A session's events in order.
CREATE INDEX agent_memory_events_session_order
    ON memory_context.agent_memory_events (user_id, session_id, created_at, id);
-- A user's oldest events, for pruning.
CREATE INDEX agent_memory_events_age ON memory_context.agent_memory_events (user_id, created_at);

ALTER TABLE memory_context.agent_memory_events ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memory_events_own_rows ON memory_context.agent_memory_events
    USING (user_id = current_setting('memory_context.user_id', true))
    WITH CHECK (user_id = current_setting('memory_context.user_id', true));

GRANT SELECT, INSERT, UPDATE, DELETE ON memory_context.agent_memory_events TO memory_context_app;
