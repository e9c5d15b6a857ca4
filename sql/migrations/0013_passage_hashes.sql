-- A passage carries a hash of its text, and a content one of its beginning, which searches show before it is indexed. What
-- was indexed before has none and is shown without a comparison. A passage with credentials also has the text that is
-- embedded: masked in the whole content, since the end of a passage may cut a credential in half.
ALTER TABLE memory_context.agent_memory_chunks ADD COLUMN masked_text text, ADD COLUMN text_sha256 bytea;
COMMENT ON COLUMN memory_context.agent_memory_chunks.masked_text IS
    'the text without credentials, which is embedded; NULL if there are none, or an earlier version indexed it';
COMMENT ON COLUMN memory_context.agent_memory_chunks.text_sha256 IS
    'of the text as it stands here; NULL if an earlier version indexed it';

ALTER TABLE memory_context.agent_memory_contents ADD COLUMN beginning_sha256 bytea;
COMMENT ON COLUMN memory_context.agent_memory_contents.beginning_sha256 IS
    'of what searches show before it is indexed; NULL if an earlier version stored it';

-- The hash of the beginning of a content: of 2,000 characters, or bytes where it is kept as such.
CREATE FUNCTION memory_context.beginning_sha256(content text, content_raw bytea) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(coalesce(substring(content_raw FOR 2000), convert_to(left(content, 2000), 'UTF8')))
$$;

CREATE OR REPLACE FUNCTION memory_context.store_content(
    of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        INSERT INTO memory_context.agent_memory_contents (
            user_id, content, content_raw, content_bytes, content_sha256, beginning_sha256
        )
        VALUES (
            of_user, its_content, its_content_raw, its_bytes, its_sha256,
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
