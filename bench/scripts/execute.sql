-- A statement prepared in SQL, once for each client, and executed: pgbench -D set=0 -f bench/scripts/execute.sql
\set aid random(1, 100000 * :scale)
\if :set = 0
prepare by_key(int) as select abalance from pgbench_accounts where aid = $1;
\set set 1
\endif
execute by_key(:aid);
