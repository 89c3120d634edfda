-- Each client has a search_path of its own, set once: pgbench -D set=0 -f bench/scripts/own-search-path.sql
\set aid random(1, 100000 * :scale)
\if :set = 0
set search_path = bench_:client_id, public;
\set set 1
\endif
select abalance from pgbench_accounts where aid = :aid;
