-- Who may log in as what. Names and passwords in braces are composed by the driver: utility statements take no parameters.

-- name: fetch_login :one
-- What the current login may do: whether it can prepare the database, and whether row-level security holds for it.
SELECT
    current_user::text AS name,
    current_database()::text AS database,
    rolsuper AS is_superuser,
    rolbypassrls AS bypasses_rls,
    rolcreaterole AS may_create_roles,
    has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
    to_regnamespace('memory_context') IS NOT NULL AS has_schema,
    EXISTS (
        SELECT FROM pg_namespace WHERE nspname = 'memory_context' AND pg_has_role(nspowner, 'MEMBER')
        UNION ALL
        SELECT FROM pg_class WHERE relnamespace = to_regnamespace('memory_context') AND pg_has_role(relowner, 'MEMBER')
        UNION ALL
        SELECT FROM pg_proc WHERE pronamespace = to_regnamespace('memory_context') AND pg_has_role(proowner, 'MEMBER')
    ) AS owns_schema,
    COALESCE(pg_has_role(to_regrole('memory_context_app'), 'USAGE'), false) AS is_app_member,
    COALESCE((
        SELECT bool_and(relforcerowsecurity)
        FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid
        WHERE relnamespace = to_regnamespace('memory_context') AND polname = relname || '_own_rows' AND relname <> 'memory_users'
    ), false) AS is_bound
FROM pg_roles
WHERE rolname = current_user;

-- name: fetch_role_exists :one
-- Whether a login of this name is there already. Reads the table: to_regrole answers from a cache that does not hear of
-- what another process committed while this one waited for the lock.
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %(name)s) AS exists;

-- name: create_login :exec
-- The login of the pool: an ordinary one.
CREATE ROLE {login} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD {password};

-- name: update_login_password :exec
-- After the owner's password changed, the one derived from it has to follow.
ALTER ROLE {login} PASSWORD {password};

-- name: bind_owner :exec
-- Where there is no other login, row-level security has to hold for the owner.
CALL memory_context.bind_owner();

-- name: grant_vector_schema :exec
-- The pool's logins use the types and operators of pgvector, in whichever schema they are.
GRANT USAGE ON SCHEMA {schema} TO memory_context_app;

-- name: grant_app_role :exec
-- All rights of the pool come from the group role.
GRANT memory_context_app TO {login};
