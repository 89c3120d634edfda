begin
set work_mem = '9MB'
rollback
show work_mem
begin
set work_mem = '9MB'
commit
show work_mem
begin
savepoint a
set work_mem = '8MB'
savepoint b
set work_mem = '7MB'
rollback to b
show work_mem
rollback to savepoint a
show work_mem
release a
commit
show work_mem
begin
savepoint a
set work_mem = '6MB'
release savepoint a
commit
show work_mem
begin
savepoint a
set work_mem = '5MB'
release a
rollback
show work_mem
begin
savepoint a
set work_mem = '4MB'
select 1/0
show work_mem
rollback to a
show work_mem
set work_mem = '3MB'
commit
show work_mem
begin
set work_mem = '2MB'
select 1/0
commit
show work_mem
begin
set work_mem = '2MB'
commit and chain
show work_mem
set work_mem = '1MB'
rollback and chain
show work_mem
set local work_mem = '512kB'
show work_mem
commit
show work_mem
begin
set local work_mem = '256kB'
set work_mem = '10MB'
commit
show work_mem
begin
set work_mem = '11MB'
set local work_mem = '128kB'
show work_mem
commit
show work_mem
begin
set work_mem = '12MB'
reset work_mem
commit
show work_mem
set work_mem = '13MB'
begin
reset all
rollback
show work_mem
begin
reset all
set datestyle = 'German'
commit
show work_mem
show datestyle
begin
set datestyle = 'SQL'
savepoint x
set datestyle = 'ISO'
rollback to x
show datestyle
rollback
show datestyle
savepoint outside
release outside
rollback to outside
commit
rollback
begin
begin
set work_mem = '14MB'
end
show work_mem
begin
savepoint s
set work_mem = '1MB'
savepoint s
set work_mem = '2MB'
rollback to s
release s
rollback to s
show work_mem
commit
show work_mem
abort
start transaction isolation level serializable
set work_mem = '15MB'
abort
show work_mem
