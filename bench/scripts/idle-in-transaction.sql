-- pgbench counts the time of a sleep in an int of microseconds: at most 2,147 s.
begin;
select 1;
\sleep 2000 s
end;
