-- Record that symlinks have changed.
create trigger if not exists symlinks_added after insert on symlinks begin
    insert into meta select 'symlinks_changed', '1' where not exists (select 1 from meta where key = 'symlinks_changed');
end;
create trigger if not exists symlinks_replaced after update of identifiers on symlinks when old.identifiers != new.identifiers begin
    insert into meta select 'symlinks_changed', '1' where not exists (select 1 from meta where key = 'symlinks_changed');
end;
