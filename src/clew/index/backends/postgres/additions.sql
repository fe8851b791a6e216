-- Record that symlinks have changed.
create or replace function record_symlinks_change() returns trigger language plpgsql as $$ begin
    insert into meta values ('symlinks_changed', '1') on conflict do nothing;
    return null;
end $$;
create or replace trigger symlinks_added after insert on symlinks for each row execute function record_symlinks_change();
create or replace trigger symlinks_replaced after update of identifiers on symlinks for each row
when (old.identifiers is distinct from new.identifiers) execute function record_symlinks_change();

-- Facet blobs are already compressed.
alter table facets alter column body set storage external;
