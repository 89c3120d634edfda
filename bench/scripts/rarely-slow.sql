-- A read that is short 999 times of 1,000, and takes 100 ms once.
\set aid random(1, 100000 * :scale)
\set dice random(1, 1000)
select abalance, case when :dice = 1 then pg_sleep(0.1) end from pgbench_accounts where aid = :aid;
