-- Values that stay out of every text: encrypted before they reach the database, by a key that it never sees. A row without a
-- value is a name that came with an import. Rows with a session hold what was masked in its tool results.
CREATE TABLE memory_context.user_secrets (
    user_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL DEFAULT '',
    key_id text COLLATE "C",
    nonce bytea,
    ciphertext bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT user_secrets_pkey PRIMARY KEY (user_id, name),
    CONSTRAINT user_secrets_user_id_named CHECK (user_id <> ''),
    CONSTRAINT user_secrets_name_formed CHECK (name ~ '^[A-Za-z][A-Za-z0-9_.-]*$'),
    CONSTRAINT user_secrets_value_whole CHECK (
        (key_id IS NULL) = (nonce IS NULL) AND (key_id IS NULL) = (ciphertext IS NULL)
    ),
    CONSTRAINT user_secrets_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(name) <= 64 AND octet_length(session_id) <= 512
        AND octet_length(key_id) <= 64 AND octet_length(ciphertext) <= 65536
    )
);
CREATE INDEX user_secrets_session ON memory_context.user_secrets (user_id, session_id);

CALL memory_context.fence_table('user_secrets');
