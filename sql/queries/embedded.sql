-- The one database of the embedded server.

-- name: fetch_database_exists :one
-- A row if it is there.
SELECT 1 FROM pg_database WHERE datname = %(name)s;

-- name: create_database :exec
-- From template0, which nobody can be connected to.
CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8';
