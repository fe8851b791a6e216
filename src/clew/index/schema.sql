-- The index: derived from the lake, can be rebuilt at any time.
-- Tables `without rowid` are clustered by their keys. Tables with a row per run have a rowid instead: a batch appends its
-- rows to a few pages, and secondary indexes store the rowid instead of the whole key.
-- Times are microseconds since 1970. `seq` is the position of an event in the log; each `…_seq` is the position of the
-- event that decided the values before it, so that late batches can be compared. `…_order_time` is the time of that event if
-- facets are ordered by event time, and null if they are ordered by arrival.
create table if not exists meta (key text primary key, value text not null) without rowid;

-- Events in the lake and the batch that ingested them, to find duplicates. The ids are random, so a batch writes to pages
-- all over the table: small rows mean fewer pages.
create table if not exists batches (name text primary key, number integer not null) without rowid;
create table if not exists events (event_id blob primary key, batch integer not null) without rowid;

-- Rejected events and their batch. An event that is accepted on a later attempt is in `events` as well.
create table if not exists rejected (event_id blob primary key, batch integer not null) without rowid;

-- Events of runs, ordered by event time.
create table if not exists run_events (
    event_time integer not null, seq integer not null, event_type text not null, primary key (event_time, seq)
) without rowid;

-- `job_version` is set once a run has ended.
create table if not exists runs (
    run_uuid text primary key, job_namespace text, job_name text, job_seq integer,
    state text not null, state_rank integer not null, state_at integer not null, state_seq integer not null,
    started_at integer, ended_at integer, first_event_at integer not null, last_event_at integer not null,
    parent_run_uuid text, parent_job_namespace text, parent_job_name text,
    root_run_uuid text, root_job_namespace text, root_job_name text, parent_order_time integer, parent_seq integer,
    nominal_start_at integer, nominal_end_at integer, nominal_order_time integer, nominal_seq integer,
    error_message text, error_language text, error_order_time integer, error_seq integer,
    source_code_location text, source_code_location_order_time integer, source_code_location_seq integer,
    session_id text, execution_id text, last_seq integer not null, job_version text, has_lineage_entries integer not null
);
create index if not exists runs_by_job on runs (job_namespace, job_name, started_at);
create index if not exists runs_by_session on runs (session_id) where session_id is not null;
create index if not exists runs_by_time on runs (first_event_at);
create index if not exists failed_runs_by_time on runs (first_event_at) where state in ('FAILED', 'ABORTED');
create index if not exists runs_by_version on runs (job_version, ended_at) where job_version is not null;

create table if not exists jobs (
    namespace text not null, name text not null,
    job_type text, integration text, processing_type text, type_order_time integer, type_seq integer,
    description text, description_order_time integer, description_seq integer,
    latest_run_uuid text, latest_run_at integer, latest_run_seq integer,
    parent_job_namespace text, parent_job_name text, parent_order_time integer, parent_seq integer,
    first_event_at integer, last_event_at integer, first_seq integer not null, last_seq integer not null, primary key (namespace, name)
) without rowid;

-- Runs that other runs reference as parent or root, and their jobs.
create table if not exists referenced_runs (
    run_uuid text primary key, job_namespace text, job_name text, job_seq integer,
    first_event_at integer not null, last_event_at integer not null, last_seq integer not null
) without rowid;
create index if not exists referenced_runs_by_job on referenced_runs (job_namespace, job_name);
create table if not exists referenced_jobs (
    namespace text not null, name text not null, first_event_at integer not null, last_event_at integer not null,
    first_seq integer not null, last_seq integer not null, primary key (namespace, name)
) without rowid;

-- Runs and jobs, with placeholders for those that are only referenced and have no events yet.
create view if not exists all_runs as
select *, 0 as is_placeholder from runs
union all
select run_uuid, job_namespace, job_name, job_seq, 'NEW', 0, null, null, null, null, first_event_at, last_event_at,
    null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
    last_seq, null, 0, 1
from referenced_runs where not exists (select 1 from runs where runs.run_uuid = referenced_runs.run_uuid);
create view if not exists all_jobs as
select *, 0 as is_placeholder from jobs
union all
select namespace, name, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
    first_event_at, last_event_at, first_seq, last_seq, 1
from referenced_jobs where not exists (
    select 1 from jobs where jobs.namespace = referenced_jobs.namespace and jobs.name = referenced_jobs.name
);

-- Job versions declared by JobEvents.
create table if not exists job_declarations (
    job_namespace text not null, job_name text not null, version text not null,
    inputs text not null, outputs text not null, source_code_location text, created_at integer not null,
    declared_at integer not null, declared_seq integer not null, first_seq integer not null, last_seq integer not null,
    primary key (job_namespace, job_name, version)
) without rowid;

-- Distinct schemas; the id is a hash of the content.
create table if not exists schemas (schema_id text primary key, fields text not null) without rowid;

-- Dataset versions declared by DatasetEvents.
create table if not exists dataset_declarations (
    dataset_namespace text not null, dataset_name text not null, schema_id text not null, lifecycle_state text not null,
    version text, created_at integer not null, last_seq integer not null,
    primary key (dataset_namespace, dataset_name, schema_id, lifecycle_state)
) without rowid;

create table if not exists datasets (
    namespace text not null, name text not null, first_event_at integer, last_event_at integer,
    written_at integer, written_seq integer, current_version text, current_version_seq integer,
    description text, description_order_time integer, description_seq integer,
    lifecycle_state text, lifecycle_at integer, lifecycle_seq integer, renamed_from_namespace text, renamed_from_name text,
    first_seq integer not null, last_seq integer not null, primary key (namespace, name)
) without rowid;
create index if not exists datasets_by_name on datasets (name);

-- Renamed datasets and their new names.
create table if not exists renames (
    namespace text not null, name text not null, to_namespace text not null, to_name text not null,
    renamed_at integer not null, last_seq integer not null, primary key (namespace, name)
) without rowid;
create index if not exists renames_by_new_name on renames (to_namespace, to_name);

-- `is_deleted`: dropped or renamed, and not written since, by event time, then by arrival. The event that drops a dataset
-- may list it as output.
create view if not exists dataset_states as
select datasets.*,
    (lifecycle_state is not distinct from 'DROP' and (written_at is null or (lifecycle_at, lifecycle_seq) >= (written_at, written_seq)))
    or (renamed_at is not null
        and (written_at is null or (renamed_at, renames.last_seq) > (written_at, written_seq))
        and (lifecycle_at is null or (renamed_at, renames.last_seq) > (lifecycle_at, lifecycle_seq))) as is_deleted
from datasets left join renames using (namespace, name);

-- Symlinks of datasets as JSON, and the canonical name of each name. A name without a row is canonical itself.
create table if not exists symlinks (
    namespace text not null, name text not null, identifiers text not null, order_time integer, last_seq integer not null,
    primary key (namespace, name)
) without rowid;
create table if not exists dataset_aliases (
    namespace text not null, name text not null, canonical_namespace text not null, canonical_name text not null,
    primary key (namespace, name)
) without rowid;
create index if not exists dataset_aliases_by_canonical_name on dataset_aliases (canonical_namespace, canonical_name);

create table if not exists run_io (
    run_uuid text not null, direction text not null, dataset_namespace text not null, dataset_name text not null,
    dataset_version text not null, job_namespace text, job_name text, session_id text,
    first_seq integer not null, last_seq integer not null, last_event_at integer not null,
    schema_id text, schema_order_time integer, schema_seq integer,
    row_count integer, row_count_order_time integer, row_count_seq integer, is_implied integer not null,
    primary key (run_uuid, direction, dataset_namespace, dataset_name, dataset_version)
);
create index if not exists run_io_by_dataset on run_io (dataset_namespace, dataset_name, direction);

-- Inputs and outputs of jobs. An edge that only JobEvents declare (last at `declared_seq`) is superseded when the job
-- declares others. An edge that was reported by a run, or by the lineage of another job, is observed and remains.
create table if not exists reported_job_edges (
    job_namespace text not null, job_name text not null, direction text not null,
    dataset_namespace text not null, dataset_name text not null,
    last_run_uuid text, first_event_at integer not null, last_event_at integer not null,
    first_seq integer not null, last_seq integer not null, is_implied integer not null,
    declared_at integer, declared_order_time integer, declared_seq integer, is_listed integer, is_observed integer not null, is_superseded integer not null,
    primary key (job_namespace, job_name, direction, dataset_namespace, dataset_name)
) without rowid;
create index if not exists reported_job_edges_by_dataset on reported_job_edges (dataset_namespace, dataset_name, direction);
create view if not exists job_edges as
select job_namespace, job_name, direction, dataset_namespace, dataset_name,
    last_run_uuid, first_event_at, last_event_at, first_seq, last_seq, is_implied
from reported_job_edges where is_superseded = 0;

-- Lineage assertions: the lineage of one dataset according to one run (or to a job or a dataset without a run), from a
-- lineage or columnLineage facet. A later assertion replaces it as a whole. A retracted one has an empty `edge_set_id`.
create table if not exists lineage_assertions (
    asserted_by text not null, dataset_namespace text not null, dataset_name text not null, dataset_version text not null,
    origin text not null, order_time integer, seq integer not null, event_time integer not null,
    run_uuid text, job_namespace text, job_name text, session_id text, edge_set_id text not null,
    primary key (asserted_by, dataset_namespace, dataset_name, dataset_version, origin)
);
create index if not exists lineage_assertions_by_dataset on lineage_assertions (dataset_namespace, dataset_name, dataset_version);
create index if not exists lineage_assertions_by_session on lineage_assertions (session_id) where session_id is not null;
create index if not exists lineage_assertions_by_edge_set on lineage_assertions (edge_set_id);

-- Upstream jobs of a job by explicit lineage, as JSON.
create table if not exists job_dependency_assertions (
    asserted_by text not null, job_namespace text not null, job_name text not null,
    order_time integer, seq integer not null, event_time integer not null, run_uuid text, upstream text not null,
    primary key (asserted_by, job_namespace, job_name)
) without rowid;
create view if not exists job_dependencies as
select distinct job_namespace, job_name, upstream_namespace, upstream_name, first_value(run_uuid) over newest as last_run_uuid,
    max(event_time) over edge as last_event_at, min(seq) over edge as first_seq, max(seq) over edge as last_seq
from (
    select job_namespace, job_name, source.value ->> 0 as upstream_namespace,
        source.value ->> 1 as upstream_name, run_uuid, event_time, seq
    from job_dependency_assertions, json_each(job_dependency_assertions.upstream) source
) sources
window edge as (partition by job_namespace, job_name, upstream_namespace, upstream_name), newest as (edge order by seq desc);

-- Results of data quality tests: a JSON list of lists per run (or job or dataset without a run), dataset and kind of facet.
create table if not exists quality_assertions (
    asserted_by text not null, dataset_namespace text not null, dataset_name text not null, facet_type text not null,
    order_time integer, seq integer not null, event_time integer not null,
    run_uuid text, job_namespace text, job_name text, dataset_version text, assertions text not null,
    primary key (asserted_by, dataset_namespace, dataset_name, facet_type)
) without rowid;
create index if not exists quality_assertions_by_dataset on quality_assertions (dataset_namespace, dataset_name, event_time);

-- Position of the last explicit lineage that a job declared without a run: it replaces all that the job declared before.
create table if not exists static_lineage (
    asserted_by text primary key, order_time integer, seq integer not null, has_entries integer not null
) without rowid;

-- Most runs of a job assert the same edges: each distinct set is stored once.
create table if not exists edge_sets (
    edge_set_id text not null, edge_position integer not null, "column" text,
    source_namespace text not null, source_name text not null, source_column text,
    type text not null, subtype text, description text, masking integer, primary key (edge_set_id, edge_position)
) without rowid;
create index if not exists edge_sets_by_source on edge_sets (source_namespace, source_name, source_column);

-- Explicit lineage takes precedence over columnLineage facets. It has no version of its target; the run's output has it.
create view if not exists column_edges as
select asserted_by, dataset_namespace, dataset_name,
    case when origin = 'columnLineage' then dataset_version else coalesce((
        select max(run_io.dataset_version) from run_io
        where run_io.run_uuid = lineage_assertions.run_uuid and direction = 'OUTPUT'
        and run_io.dataset_namespace = lineage_assertions.dataset_namespace
        and run_io.dataset_name = lineage_assertions.dataset_name
    ), '') end as dataset_version,
    origin, seq, event_time, run_uuid, job_namespace, job_name, session_id, edge_set_id,
    edge_position, "column", source_namespace, source_name, source_column, type, subtype, description, masking,
    coalesce((
        select max(run_io.dataset_version) from run_io
        where run_io.run_uuid = lineage_assertions.run_uuid and direction = 'INPUT'
        and run_io.dataset_namespace = source_namespace and run_io.dataset_name = source_name
    ), '') as source_version
from lineage_assertions join edge_sets using (edge_set_id)
where origin = 'lineage' or not exists (
    select 1 from lineage_assertions explicit where explicit.asserted_by = lineage_assertions.asserted_by
    and explicit.dataset_namespace = lineage_assertions.dataset_namespace
    and explicit.dataset_name = lineage_assertions.dataset_name
    and explicit.origin = 'lineage' and explicit.edge_set_id != ''
);

create table if not exists cell_executions (
    session_id text not null, execution_id text not null, notebook text, cell_id text, cell_name text, cell_index integer,
    cell_source text, started_at integer, ended_at integer, start_memory_mb real, end_memory_mb real, duration_ms real,
    error_type text, error_message text, traceback text, state text not null, state_rank integer not null,
    first_seq integer not null, last_seq integer not null, primary key (session_id, execution_id)
) without rowid;

create table if not exists operations (
    session_id text not null, operation_id text not null, run_uuid text, execution_id text, cell_id text, cell_name text, notebook text,
    operation_type text, operation_method text, operation_code text, line integer, end_line integer, count integer,
    inputs text not null, outputs text not null, event_time integer, overhead_ms real, duration_ms real, df_size_mb real,
    last_seq integer not null, primary key (session_id, operation_id)
) without rowid;
create index if not exists operations_by_run on operations (run_uuid);

-- Dictionaries that facets are compressed with; a compressed body has the dictionary id in its frame header.
create table if not exists zstd_dictionaries (id integer primary key, body blob not null);

-- Current facets of each entity, compressed into one blob.
create table if not exists facets (
    kind text not null, entity_key text not null, last_seq integer not null, body blob not null, primary key (kind, entity_key)
);

-- A cell without an end event is `lost` once its session has ended or a later cell has started.
create view if not exists cell_executions_with_state as
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

-- Job versions of ended runs and of JobEvents.
create view if not exists observed_job_versions as
select job_namespace, job_name, job_version as version, ended_at as created_at, ended_at as observed_at, state_seq as seq,
    state_seq as first_seq, state_seq as last_seq, run_uuid, source_code_location
from runs where job_version is not null
union all
select job_namespace, job_name, version, created_at, declared_at, declared_seq, first_seq, last_seq, null, source_code_location
from job_declarations;

create view if not exists job_versions as
select job_namespace, job_name, version,
    coalesce((
        select inputs from job_declarations declared where declared.job_namespace = versions.job_namespace
        and declared.job_name = versions.job_name and declared.version = versions.version
    ), (
        select json_group_array(json_object('namespace', dataset_namespace, 'name', dataset_name)) from (
            select distinct dataset_namespace, dataset_name from run_io
            where run_uuid = latest_run_uuid and direction = 'INPUT' order by dataset_namespace, dataset_name
        ) datasets
    )) as inputs,
    coalesce((
        select outputs from job_declarations declared where declared.job_namespace = versions.job_namespace
        and declared.job_name = versions.job_name and declared.version = versions.version
    ), (
        select json_group_array(json_object('namespace', dataset_namespace, 'name', dataset_name)) from (
            select distinct dataset_namespace, dataset_name from run_io
            where run_uuid = latest_run_uuid and direction = 'OUTPUT' order by dataset_namespace, dataset_name
        ) datasets
    )) as outputs,
    source_code_location, created_at, first_run_uuid, latest_run_uuid, run_count, first_seq, last_seq
from (
    select job_namespace, job_name, version, max(source_code_location) as source_code_location, min(created_at) as created_at,
        (
            select run_uuid from runs where job_version = version order by ended_at, state_seq limit 1
        ) as first_run_uuid,
        (
            select run_uuid from runs where job_version = version order by ended_at desc, state_seq desc limit 1
        ) as latest_run_uuid,
        count(run_uuid) as run_count, min(first_seq) as first_seq, max(last_seq) as last_seq
    from observed_job_versions group by job_namespace, job_name, version
) versions;

create view if not exists current_job_versions as
select job_namespace, job_name, version from (
    select job_namespace, job_name, version,
        row_number() over (partition by job_namespace, job_name order by observed_at desc, seq desc) as recency
    from observed_job_versions
) ranked where recency = 1;

-- One row per completed write, and per state that a DatasetEvent declares. If a run reported an output first without and
-- then with a version, that is one write.
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
