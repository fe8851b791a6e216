-- Note that symlinks are others than before.
create or replace function note_symlinks() returns trigger language plpgsql as $$ begin
    insert into meta values ('symlinks_changed', '1') on conflict do nothing;
    return null;
end $$;
create or replace trigger symlinks_added after insert on symlinks for each row execute function note_symlinks();
create or replace trigger symlinks_replaced after update of identifiers on symlinks for each row
when (old.identifiers is distinct from new.identifiers) execute function note_symlinks();

-- Bodies are compressed already.
alter table facets alter column body set storage external;
