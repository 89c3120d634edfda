select pg_advisory_lock(7701)
select pg_advisory_lock(7701)
select pg_advisory_unlock(7701)
select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and objid = 7701 and pid = pg_backend_pid()
select pg_advisory_unlock(7701)
select pg_advisory_unlock(7701)
select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and objid = 7701
select pg_advisory_lock_shared(7702)
select pg_advisory_unlock_shared(7702)
select pg_try_advisory_lock(7703)
select pg_try_advisory_lock_shared(7703)
select pg_advisory_unlock(7703), pg_advisory_unlock_shared(7703)
select pg_advisory_lock(77, 4)
select pg_advisory_lock_shared(77, 5)
select pg_try_advisory_lock(77, 6)
select pg_try_advisory_lock_shared(77, 7)
select classid, objid, mode from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and classid = 77 order by 2
select pg_advisory_unlock(77, 4), pg_advisory_unlock_shared(77, 5), pg_advisory_unlock(77, 6), pg_advisory_unlock_shared(77, 7)
select pg_catalog.pg_advisory_lock(7708)
select pg_catalog . pg_advisory_unlock ( 7708 )
select "pg_advisory_lock"(7709)
select pg_advisory_unlock_all()
select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and objid between 7701 and 7799
begin
select pg_advisory_lock(7710)
rollback
select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and objid = 7710
select pg_advisory_unlock(7710)
begin
select pg_advisory_xact_lock(7711)
select pg_try_advisory_xact_lock(7712), pg_advisory_xact_lock_shared(77, 13)
commit
select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and objid between 7711 and 7713
select pg_advisory_xact_lock(7714)
select pg_advisory_lock(7715), 1/0
select pg_advisory_unlock(7715)
select pg_advisory_lock(7716), a / (a - 2) from generate_series(1, 3) a
select pg_advisory_unlock(7716)
select pg_advisory_unlock(7716)
select pg_advisory_unlock(7716)
do $$ begin perform pg_advisory_lock(7718); end $$
select pg_advisory_unlock(7718)
select pg_advisory_unlock(7718)
select pg_advisory_lock(7719)
discard all
select pg_advisory_unlock(7719)
set role session_bob
select pg_advisory_lock(7720)
reset role
select pg_advisory_unlock(7720)
with l as (select pg_try_advisory_lock(7721) as got) select case when got then pg_advisory_unlock(7721) end from l
select case when false then pg_advisory_lock(7722) end
select pg_advisory_unlock(7722)
