fetch 1 from c
begin
declare c cursor for select 1 as one
fetch 1 from c
commit
fetch 1 from c
begin
declare c cursor for select 'other' as two, 3
fetch 1 from c
commit
execute e
prepare e as select 1 as one
execute e
deallocate e
execute e
prepare e as insert into scratch values (1)
execute e
deallocate e
prepare e (int) as select $1 as x, 'y' as y
execute e (1)
deallocate e
delete from scratch
select * from comes_and_goes
create temp table comes_and_goes (a int)
select * from comes_and_goes
drop table comes_and_goes
select * from comes_and_goes
create temp table comes_and_goes (b text, c text)
select * from comes_and_goes
drop table comes_and_goes
