set application_name = 'it''s "quoted" \ and; -- odd /* as */ ''can be'
show application_name
set application_name to E'a\tb\\c'
show application_name
set application_name = $x$dollars ' and " quotes$x$
show application_name
set application_name = ''
show application_name
set search_path = ''
show search_path
set search_path = tenant_one, "tenant ""two""", public
show search_path
select name from who
set search_path to "tenant ""two""", tenant_one
show search_path
select name from who
set search_path = '$user', public
show search_path
set search_path = "$user", 'with space', 'with,comma', "MiXed"
show search_path
set search_path = nowhere
select name from who
select current_schema()
set search_path to default
show search_path
set local search_path = tenant_one
show search_path
set search_path = pg_catalog, tenant_one
select name from who
select set_config('search_path', 'tenant_one, public', false)
select name from who
select set_config('search_path', '"tenant ""two"""', false)
select name from who
select set_config('search_path', null, false)
show search_path
set temp_tablespaces = ''
show temp_tablespaces
set temp_tablespaces = pg_default
show temp_tablespaces
set datestyle = 'SQL', 'DMY'
show datestyle
set session_preload_libraries = ''
set local_preload_libraries = 'a', 'b'
set lc_messages = 'C'
show lc_messages
set lc_monetary = "C"
show lc_monetary
reset all
show search_path
