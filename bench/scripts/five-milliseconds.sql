-- A query that takes 5 ms, whatever the machine.
select pg_sleep(0.005);
