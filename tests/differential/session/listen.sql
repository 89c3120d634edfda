listen here
select pg_listening_channels()
notify here, 'one'
select pg_notify('here', 'two')
listen here
begin
notify here, 'three'
notify here, 'three'
notify here, 'four'
select 1
commit
begin
notify here, 'lost'
rollback
begin
listen "Other Channel"
notify "Other Channel", 'not yet'
commit
select pg_listening_channels() order by 1
begin
listen lost_channel
rollback
notify lost_channel, 'nobody'
select pg_listening_channels() order by 1
begin
unlisten here
notify here, 'gone'
commit
notify here, 'gone'
begin
unlisten *
rollback
select pg_listening_channels()
notify "Other Channel"
unlisten "Other Channel"
select count(*) from pg_listening_channels()
notify "Other Channel"
unlisten never_listened
listen a
listen b
unlisten *
select count(*) from pg_listening_channels()
notify a
listen c
discard all
notify c
select count(*) from pg_listening_channels()
listen "select pg_notify('x')"
notify "select pg_notify('x')", 'quoted'
do $$ begin perform pg_notify('c', 'from do'); end $$
listen c
do $$ begin perform pg_notify('c', 'from do'); end $$
begin
savepoint s
notify c, 'rolled back'
rollback to s
notify c, 'kept'
commit
reset all
notify c, 'after reset all'
notify
listen
