set work_mem = '3MB'
prepare p as select 1
create temp table t (a int)
create sequence if not exists discard_sequence
select nextval('discard_sequence') > 0
select lastval() > 0, currval('discard_sequence') > 0
discard plans
execute p
discard sequences
select lastval()
select currval('discard_sequence')
show work_mem
select * from t
discard temp
select * from t
discard temporary
show work_mem
execute p
reset all
show work_mem
execute p
deallocate all
execute p
begin
discard all
rollback
begin
discard plans
discard temp
discard sequences
commit
begin
set work_mem = '5MB'
deallocate all
close all
unlisten *
select pg_advisory_unlock_all()
reset all
commit
show work_mem
set work_mem = '6MB'
prepare p as select 2
listen ch
select pg_advisory_lock(7790)
declare c cursor with hold for select 9
create temp table t (a int)
discard all
show work_mem
execute p
select count(*) from pg_listening_channels()
select pg_advisory_unlock(7790)
fetch c
select * from t
discard nonsense
drop sequence discard_sequence
