select current_setting('scrambled.never_here', true)
begin
set local app.only_local = 'x'
rollback
select current_setting('app.only_local', true)
