-- A short read.
\set aid random(1, 100000 * :scale)
select abalance from pgbench_accounts where aid = :aid;
