create temp table t1 (a int)
insert into t1 values (1)
select * from t1
create temporary view v1 as select a + 1 as b from t1
select * from v1
create temp sequence s1
select nextval('s1')
select nextval('s1'), currval('s1'), lastval()
create function pg_temp.f1() returns int language sql as 'select 41'
select pg_temp.f1()
create type pg_temp.ty as (a int)
select row(3)::pg_temp.ty
create domain pg_temp.dom as int check (value > 0)
select 5::pg_temp.dom
select (-5)::pg_temp.dom
drop view v1
drop table t1
select * from t1
select nextval('s1')
drop sequence s1
drop function pg_temp.f1()
drop type pg_temp.ty
drop domain pg_temp.dom
select pg_temp.f1()
select 1 as a, 'x' as b into temp t2
select * from t2
drop table t2
create temp table t3 as select generate_series(1, 3) as a
select sum(a) from t3
discard temp
select * from t3
create table pg_temp.t4 (a int)
insert into t4 values (4)
select * from pg_temp.t4
drop table t4
begin
create temp table t5 (a int) on commit drop
insert into t5 values (1)
select * from t5
commit
select * from t5
create temp table t6 (a int) on commit delete rows
begin
insert into t6 values (1)
select * from t6
commit
select * from t6
drop table t6
begin
create temp table t7 (a int)
rollback
select * from t7
begin
savepoint s
create temp table t8 (a int)
rollback to s
create temp table t8 (b text)
commit
select * from t8
drop table t8
do $$ begin create temp table hidden_too as select 7 as a; end $$
select * from hidden_too
drop table hidden_too
create temp table scratch (only_here int)
select * from scratch
discard all
select a, b from scratch
create temp table if not exists t9 (a int)
create temp table if not exists t9 (a int)
set role session_bob
create temp table bobs (a int)
select * from bobs
select * from t9
reset role
select * from bobs
drop table bobs
drop table t9
create temp table t1 (a int primary key, b text default 'd')
create index on t1 (b)
insert into t1 values (1)
analyze t1
select * from t1
alter table t1 rename to t1b
select * from t1b
drop table t1b
drop table t1b
