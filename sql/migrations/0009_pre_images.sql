-- Images are items: their bytes are a content with a MIME type.
ALTER TABLE memory_context.agent_memory_contents
    ADD COLUMN content_type text COLLATE "C",
    ADD CONSTRAINT agent_memory_contents_content_type CHECK (
        content_type IS NULL OR (content_raw IS NOT NULL AND octet_length(content_type) <= 255)
    ) NOT VALID;
COMMENT ON COLUMN memory_context.agent_memory_contents.content_type IS
    'the MIME type of bytes that are no text, such as image/png; NULL for text';

-- Store a content of any type that is not there yet; the function of five arguments takes texts only.
CREATE FUNCTION memory_context.store_content(
    of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint, its_type text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        INSERT INTO memory_context.agent_memory_contents (
            user_id, content, content_raw, content_bytes, content_type, content_sha256, beginning_sha256
        )
        VALUES (
            of_user, its_content, its_content_raw, its_bytes, its_type, its_sha256,
            memory_context.beginning_sha256(its_content, its_content_raw)
        )
        ON CONFLICT ON CONSTRAINT agent_memory_contents_sha256_unique DO NOTHING;
        EXIT WHEN FOUND;
        PERFORM FROM memory_context.agent_memory_contents
        WHERE user_id = of_user AND content_sha256 = its_sha256
        FOR KEY SHARE;
        EXIT WHEN FOUND; -- else somebody forgot its last item just now
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION memory_context.store_content(text, bytea, text, bytea, bigint, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.store_content(text, bytea, text, bytea, bigint, text) TO memory_context_app;
CREATE OR REPLACE FUNCTION memory_context.store_content(
    of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint
) RETURNS void LANGUAGE sql AS $$
    SELECT memory_context.store_content(of_user, its_sha256, its_content, its_content_raw, its_bytes, NULL)
$$;
