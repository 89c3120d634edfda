set search_path = pg_temp, public
create table in_path (a int)
insert into in_path values (1)
select 1
select * from in_path
create function in_path() returns int language sql return 1
select in_path()
\connect
select * from in_path
set search_path = pg_temp, public
create table if not exists in_path (b int)
select * from in_path
drop table in_path
reset search_path
select * from in_path
