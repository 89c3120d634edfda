select setseed(0.5)
select random()
select random()
load 'plpgsql'
load '$libdir/plpgsql'
load 'no such library'
set seed = 0.25
select random()
reset seed
/* a comment */ set /* in between */ work_mem -- and another
set work_mem = '1MB' /* after */
show work_mem
  	set work_mem = '2MB'
show work_mem
select 'set work_mem = 3'
show work_mem
set work_mem to U&'\0034MB'
show work_mem
SET "work_mem" TO '5MB'
show work_mem
set transaction_isolation = 'serializable'
show transaction_isolation
set constraints all deferred
set xml option content
show xmloption
set local work_mem = '6MB'
show work_mem
set session schema 'tenant_one'
show search_path
set schema 'public'
show search_path
set session session authorization session_bob
reset session authorization
set local session authorization session_bob
select session_user
security label on table scratch is 'x'
alter system set nonsense = 1
show work_mem
set zero_damaged_pages = on
show zero_damaged_pages
reset zero_damaged_pages
set allow_system_table_mods = on
show allow_system_table_mods
reset allow_system_table_mods
set row_security = off
show row_security
set session_replication_role = replica
insert into children values (12345)
set session_replication_role = origin
delete from children
set log_connections = on
set max_connections = 5
set shared_buffers = '1GB'
set jit = off
show jit
set default_text_search_config = 'simple'
select to_tsvector('the cats')
set default_tablespace = 'nowhere'
set default_table_access_method = 'nothing'
reset all
