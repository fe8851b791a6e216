-- Functions of the limited views, as in `NameMask`.
create function pg_temp.is_visible(namespace text) returns boolean language sql immutable as $function$
    select coalesce((select bool_or(starts_with($1, prefix)) from unnest(array[$PREFIXES$]) prefix), false)
$function$;
create function pg_temp.is_visible_io(key text) returns boolean language sql immutable as $function$
    select pg_temp.is_visible(split_part($1, chr(31), 2))
$function$;
create function pg_temp.opaque_name(namespace text, name text) returns text language sql immutable as $function$
    select 'hidden-' || left(encode(sha256(convert_to(
        $SECRET$ || chr(31) || coalesce($1, '') || chr(31) || coalesce($2, ''), 'UTF8')), 'hex'), 16)
$function$;
create function pg_temp.mask_names(items text) returns text language sql immutable as $function$
    select case when $1 is not null then coalesce('[' || string_agg(case
        when json_typeof(item) = 'array' then case when pg_temp.is_visible(item ->> 0) then item::text
            else json_build_array($HIDDEN$, pg_temp.opaque_name(item ->> 0, item ->> 1))::text end
        when pg_temp.is_visible(item ->> 'namespace') then item::text
        else json_build_object('namespace', $HIDDEN$, 'name',
            pg_temp.opaque_name(item ->> 'namespace', item ->> 'name'))::text end, ', ') || ']', '[]') end
    from json_array_elements($1::json) item
$function$;
