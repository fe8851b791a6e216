-- The index: derived from the lake, can be rebuilt at any time. One row per (entity, facet name) holds the facet that won.
create table if not exists meta (key text primary key, value text not null) without rowid;

-- Which events are in the lake, and by which batch: an event that comes again adds nothing.
create table if not exists events (event_id text primary key, batch text not null) without rowid;

-- Which events were rejected, likewise. One that can be read when it comes again is in `events` from then on, too.
create table if not exists rejected (event_id text primary key, batch text not null) without rowid;

create table if not exists runs (
    run_uuid text primary key, job_namespace text, job_name text, state text not null,
    state_rank integer not null, state_at integer, state_seq integer not null,
    started_at integer, ended_at integer, first_event_at integer, last_event_at integer,
    parent_run_uuid text, parent_job_namespace text, parent_job_name text, root_run_uuid text,
    session_id text, execution_id text, last_seq integer not null
) without rowid;
create index if not exists runs_by_job on runs (job_namespace, job_name, started_at);
create index if not exists runs_by_session on runs (session_id);

create table if not exists jobs (
    namespace text not null, name text not null, job_type text, integration text, latest_run_uuid text,
    last_event_at integer, first_seq integer not null, last_seq integer not null, primary key (namespace, name)
) without rowid;

create table if not exists datasets (
    namespace text not null, name text not null, last_event_at integer,
    first_seq integer not null, last_seq integer not null, primary key (namespace, name)
) without rowid;
create index if not exists datasets_by_name on datasets (name);

create table if not exists run_io (
    run_uuid text not null, direction text not null, dataset_namespace text not null, dataset_name text not null,
    dataset_version text not null, job_namespace text, job_name text, session_id text, last_seq integer not null,
    primary key (run_uuid, direction, dataset_namespace, dataset_name, dataset_version)
) without rowid;
create index if not exists run_io_by_dataset on run_io (dataset_namespace, dataset_name, direction);

create table if not exists job_edges (
    job_namespace text not null, job_name text not null, direction text not null,
    dataset_namespace text not null, dataset_name text not null,
    last_run_uuid text, last_event_at integer, first_seq integer not null, last_seq integer not null,
    primary key (job_namespace, job_name, direction, dataset_namespace, dataset_name)
) without rowid;
create index if not exists job_edges_by_dataset on job_edges (dataset_namespace, dataset_name, direction);

-- A statement is what one run (or a job without one) said of one output; a later statement of it replaces it whole.
create table if not exists statements (
    author text not null, dataset_namespace text not null, dataset_name text not null, dataset_version text not null,
    seq integer not null, event_time integer not null, run_uuid text, job_namespace text, job_name text, session_id text,
    edge_set text not null, primary key (author, dataset_namespace, dataset_name, dataset_version)
) without rowid;
create index if not exists statements_by_dataset on statements (dataset_namespace, dataset_name, dataset_version);
create index if not exists statements_by_session on statements (session_id) where session_id is not null;
create index if not exists statements_by_edge_set on statements (edge_set);

-- A job says the same of its output run after run: the edges are kept once.
create table if not exists edge_sets (
    edge_set text not null, ordinal integer not null, "column" text,
    source_namespace text not null, source_name text not null, source_column text,
    type text not null, subtype text, description text, masking integer, primary key (edge_set, ordinal)
) without rowid;
create index if not exists edge_sets_by_source on edge_sets (source_namespace, source_name, source_column);

create view if not exists column_edges as
select statements.*, ordinal, "column", source_namespace, source_name, source_column, type, subtype, description, masking,
    coalesce((
        select max(run_io.dataset_version) from run_io
        where run_io.run_uuid = statements.run_uuid and direction = 'INPUT'
        and run_io.dataset_namespace = source_namespace and run_io.dataset_name = source_name
    ), '') as source_version
from statements join edge_sets using (edge_set);

create table if not exists cell_executions (
    session_id text not null, execution_id text not null, notebook text, cell_id text, cell_name text, cell_index integer,
    cell_source text, started_at integer, ended_at integer, start_memory_mb real, end_memory_mb real, duration_ms real,
    error_type text, error_message text, traceback text, state text not null, first_seq integer not null, last_seq integer not null,
    primary key (session_id, execution_id)
) without rowid;

create table if not exists operations (
    session_id text not null, operation_id text not null, run_uuid text, execution_id text, cell_id text, cell_name text, notebook text,
    operation_type text, operation_method text, operation_code text, line integer, end_line integer, count integer,
    inputs text not null, outputs text not null, event_time integer, overhead_ms real, duration_ms real, df_size_mb real,
    last_seq integer not null, primary key (session_id, operation_id)
) without rowid;
create index if not exists operations_by_run on operations (run_uuid);

-- What facet bodies are packed with; a body bears the id of its own in its frame.
create table if not exists dictionaries (id integer primary key, body blob not null);

create table if not exists facets (
    kind text not null, entity text not null, name text not null, seq integer not null, event_time integer, body blob not null,
    primary key (kind, entity, name)
) without rowid;
