select current_schemas(true)
select name, setting, source from pg_settings where source = 'session' order by 1
set work_mem = '3MB'
select name, setting, source from pg_settings where source = 'session' order by 1
reset work_mem
select name, setting, source from pg_settings where source = 'session' order by 1
select pg_my_temp_schema()
create temp table residue (a int)
drop table residue
select pg_my_temp_schema() > 0, current_schemas(true)
show comes.and_goes
set comes.and_goes = 'x'
show comes.and_goes
\connect
select current_setting('comes.and_goes', true)
