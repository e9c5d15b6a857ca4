-- Long-term notes: one Markdown text for each user and agent, with its former texts. An agent reads and writes its own: the
-- transaction begins with act_as(user, agent). Without an agent no notes are visible.

-- Become one user and one of the user's agents until the transaction ends; NULL stands for all agents of the user, '' for none.
CREATE FUNCTION memory_context.act_as(acting_user_id text, acting_agent_id text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM memory_context.act_as(acting_user_id);
    PERFORM pg_catalog.set_config('memory_context.agent_id', coalesce(acting_agent_id, ''), true);
    PERFORM pg_catalog.set_config(
        'memory_context.every_agent', CASE WHEN acting_agent_id IS NULL THEN 'on' ELSE 'off' END, true
    );
END
$$;
REVOKE ALL ON FUNCTION memory_context.act_as(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.act_as(text, text) TO memory_context_app;

-- Give the application's login a table, of which a transaction sees and writes the rows of its user and agent only.
CREATE PROCEDURE memory_context.fence_table_by_agent(its_name text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    CALL memory_context.fence_table(its_name);
    EXECUTE format(
        'CREATE POLICY %I ON memory_context.%I AS RESTRICTIVE USING ('
        'agent_id = current_setting(''memory_context.agent_id'', true) '
        'OR current_setting(''memory_context.every_agent'', true) = ''on'')',
        its_name || '_own_agent', its_name
    );
END
$$;
REVOKE ALL ON PROCEDURE memory_context.fence_table_by_agent(text) FROM PUBLIC;

-- The notes in force. A user's notes are never deleted alone: the version must not begin again, since writes are conditional
-- on it. 160,000 octets are 32,000 characters of at most five, as escaped.
CREATE TABLE memory_context.agent_long_term_memory (
    user_id text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    notes text NOT NULL,
    version bigint NOT NULL,
    repeats bigint NOT NULL,
    operation text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT agent_long_term_memory_pkey PRIMARY KEY (user_id, agent_id),
    CONSTRAINT agent_long_term_memory_user_id_named CHECK (user_id <> ''),
    CONSTRAINT agent_long_term_memory_agent_id_named CHECK (agent_id <> ''),
    CONSTRAINT agent_long_term_memory_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(agent_id) <= 512 AND octet_length(operation) <= 64
        AND octet_length(notes) <= 160000
    ),
    CONSTRAINT agent_long_term_memory_versions CHECK (version >= 1 AND repeats >= 0)
);
COMMENT ON TABLE memory_context.agent_long_term_memory IS 'long-term notes, Markdown, one text for each user and agent';
COMMENT ON COLUMN memory_context.agent_long_term_memory.version IS 'how many writes there were; 0 stands for no notes yet';
COMMENT ON COLUMN memory_context.agent_long_term_memory.repeats IS
    'the version whose text this is: its own, or an earlier one after an undo';
COMMENT ON COLUMN memory_context.agent_long_term_memory.operation IS 'what wrote this version';

-- The former texts that can be undone to.
CREATE TABLE memory_context.agent_long_term_memory_versions (
    user_id text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    notes text NOT NULL,
    repeats bigint NOT NULL,
    operation text COLLATE "C" NOT NULL,
    written_at timestamptz NOT NULL,
    begun_at timestamptz NOT NULL,
    CONSTRAINT agent_long_term_memory_versions_pkey PRIMARY KEY (user_id, agent_id, version),
    CONSTRAINT agent_long_term_memory_versions_notes FOREIGN KEY (user_id, agent_id)
        REFERENCES memory_context.agent_long_term_memory (user_id, agent_id) ON DELETE CASCADE,
    CONSTRAINT agent_long_term_memory_versions_lengths CHECK (
        octet_length(agent_id) <= 512 AND octet_length(operation) <= 64 AND octet_length(notes) <= 160000
    ),
    CONSTRAINT agent_long_term_memory_versions_numbers CHECK (version >= 0 AND repeats >= 0)
);
COMMENT ON COLUMN memory_context.agent_long_term_memory_versions.begun_at IS
    'created_at of its notes: an import adds former texts to the same notes only';

CALL memory_context.fence_table_by_agent('agent_long_term_memory');
CALL memory_context.fence_table_by_agent('agent_long_term_memory_versions');
