-- SQLite functions that PostgreSQL lacks, so that views and queries are written once.
create or replace function min(anyelement, anyelement) returns anyelement language sql immutable
as 'select case when $1 is not null and $2 is not null then least($1, $2) end';
create or replace function max(anyelement, anyelement) returns anyelement language sql immutable
as 'select case when $1 is not null and $2 is not null then greatest($1, $2) end';
create or replace function iif(boolean, text, text) returns text language sql immutable
as 'select case when $1 then $2 else $3 end';
create or replace function json_each(text) returns table (value json) language sql immutable
as 'select json_array_elements($1::json)';
