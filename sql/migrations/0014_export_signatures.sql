-- What is one of a kind in an installation. The key that signs its exports is made once; only the owner reads it, and no
-- other installation knows it.
CREATE TABLE memory_context.installation (
    is_only boolean NOT NULL DEFAULT true,
    export_key bytea NOT NULL,
    CONSTRAINT installation_pkey PRIMARY KEY (is_only),
    CONSTRAINT installation_one_row CHECK (is_only),
    CONSTRAINT installation_key_length CHECK (octet_length(export_key) = 32)
);
ALTER TABLE memory_context.installation ENABLE ROW LEVEL SECURITY;
COMMENT ON TABLE memory_context.installation IS 'one row, which only the owner reads';
INSERT INTO memory_context.installation (export_key) VALUES (sha256(
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
));

-- The signature of an export: HMAC-SHA256 (RFC 2104) of the SHA-256 of the file before its signature, and of its user.
-- Runs as the owner, who alone reads the key.
CREATE FUNCTION memory_context.sign_export(of_user text, file_sha256 bytea) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key bytea := (SELECT export_key FROM memory_context.installation);
    inner_key bytea := decode(repeat('36', 64), 'hex');
    outer_key bytea := decode(repeat('5c', 64), 'hex');
BEGIN
    FOR place IN 0..31 LOOP
        inner_key := set_byte(inner_key, place, get_byte(key, place) # 54);
        outer_key := set_byte(outer_key, place, get_byte(key, place) # 92);
    END LOOP;
    RETURN sha256(outer_key || sha256(inner_key || file_sha256 || convert_to(of_user, 'UTF8')));
END
$$;
REVOKE ALL ON FUNCTION memory_context.sign_export(text, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.sign_export(text, bytea) TO memory_context_app;
