begin;
select 1;
\sleep 3600 s
end;
