create temp table t1 (a int)
drop table t1
\connect
set temp_buffers = 200
show temp_buffers
reset temp_buffers
show temp_buffers
set temp_buffers = 300
create temp table t1 (a int)
show temp_buffers
set temp_buffers = 400
drop table t1
show temp_buffers
