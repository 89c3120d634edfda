set session characteristics as transaction isolation level serializable
show transaction_isolation
show default_transaction_isolation
set session characteristics as transaction read only
show transaction_read_only
insert into scratch values (1)
begin
show transaction_read_only
show transaction_isolation
commit
begin read write isolation level read committed
show transaction_read_only
show transaction_isolation
insert into scratch values (1)
rollback
set session characteristics as transaction isolation level repeatable read, read write, not deferrable
show transaction_isolation
show transaction_read_only
set session characteristics as transaction deferrable
show default_transaction_deferrable
begin
show transaction_deferrable
set transaction isolation level read committed
show transaction_isolation
commit
show transaction_isolation
set default_transaction_isolation = 'serializable'
set default_transaction_read_only = on
set default_transaction_deferrable = on
begin
show transaction_isolation
show transaction_read_only
show transaction_deferrable
commit
start transaction read write
show transaction_read_only
commit
set transaction isolation level serializable
set transaction_read_only = off
show transaction_read_only
reset default_transaction_read_only
insert into scratch values (2)
delete from scratch
begin
set default_transaction_isolation = 'read committed'
rollback
show default_transaction_isolation
reset all
show transaction_isolation
