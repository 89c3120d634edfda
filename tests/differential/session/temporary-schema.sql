select current_schemas(true)
select pg_my_temp_schema()
select pg_temp.no_such_function()
drop table if exists pg_temp.no_such_table
set search_path = pg_temp, public
begin
select current_schema() ~ 'pg_temp'
rollback
select current_schemas(false)
reset search_path
create temp table residue (a int)
drop table residue
\connect
select 1
select pg_my_temp_schema(), current_schemas(true)
begin
select pg_my_temp_schema()
create temp table residue (a int) on commit drop
rollback
select pg_my_temp_schema()
create table pg_temp.residue (a int)
select pg_my_temp_schema() > 0, current_schemas(true)
drop table residue
