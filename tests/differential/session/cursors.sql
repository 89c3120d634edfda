begin
declare c cursor with hold for select generate_series(1, 5)
fetch 1 from c
commit
fetch 2 from c
select name, is_holdable from pg_cursors where name = 'c'
move 1 from c
fetch all from c
close c
fetch 1 from c
declare d cursor with hold for select 'no transaction' as t
fetch all from d
close all
fetch all from d
begin
declare e cursor with hold for select 1
rollback
fetch 1 from e
begin
declare e cursor for select 1
fetch 1 from e
commit
fetch 1 from e
declare f cursor for select 1
begin
declare g scroll cursor with hold for select generate_series(1, 10)
savepoint s
declare h cursor with hold for select 2
rollback to s
commit
fetch last from g
fetch prior from g
fetch 1 from h
discard all
fetch 1 from g
begin
declare i cursor with hold for select generate_series(1, 3)
declare j cursor with hold for select generate_series(4, 6)
commit
close i
fetch 1 from j
select 1/0
fetch 1 from j
close j
select count(*) from pg_cursors where is_holdable
begin
declare k cursor with hold for select 1 / 0
commit
fetch k
