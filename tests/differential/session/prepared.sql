prepare pp as select 42
execute pp
prepare pp as select 43
execute pp
prepare with_types (int, text) as select $1 + 1, $2 || '!'
execute with_types (1, 'a')
execute with_types ('2', 3)
execute with_types (1)
execute with_types (1, 'a', 2)
begin
prepare in_transaction as select 'kept'
rollback
execute in_transaction
begin
prepare in_failed as select 'kept too'
select 1/0
rollback
execute in_failed
deallocate pp
execute pp
deallocate pp
deallocate prepare with_types
begin
execute in_failed
deallocate in_failed
rollback
execute in_failed
prepare "Quoted Name" as select 'quoted'
execute "Quoted Name"
execute quoted
deallocate "Quoted Name"
prepare w as insert into scratch values ($1, 'prepared')
execute w (1)
execute w (2)
select * from scratch order by a
prepare u as update scratch set b = $2 where a = $1 returning *
execute u (1, 'new')
explain (costs off) execute u (1, 'x')
create temp table from_execute as execute in_transaction
select * from from_execute
drop table from_execute
prepare d as delete from scratch
execute d
prepare s as select current_setting('work_mem')
set work_mem = '3MB'
execute s
prepare path as select name from who
set search_path = tenant_one
prepare path as select name from who
execute path
set search_path = "tenant ""two"""
execute path
reset search_path
execute path
deallocate all
execute s
prepare s as select 1
discard plans
execute s
discard all
execute s
prepare v as select $1
execute v (7)
prepare broken as select nonsense
execute broken
prepare broken as values (1), (2)
execute broken
