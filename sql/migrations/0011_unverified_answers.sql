-- Answers that a client brings and the server cannot confirm are marked `is_unverified` in their batch; the server's own
-- answer with the same id takes their place.
CREATE OR REPLACE FUNCTION memory_context.append_chat(of_user text, its_session text, its_messages jsonb)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    its_ids text[] := ARRAY(SELECT message ->> 'id' FROM jsonb_array_elements(its_messages) AS message);
    new_messages jsonb;
    new_ids text[];
    first_at timestamptz;
    last_at timestamptz;
BEGIN
    UPDATE memory_context.recent_conversation_history AS batch
    SET message_batch = (
        SELECT jsonb_agg(
            CASE WHEN own IS NULL THEN known ELSE (known - 'is_unverified') || jsonb_build_object('text', own -> 'text') END
            ORDER BY place
        )
        FROM jsonb_array_elements(batch.message_batch) WITH ORDINALITY AS said (known, place)
        LEFT JOIN jsonb_array_elements(its_messages) AS own
            ON known @> '{"is_unverified": true}' AND own ->> 'id' = known ->> 'id' AND own ->> 'sender' = 'ai'
                AND NOT own @> '{"is_unverified": true}'
    )
    WHERE user_id = of_user AND session_id = its_session AND kind = 'client' AND message_ids && its_ids
        AND message_batch @> '[{"is_unverified": true}]';
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
