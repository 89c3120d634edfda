select name, setting, source from pg_settings where source = 'session' order by 1
set work_mem = '3MB'
select name, setting, source from pg_settings where source = 'session' order by 1
reset work_mem
select name, setting, source from pg_settings where source = 'session' order by 1
show comes.and_goes
set comes.and_goes = 'x'
show comes.and_goes
\connect
select current_setting('comes.and_goes', true)
