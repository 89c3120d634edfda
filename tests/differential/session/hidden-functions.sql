select hidden_setting('work_mem', '1234kB')
show work_mem
select hidden_setting('app.hidden', 'one')
select current_setting('app.hidden')
insert into stored_messages values ('by trigger')
select current_setting('app.seen')
delete from stored_messages
select hidden_lock(7717)
select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and objid = 7717
select pg_advisory_unlock(7717)
select hidden_table()
select * from hidden
insert into hidden values (2)
select * from hidden
drop table hidden
select hidden_setting('app.hidden', 'two') from scratch
select hidden_setting('work_mem', '2MB') where false
show work_mem
begin
select hidden_setting('work_mem', '5MB')
rollback
show work_mem
with a as (select hidden_setting('work_mem', '6MB') as v) select v from a
show work_mem
update pg_settings set setting = hidden_setting('work_mem', '7MB') where false
explain (costs off) select hidden_setting('work_mem', '8MB')
show work_mem
