select currval('counted_id_seq')
select lastval()
insert into counted (a) values (1) returning id > 0
select currval('counted_id_seq') = max(id) from counted
select lastval() = max(id) from counted
begin
insert into counted (a) values (2)
select currval('counted_id_seq') = max(id) from counted
select lastval() = max(id) from counted
rollback
select lastval() > 0
select setval('counted_id_seq', 1000, true)
select lastval(), currval('counted_id_seq')
insert into counted (a) values (lastval()) returning id, a
delete from counted
discard sequences
select lastval()
select setval('counted_id_seq', 1, false)
