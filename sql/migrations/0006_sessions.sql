-- Sessions and what was said in them: transcripts in batches, and the messages that people saw.

-- A user's oldest items, for pruning. By a time that never changes: one that does would make every use of an item dearer.
CREATE INDEX agent_memories_age ON memory_context.agent_memories (user_id, created_at, id) WHERE is_active;

-- A session's row is the lock of all who write to it, and stays as a tombstone when it is deleted.
CREATE TABLE memory_context.agent_sessions (
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    title text NOT NULL DEFAULT '',
    summary text NOT NULL DEFAULT '',
    message_count bigint NOT NULL DEFAULT 0,
    chat_count bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_activity_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    CONSTRAINT agent_sessions_pkey PRIMARY KEY (user_id, session_id),
    CONSTRAINT agent_sessions_user_id_named CHECK (user_id <> ''),
    CONSTRAINT agent_sessions_session_id_named CHECK (session_id <> ''),
    CONSTRAINT agent_sessions_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(session_id) <= 512 AND octet_length(agent_id) <= 512
    ),
    CONSTRAINT agent_sessions_counts CHECK (message_count >= 0 AND chat_count >= 0)
);
COMMENT ON COLUMN memory_context.agent_sessions.agent_id IS 'the agent that began it; other agents may archive in it too';
COMMENT ON COLUMN memory_context.agent_sessions.message_count IS 'messages in its transcripts';
COMMENT ON COLUMN memory_context.agent_sessions.chat_count IS 'chat messages, as a person sees them';
COMMENT ON COLUMN memory_context.agent_sessions.deleted_at IS 'of a tombstone: whoever still archives in it is refused';

-- A user's sessions, those used last first; and what is old, for pruning.
CREATE INDEX agent_sessions_activity ON memory_context.agent_sessions (user_id, last_activity_at, session_id);

CREATE TABLE memory_context.recent_conversation_history (
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    branch text COLLATE "C" NOT NULL,
    sequence integer NOT NULL,
    message_batch jsonb NOT NULL,
    batch_sha256 bytea,
    message_count integer NOT NULL,
    begins_anew boolean NOT NULL DEFAULT false,
    memory_keys text[] NOT NULL DEFAULT '{}',
    message_ids text[] NOT NULL DEFAULT '{}',
    start_timestamp timestamptz NOT NULL,
    end_timestamp timestamptz NOT NULL,
    archived_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT recent_conversation_history_pkey PRIMARY KEY (user_id, session_id, kind, agent_id, branch, sequence),
    CONSTRAINT recent_conversation_history_session FOREIGN KEY (user_id, session_id)
        REFERENCES memory_context.agent_sessions (user_id, session_id) ON DELETE CASCADE,
    CONSTRAINT recent_conversation_history_user_id_named CHECK (user_id <> ''),
    CONSTRAINT recent_conversation_history_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(session_id) <= 512 AND octet_length(agent_id) <= 512
        AND octet_length(branch) <= 512
    ),
    CONSTRAINT recent_conversation_history_kinds CHECK (
        (kind = 'transcript' AND octet_length(batch_sha256) = 32)
        OR (kind = 'client' AND batch_sha256 IS NULL AND agent_id = '' AND branch = '' AND NOT begins_anew)
    ),
    CONSTRAINT recent_conversation_history_counts CHECK (sequence >= 0 AND message_count >= 0)
);
COMMENT ON COLUMN memory_context.recent_conversation_history.kind IS
    'transcript: the next stretch of an agent''s transcript; client: chat messages';
COMMENT ON COLUMN memory_context.recent_conversation_history.branch IS
    'empty for the main line; other lines were gone on with by a process that found its number taken';
COMMENT ON COLUMN memory_context.recent_conversation_history.message_batch IS
    'of a transcript its entries and decisions, of chat messages a list of them; all strings are escaped like short columns';
COMMENT ON COLUMN memory_context.recent_conversation_history.batch_sha256 IS
    'of the canonical form of message_batch, made again when it is read';
COMMENT ON COLUMN memory_context.recent_conversation_history.message_count IS 'how many messages are new with this batch';
COMMENT ON COLUMN memory_context.recent_conversation_history.begins_anew IS
    'everything since the beginning is in it: reading starts at the last one';
COMMENT ON COLUMN memory_context.recent_conversation_history.memory_keys IS 'the items it refers to';
COMMENT ON COLUMN memory_context.recent_conversation_history.message_ids IS
    'of chat messages their ids; of a transcript those of the chat messages whose words are in it';

-- A page of a session's chat messages without opening the batches that cannot hold one of them.
CREATE INDEX recent_conversation_history_chat
    ON memory_context.recent_conversation_history (user_id, session_id, end_timestamp, start_timestamp)
    WHERE kind = 'client';

ALTER TABLE memory_context.agent_sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_sessions_own_rows ON memory_context.agent_sessions
    USING (user_id = current_setting('memory_context.user_id', true))
    WITH CHECK (user_id = current_setting('memory_context.user_id', true));
ALTER TABLE memory_context.recent_conversation_history ENABLE ROW LEVEL SECURITY;
CREATE POLICY recent_conversation_history_own_rows ON memory_context.recent_conversation_history
    USING (user_id = current_setting('memory_context.user_id', true))
    WITH CHECK (user_id = current_setting('memory_context.user_id', true));

GRANT SELECT, INSERT, UPDATE, DELETE ON memory_context.agent_sessions, memory_context.recent_conversation_history
    TO memory_context_app;

-- Make a session or note that it was used, and hold its row: until the transaction ends nobody else writes to it. The
-- user of a new one is put on the list of users, whose row is locked even if it is there: whoever erases the user waits.
-- Refused if it was deleted, or the session it is a part of (`<session>/...`).
CREATE FUNCTION memory_context.touch_session(
    of_user text, its_session text, its_agent text, its_title text, title_is_final boolean, its_summary text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    is_new boolean;
    gone_at timestamptz;
BEGIN
    INSERT INTO memory_context.agent_sessions AS session (user_id, session_id, agent_id, title, summary)
    VALUES (of_user, its_session, its_agent, coalesce(its_title, ''), coalesce(its_summary, ''))
    ON CONFLICT ON CONSTRAINT agent_sessions_pkey DO UPDATE
    SET last_activity_at = greatest(session.last_activity_at, now()),
        title = CASE WHEN title_is_final OR session.title = '' THEN coalesce(its_title, session.title) ELSE session.title END,
        summary = coalesce(its_summary, session.summary)
    WHERE session.deleted_at IS NULL
    RETURNING session.xmax = 0 INTO is_new;
    IF is_new IS NOT false THEN
        SELECT max(deleted_at) INTO gone_at FROM memory_context.agent_sessions
        WHERE user_id = of_user AND session_id = ANY(ARRAY(
            SELECT array_to_string(parts[1:length], '/')
            FROM string_to_array(its_session, '/') AS parts, generate_series(1, cardinality(parts)) AS length
        ));
        IF gone_at IS NOT NULL THEN
            RAISE EXCEPTION 'deleted on %', to_char(gone_at AT TIME ZONE 'UTC', 'YYYY-MM-DD "at" HH24:MI:SS "UTC"')
                USING ERRCODE = '23M01';
        END IF;
        INSERT INTO memory_context.memory_users AS known (user_id) VALUES (of_user)
        ON CONFLICT ON CONSTRAINT memory_users_pkey DO UPDATE SET has_set_aside = known.has_set_aside WHERE false;
    END IF;
END
$$;

-- Archive a batch of a transcript, unless its number is taken: by the same batch (known) or by another (conflict). The
-- session is held by touch_session.
CREATE FUNCTION memory_context.append_batch(
    of_user text, its_session text, its_agent text, its_branch text, its_sequence integer, its_batch jsonb,
    its_sha256 bytea, its_message_count integer, it_begins_anew boolean, its_memory_keys text[], its_message_ids text[],
    it_started timestamptz, it_ended timestamptz
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_context.recent_conversation_history (
        user_id, session_id, kind, agent_id, branch, sequence, message_batch, batch_sha256, message_count, begins_anew,
        memory_keys, message_ids, start_timestamp, end_timestamp
    ) VALUES (
        of_user, its_session, 'transcript', its_agent, its_branch, its_sequence, its_batch, its_sha256, its_message_count,
        it_begins_anew, its_memory_keys, its_message_ids, it_started, it_ended
    )
    ON CONFLICT ON CONSTRAINT recent_conversation_history_pkey DO NOTHING;
    IF FOUND THEN
        UPDATE memory_context.agent_sessions SET message_count = message_count + its_message_count
        WHERE user_id = of_user AND session_id = its_session;
        RETURN 'stored';
    END IF;
    RETURN CASE WHEN EXISTS (
        SELECT FROM memory_context.recent_conversation_history
        WHERE user_id = of_user AND session_id = its_session AND kind = 'transcript' AND agent_id = its_agent
            AND branch = its_branch AND sequence = its_sequence AND batch_sha256 = its_sha256
    ) THEN 'known' ELSE 'conflict' END;
END
$$;

-- Archive those of some chat messages that the session does not have, and return their ids. The session is held by
-- touch_session.
CREATE FUNCTION memory_context.append_chat(of_user text, its_session text, its_messages jsonb)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    its_ids text[] := ARRAY(SELECT message ->> 'id' FROM jsonb_array_elements(its_messages) AS message);
    new_messages jsonb;
    new_ids text[];
    first_at timestamptz;
    last_at timestamptz;
BEGIN
    SELECT
        jsonb_agg(message ORDER BY place), array_agg(message ->> 'id' ORDER BY place),
        min((message ->> 'timestamp')::timestamptz), max((message ->> 'timestamp')::timestamptz)
    INTO new_messages, new_ids, first_at, last_at
    FROM jsonb_array_elements(its_messages) WITH ORDINALITY AS given (message, place)
    WHERE message ->> 'id' NOT IN (
        SELECT unnest(message_ids) FROM memory_context.recent_conversation_history
        WHERE user_id = of_user AND session_id = its_session AND kind = 'client' AND message_ids && its_ids
    );
    IF new_ids IS NULL THEN
        RETURN '{}';
    END IF;
    INSERT INTO memory_context.recent_conversation_history (
        user_id, session_id, kind, agent_id, branch, sequence, message_batch, message_count, message_ids, start_timestamp,
        end_timestamp
    )
    SELECT
        of_user, its_session, 'client', '', '', coalesce(max(sequence), -1) + 1, new_messages, cardinality(new_ids),
        new_ids, first_at, last_at
    FROM memory_context.recent_conversation_history
    WHERE user_id = of_user AND session_id = its_session AND kind = 'client' AND agent_id = '' AND branch = '';
    UPDATE memory_context.agent_sessions SET chat_count = chat_count + cardinality(new_ids)
    WHERE user_id = of_user AND session_id = its_session;
    RETURN new_ids;
END
$$;

REVOKE ALL ON FUNCTION memory_context.touch_session(text, text, text, text, boolean, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION memory_context.append_batch(
    text, text, text, text, integer, jsonb, bytea, integer, boolean, text[], text[], timestamptz, timestamptz
) FROM PUBLIC;
REVOKE ALL ON FUNCTION memory_context.append_chat(text, text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.touch_session(text, text, text, text, boolean, text) TO memory_context_app;
GRANT EXECUTE ON FUNCTION memory_context.append_batch(
    text, text, text, text, integer, jsonb, bytea, integer, boolean, text[], text[], timestamptz, timestamptz
) TO memory_context_app;
GRANT EXECUTE ON FUNCTION memory_context.append_chat(text, text, jsonb) TO memory_context_app;
