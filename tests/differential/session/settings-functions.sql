do $$ begin perform set_config('work_mem', '2345kB', false); end $$
show work_mem
do $$ begin set datestyle = 'SQL, DMY'; end $$
show datestyle
do $$ begin set local work_mem = '99kB'; end $$
show work_mem
select restores_after()
show work_mem
call commits_between()
show work_mem
call fails_after_commit()
show work_mem
do $$ begin set work_mem = '5555kB'; commit; set work_mem = '6666kB'; raise exception 'stop'; end $$
show work_mem
do $$ begin begin set work_mem = '7777kB'; raise exception 'caught'; exception when others then null; end; end $$
show work_mem
do $$ begin execute 'set ' || 'work_mem' || ' = ' || quote_literal('888kB'); end $$
show work_mem
with x as (select set_config('work_mem', '999kB', false)) select * from x
show work_mem
select * from set_config('work_mem', '1MB', false) as x(v)
show work_mem
select set_config('work_mem', a || 'MB', false) from generate_series(2, 4) a
show work_mem
select 1 where set_config('work_mem', '11MB', false) is null
show work_mem
update pg_settings set setting = '4096' where name = 'work_mem'
show work_mem
explain (costs off) select set_config('work_mem', '12MB', false)
show work_mem
alter role session_bob set work_mem = '1MB'
show work_mem
alter role session_bob reset all
reset all
show work_mem
