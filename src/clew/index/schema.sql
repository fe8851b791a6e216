-- The index: derived from the lake, can be rebuilt at any time.
-- Tables `without rowid` are ordered by their keys. Those with a row for each run are not: their rows stand as they came,
-- so that a batch writes them to a few pages, and their indexes hold a number in place of the whole key.
create table if not exists meta (key text primary key, value text not null) without rowid;

-- Which events are in the lake, and by which batch: an event that comes again adds nothing. Ids are in no order, so a
-- batch writes to pages all over the table: the smaller its rows, the fewer there are.
create table if not exists batches (name text primary key, number integer not null) without rowid;
create table if not exists events (event_id blob primary key, batch integer not null) without rowid;

-- Which events were rejected, likewise. One that can be read when it comes again is in `events` from then on, too.
create table if not exists rejected (event_id blob primary key, batch integer not null) without rowid;

-- The events of runs in the order of their own times: what kind each is, and where in the log it stands.
create table if not exists run_events (
    at integer not null, seq integer not null, event_type text not null, primary key (at, seq)
) without rowid;

-- The times of events, by their positions, in an index in which facets count by the time of their events.
create table if not exists moments (position integer primary key, at integer not null);

-- Each `…_seq` is the position of the event that decided the values before it, so that late batches can be compared.
-- `job_version` is set once a run has ended.
create table if not exists runs (
    run_uuid text primary key, job_namespace text, job_name text, job_seq integer,
    state text not null, state_rank integer not null, state_at integer not null, state_seq integer not null,
    started_at integer, ended_at integer, first_event_at integer not null, last_event_at integer not null,
    parent_run_uuid text, parent_job_namespace text, parent_job_name text,
    root_run_uuid text, root_job_namespace text, root_job_name text, parent_seq integer,
    nominal_start_at integer, nominal_end_at integer, nominal_seq integer,
    error_message text, error_language text, error_seq integer, location text, location_seq integer,
    session_id text, execution_id text, last_seq integer not null, job_version text
);
create index if not exists runs_by_job on runs (job_namespace, job_name, started_at);
create index if not exists runs_by_session on runs (session_id) where session_id is not null;
create index if not exists runs_by_time on runs (first_event_at);
create index if not exists runs_that_failed on runs (first_event_at) where state in ('FAILED', 'ABORTED');
create index if not exists runs_by_version on runs (job_version, ended_at) where job_version is not null;

create table if not exists jobs (
    namespace text not null, name text not null,
    job_type text, integration text, processing_type text, type_seq integer, description text, description_seq integer,
    latest_run_uuid text, latest_run_at integer, latest_run_seq integer,
    first_event_at integer, last_event_at integer, first_seq integer not null, last_seq integer not null, primary key (namespace, name)
) without rowid;

-- Runs that others name as their parent or root, and the jobs that they say those are of.
create table if not exists mentioned_runs (
    run_uuid text primary key, job_namespace text, job_name text, job_seq integer, last_seq integer not null
) without rowid;
create table if not exists mentioned_jobs (
    namespace text not null, name text not null, first_seq integer not null, last_seq integer not null,
    primary key (namespace, name)
) without rowid;

-- A run or a job that is only known by name is there as a placeholder, until an event of its own comes.
create view if not exists all_runs as
select *, 0 as is_placeholder from runs
union all
select run_uuid, job_namespace, job_name, job_seq, 'NEW', 0, null, null, null, null, null, null, null, null, null, null, null,
    null, null, null, null, null, null, null, null, null, null, null, null, last_seq, null, 1
from mentioned_runs where not exists (select 1 from runs where runs.run_uuid = mentioned_runs.run_uuid);
create view if not exists all_jobs as
select *, 0 as is_placeholder from jobs
union all
select namespace, name, null, null, null, null, null, null, null, null, null, null, null, first_seq, last_seq, 1
from mentioned_jobs where not exists (
    select 1 from jobs where jobs.namespace = mentioned_jobs.namespace and jobs.name = mentioned_jobs.name
);

-- Versions of jobs that JobEvents declare.
create table if not exists job_declarations (
    job_namespace text not null, job_name text not null, version text not null,
    inputs text not null, outputs text not null, location text, created_at integer not null,
    declared_at integer not null, declared_seq integer not null, first_seq integer not null, last_seq integer not null,
    primary key (job_namespace, job_name, version)
) without rowid;

-- Schemas, each once, named by its content.
create table if not exists schemas (schema_id text primary key, fields text not null) without rowid;

-- Versions of datasets that DatasetEvents declare.
create table if not exists dataset_declarations (
    dataset_namespace text not null, dataset_name text not null, schema_id text not null, lifecycle_state text not null,
    version text, created_at integer not null, last_seq integer not null,
    primary key (dataset_namespace, dataset_name, schema_id, lifecycle_state)
) without rowid;

create table if not exists datasets (
    namespace text not null, name text not null, first_event_at integer, last_event_at integer,
    written_at integer, written_seq integer,
    lifecycle_state text, lifecycle_at integer, lifecycle_seq integer, renamed_from_namespace text, renamed_from_name text,
    first_seq integer not null, last_seq integer not null, primary key (namespace, name)
) without rowid;
create index if not exists datasets_by_name on datasets (name);

-- What datasets are called since they were renamed.
create table if not exists renames (
    namespace text not null, name text not null, to_namespace text not null, to_name text not null,
    renamed_at integer not null, last_seq integer not null, primary key (namespace, name)
) without rowid;

-- Dropped or renamed, and not written since, by the times of events, then by arrival. The event that drops may name it as output.
create view if not exists dataset_states as
select datasets.*,
    (lifecycle_state is not distinct from 'DROP' and (written_at is null or (lifecycle_at, lifecycle_seq) >= (written_at, written_seq)))
    or (renamed_at is not null
        and (written_at is null or (renamed_at, renames.last_seq) > (written_at, written_seq))
        and (lifecycle_at is null or (renamed_at, renames.last_seq) > (lifecycle_at, lifecycle_seq))) as is_deleted
from datasets left join renames using (namespace, name);

-- The other names that datasets bear, as JSON, and which node each name is of; a name that is missing is its own.
create table if not exists symlinks (
    namespace text not null, name text not null, identifiers text not null, last_seq integer not null,
    primary key (namespace, name)
) without rowid;
create table if not exists nodes (
    namespace text not null, name text not null, node_namespace text not null, node_name text not null,
    primary key (namespace, name)
) without rowid;
create index if not exists nodes_by_node on nodes (node_namespace, node_name);

create table if not exists run_io (
    run_uuid text not null, direction text not null, dataset_namespace text not null, dataset_name text not null,
    dataset_version text not null, job_namespace text, job_name text, session_id text, last_seq integer not null,
    schema_id text, schema_seq integer, row_count integer, row_count_seq integer, is_implied integer not null,
    primary key (run_uuid, direction, dataset_namespace, dataset_name, dataset_version)
);
create index if not exists run_io_by_dataset on run_io (dataset_namespace, dataset_name, direction);

-- What a job declares without a run (a JobEvent that lists datasets, last at `declared_seq`) is over when it declares
-- something else; what its runs said, or others said of it, lasts.
create table if not exists said_job_edges (
    job_namespace text not null, job_name text not null, direction text not null,
    dataset_namespace text not null, dataset_name text not null,
    last_run_uuid text, first_event_at integer not null, last_event_at integer not null,
    first_seq integer not null, last_seq integer not null, is_implied integer not null,
    declared_seq integer, is_lasting integer not null, is_over integer not null,
    primary key (job_namespace, job_name, direction, dataset_namespace, dataset_name)
) without rowid;
create index if not exists job_edges_by_dataset on said_job_edges (dataset_namespace, dataset_name, direction);
create view if not exists job_edges as
select job_namespace, job_name, direction, dataset_namespace, dataset_name,
    last_run_uuid, first_event_at, last_event_at, first_seq, last_seq, is_implied
from said_job_edges where is_over = 0;

-- A statement is what one run (or a job or a dataset without one) said of one dataset, in a lineage or a columnLineage
-- facet; a later statement of it replaces it whole. One that was taken back has an empty `edge_set`.
create table if not exists statements (
    author text not null, dataset_namespace text not null, dataset_name text not null, dataset_version text not null,
    origin text not null, seq integer not null, event_time integer not null,
    run_uuid text, job_namespace text, job_name text, session_id text, edge_set text not null,
    primary key (author, dataset_namespace, dataset_name, dataset_version, origin)
);
create index if not exists statements_by_dataset on statements (dataset_namespace, dataset_name, dataset_version);
create index if not exists statements_by_session on statements (session_id) where session_id is not null;
create index if not exists statements_by_edge_set on statements (edge_set);

-- Which jobs entries of explicit lineage said to feed a job, as JSON.
create table if not exists links (
    author text not null, job_namespace text not null, job_name text not null,
    seq integer not null, event_time integer not null, run_uuid text, upstream text not null,
    primary key (author, job_namespace, job_name)
) without rowid;
create view if not exists job_links as
select distinct job_namespace, job_name, upstream_namespace, upstream_name, first_value(run_uuid) over said as last_run_uuid,
    max(event_time) over link as last_event_at, min(seq) over link as first_seq, max(seq) over link as last_seq
from (
    select job_namespace, job_name, source.value ->> 0 as upstream_namespace,
        source.value ->> 1 as upstream_name, run_uuid, event_time, seq
    from links, json_each(links.upstream) source
) sources
window link as (partition by job_namespace, job_name, upstream_namespace, upstream_name), said as (link order by seq desc);

-- Without a run, a job declares all its explicit lineage at once: what it declared before is gone.
create table if not exists lineage_declarations (author text primary key, seq integer not null) without rowid;

-- A job says the same of its output run after run: the edges are kept once.
create table if not exists edge_sets (
    edge_set text not null, ordinal integer not null, "column" text,
    source_namespace text not null, source_name text not null, source_column text,
    type text not null, subtype text, description text, masking integer, primary key (edge_set, ordinal)
) without rowid;
create index if not exists edge_sets_by_source on edge_sets (source_namespace, source_name, source_column);

-- Explicit lineage goes before column lineage. It does not name the version of its target: the run's output does.
create view if not exists column_edges as
select author, dataset_namespace, dataset_name,
    case when origin = 'columnLineage' then dataset_version else coalesce((
        select max(run_io.dataset_version) from run_io
        where run_io.run_uuid = statements.run_uuid and direction = 'OUTPUT'
        and run_io.dataset_namespace = statements.dataset_namespace and run_io.dataset_name = statements.dataset_name
    ), '') end as dataset_version,
    origin, seq, event_time, run_uuid, job_namespace, job_name, session_id, edge_set,
    ordinal, "column", source_namespace, source_name, source_column, type, subtype, description, masking,
    coalesce((
        select max(run_io.dataset_version) from run_io
        where run_io.run_uuid = statements.run_uuid and direction = 'INPUT'
        and run_io.dataset_namespace = source_namespace and run_io.dataset_name = source_name
    ), '') as source_version
from statements join edge_sets using (edge_set)
where origin = 'lineage' or not exists (
    select 1 from statements explicit where explicit.author = statements.author
    and explicit.dataset_namespace = statements.dataset_namespace and explicit.dataset_name = statements.dataset_name
    and explicit.origin = 'lineage' and explicit.edge_set != ''
);

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

-- What facets are packed with; a body bears the id of its own in its frame.
create table if not exists dictionaries (id integer primary key, body blob not null);

-- The facets of each entity, packed into one body: of each name the one that won.
create table if not exists facets (
    kind text not null, entity text not null, last_seq integer not null, body blob not null, primary key (kind, entity)
);

-- A cell whose end was never seen is lost once its session is over, or has gone on to a later cell.
create view if not exists cells as
select cell.session_id, execution_id, notebook, cell_id, cell_name, cell_index, cell_source, started_at, ended_at,
    start_memory_mb, end_memory_mb, duration_ms, error_type, error_message, traceback,
    case when state = 'running' and (
        exists (
            select 1 from runs where runs.session_id = cell.session_id and parent_run_uuid is null and state_rank = 3
        )
        or exists (
            select 1 from cell_executions later
            where later.session_id = cell.session_id and later.started_at > cell.started_at
        )
    ) then 'lost' else state end as state, first_seq, last_seq
from cell_executions cell;

-- What runs and JobEvents say of the versions of jobs.
create view if not exists said_job_versions as
select job_namespace, job_name, job_version as version, ended_at as created_at, ended_at as at, state_seq as seq,
    state_seq as first_seq, state_seq as last_seq, run_uuid, location
from runs where job_version is not null
union all
select job_namespace, job_name, version, created_at, declared_at, declared_seq, first_seq, last_seq, null, location
from job_declarations;

create view if not exists job_versions as
select job_namespace, job_name, version,
    coalesce((
        select inputs from job_declarations declared where declared.job_namespace = found.job_namespace
        and declared.job_name = found.job_name and declared.version = found.version
    ), (
        select json_group_array(json_object('namespace', dataset_namespace, 'name', dataset_name)) from (
            select distinct dataset_namespace, dataset_name from run_io
            where run_uuid = latest_run_uuid and direction = 'INPUT' order by dataset_namespace, dataset_name
        ) named
    )) as inputs,
    coalesce((
        select outputs from job_declarations declared where declared.job_namespace = found.job_namespace
        and declared.job_name = found.job_name and declared.version = found.version
    ), (
        select json_group_array(json_object('namespace', dataset_namespace, 'name', dataset_name)) from (
            select distinct dataset_namespace, dataset_name from run_io
            where run_uuid = latest_run_uuid and direction = 'OUTPUT' order by dataset_namespace, dataset_name
        ) named
    )) as outputs,
    location, created_at, first_run_uuid, latest_run_uuid, run_count, first_seq, last_seq
from (
    select job_namespace, job_name, version, max(location) as location, min(created_at) as created_at,
        (
            select run_uuid from runs where job_version = version order by ended_at, state_seq limit 1
        ) as first_run_uuid,
        (
            select run_uuid from runs where job_version = version order by ended_at desc, state_seq desc limit 1
        ) as latest_run_uuid,
        count(run_uuid) as run_count, min(first_seq) as first_seq, max(last_seq) as last_seq
    from said_job_versions group by job_namespace, job_name, version
) found;

create view if not exists current_job_versions as
select job_namespace, job_name, version from (
    select job_namespace, job_name, version,
        row_number() over (partition by job_namespace, job_name order by at desc, seq desc) as place
    from said_job_versions
) said where place = 1;

-- One row per completed write, and per state that a DatasetEvent declares. What a run wrote under a version of its own
-- is one write with what it wrote without, before the version was known.
create view if not exists dataset_versions as
select written.dataset_namespace, written.dataset_name, nullif(written.dataset_version, '') as version,
    written.run_uuid, runs.job_namespace, runs.job_name, runs.ended_at as created_at,
    written.schema_id, null as lifecycle_state, written.row_count, written.last_seq
from run_io written join runs on runs.run_uuid = written.run_uuid
where written.direction = 'OUTPUT' and runs.state = 'COMPLETED' and not (
    written.dataset_version = '' and exists (
        select 1 from run_io versioned where versioned.run_uuid = written.run_uuid and versioned.direction = 'OUTPUT'
        and versioned.dataset_namespace = written.dataset_namespace and versioned.dataset_name = written.dataset_name
        and versioned.dataset_version > ''
    )
)
union all
select dataset_namespace, dataset_name, version, null, null, null, created_at,
    nullif(schema_id, ''), nullif(lifecycle_state, ''), null, last_seq
from dataset_declarations;
