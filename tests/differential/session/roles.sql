select current_user, session_user
set role session_bob
select current_user, session_user
show role
show is_superuser
select name from tenant_one.who
set role session_alice
select current_user
select name from tenant_one.who
set role none
select current_user
set role 'session_bob'
reset role
select current_user
set session authorization session_bob
select current_user, session_user
show is_superuser
show session_authorization
set role session_alice
select current_user, session_user
set session authorization default
select current_user, session_user
show role
set session authorization 'session_alice'
select current_user, session_user
select count(*) from pg_authid
set role session_bob
reset session authorization
select current_user, session_user
begin
set role session_bob
select current_user
rollback
select current_user
begin
set local role session_bob
select current_user
commit
select current_user
begin
set session authorization session_alice
savepoint s
set role none
rollback to s
commit
select current_user, session_user
set role nobody_at_all
set session authorization nobody_at_all
reset session authorization
set search_path = "$user", public
set role session_bob
select current_user, current_schema()
set work_mem = '3MB'
show work_mem
discard all
select current_user, session_user
select set_config('role', 'session_alice', false)
select current_user
set role none
reset all
select current_user
