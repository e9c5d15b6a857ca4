-- What a database administrator runs once, as a superuser: Postgres 15 or newer, pgvector 0.8 or newer (recommended: 0.8.4).
-- Take passwords of your own.

-- The owner migrates and nothing else. The application's login has no rights but those of this group.
CREATE ROLE memory_context_app NOLOGIN;
CREATE ROLE memory_owner LOGIN PASSWORD 'owner-password';
CREATE ROLE memory_app LOGIN PASSWORD 'app-password' IN ROLE memory_context_app;

CREATE DATABASE memory OWNER memory_owner TEMPLATE template0 ENCODING 'UTF8';
REVOKE CONNECT ON DATABASE memory FROM PUBLIC;
GRANT CONNECT ON DATABASE memory TO memory_app;

\connect memory
CREATE EXTENSION vector;
