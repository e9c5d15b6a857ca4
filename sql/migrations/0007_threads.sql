-- Threads: conversations as a user interface showed them, for its history and for going on with one. What the agent keeps
-- of the same conversation is the session of the same id.

-- Who logged in to a user interface.
CREATE TABLE memory_context.ui_users (
    user_id text COLLATE "C" NOT NULL,
    metadata jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ui_users_pkey PRIMARY KEY (user_id),
    CONSTRAINT ui_users_user_id_named CHECK (user_id <> ''),
    CONSTRAINT ui_users_lengths CHECK (octet_length(user_id) <= 512)
);

-- A thread's row stays as a tombstone when it is deleted: what is still on its way to it then finds no place.
CREATE TABLE memory_context.ui_threads (
    user_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    name text,
    tags text[],
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    last_activity_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    CONSTRAINT ui_threads_pkey PRIMARY KEY (user_id, thread_id),
    CONSTRAINT ui_threads_user_id_named CHECK (user_id <> ''),
    CONSTRAINT ui_threads_thread_id_named CHECK (thread_id <> ''),
    CONSTRAINT ui_threads_lengths CHECK (octet_length(user_id) <= 512 AND octet_length(thread_id) <= 512)
);
COMMENT ON COLUMN memory_context.ui_threads.deleted_at IS 'of a tombstone: nothing is shown in it any more';

-- The one key that does not begin with the user: whose a thread is has to be found by its id, which the browser sends, and
-- the first user to come with an id keeps it.
CREATE UNIQUE INDEX ui_threads_owner ON memory_context.ui_threads (thread_id);
-- A user's threads, those used last first.
CREATE INDEX ui_threads_activity ON memory_context.ui_threads (user_id, last_activity_at, thread_id)
    WHERE deleted_at IS NULL;

-- What was shown in a thread: messages, runs, calls of tools. All text is escaped like short columns.
CREATE TABLE memory_context.ui_steps (
    user_id text COLLATE "C" NOT NULL,
    step_id text COLLATE "C" NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    thread_id text COLLATE "C" NOT NULL,
    input text,
    output text,
    fields jsonb NOT NULL,
    is_updated boolean NOT NULL,
    created_at timestamptz NOT NULL,
    feedback_id text COLLATE "C",
    feedback_value smallint,
    feedback_comment text,
    CONSTRAINT ui_steps_pkey PRIMARY KEY (user_id, step_id),
    CONSTRAINT ui_steps_thread FOREIGN KEY (user_id, thread_id)
        REFERENCES memory_context.ui_threads (user_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT ui_steps_lengths CHECK (octet_length(step_id) <= 512 AND octet_length(feedback_id) <= 512),
    CONSTRAINT ui_steps_feedback_whole CHECK ((feedback_id IS NULL) = (feedback_value IS NULL))
);
COMMENT ON COLUMN memory_context.ui_steps.fields IS 'all else that the interface keeps of it, also what is not known here';
COMMENT ON COLUMN memory_context.ui_steps.is_updated IS
    'whether an update has come: what comes as new afterwards is older and only fills in what is missing';
COMMENT ON COLUMN memory_context.ui_steps.position IS 'the order of what was created at the same time';

-- A thread's steps in their order.
CREATE INDEX ui_steps_order ON memory_context.ui_steps (user_id, thread_id, created_at, position);
-- Who rated what.
CREATE INDEX ui_steps_feedback ON memory_context.ui_steps (user_id, feedback_id) WHERE feedback_id IS NOT NULL;
CREATE INDEX ui_steps_favorites ON memory_context.ui_steps (user_id, created_at)
    WHERE fields #> '{metadata,favorite}' = 'true';

-- What was shown beside a step: images, texts, files. No foreign key to the step: it may come later.
CREATE TABLE memory_context.ui_elements (
    user_id text COLLATE "C" NOT NULL,
    element_id text COLLATE "C" NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    thread_id text COLLATE "C" NOT NULL,
    step_id text COLLATE "C" NOT NULL,
    fields jsonb NOT NULL,
    content bytea,
    CONSTRAINT ui_elements_pkey PRIMARY KEY (user_id, element_id),
    CONSTRAINT ui_elements_thread FOREIGN KEY (user_id, thread_id)
        REFERENCES memory_context.ui_threads (user_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT ui_elements_lengths CHECK (octet_length(element_id) <= 512 AND octet_length(step_id) <= 512)
);
COMMENT ON COLUMN memory_context.ui_elements.step_id IS 'empty when it belongs to the whole thread';
COMMENT ON COLUMN memory_context.ui_elements.content IS 'NULL when there is none: it lies elsewhere, or was too large';
-- Not compressed: most of it is already, and a part of it can then be read without the rest.
ALTER TABLE memory_context.ui_elements ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE INDEX ui_elements_order ON memory_context.ui_elements (user_id, thread_id, position);

ALTER TABLE memory_context.ui_users ENABLE ROW LEVEL SECURITY;
CREATE POLICY ui_users_own_rows ON memory_context.ui_users
    USING (user_id = current_setting('memory_context.user_id', true))
    WITH CHECK (user_id = current_setting('memory_context.user_id', true));
ALTER TABLE memory_context.ui_threads ENABLE ROW LEVEL SECURITY;
CREATE POLICY ui_threads_own_rows ON memory_context.ui_threads
    USING (user_id = current_setting('memory_context.user_id', true))
    WITH CHECK (user_id = current_setting('memory_context.user_id', true));
ALTER TABLE memory_context.ui_steps ENABLE ROW LEVEL SECURITY;
CREATE POLICY ui_steps_own_rows ON memory_context.ui_steps
    USING (user_id = current_setting('memory_context.user_id', true))
    WITH CHECK (user_id = current_setting('memory_context.user_id', true));
ALTER TABLE memory_context.ui_elements ENABLE ROW LEVEL SECURITY;
CREATE POLICY ui_elements_own_rows ON memory_context.ui_elements
    USING (user_id = current_setting('memory_context.user_id', true))
    WITH CHECK (user_id = current_setting('memory_context.user_id', true));

-- Whose a thread is: an interface asks before it knows whether the user who wants it may have it. Runs as the owner of the
-- tables, and tells of one id its user and nothing else; what is in the thread is read as that user.
CREATE FUNCTION memory_context.ui_thread_owner(its_thread text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT user_id FROM memory_context.ui_threads WHERE thread_id = its_thread AND deleted_at IS NULL
$$;

REVOKE ALL ON FUNCTION memory_context.ui_thread_owner(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.ui_thread_owner(text) TO memory_context_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    memory_context.ui_users, memory_context.ui_threads, memory_context.ui_steps, memory_context.ui_elements
TO memory_context_app;
