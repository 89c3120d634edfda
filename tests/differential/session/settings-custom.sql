set app.tenant = 'x y'
show app.tenant
select current_setting('app.tenant')
set APP.Tenant to 'upper'
select current_setting('app.tenant')
select set_config('app.two', 'v', false), set_config('app.three', '', false)
select current_setting('app.two'), current_setting('app.three')
set app.list = 'a', 'b c', "d"
show app.list
set app.number = 12.50
show app.number
set app.on = true
show app.on
set app.a.b = 'three words in the name'
show app.a.b
set app."Odd-Name" = 'odd'
begin
set app.tenant = 'z'
rollback
select current_setting('app.tenant')
begin
set local app.tenant = 'local'
select current_setting('app.tenant')
commit
select current_setting('app.tenant')
begin
select set_config('app.tenant', 'local again', true)
select current_setting('app.tenant')
commit
select current_setting('app.tenant')
reset app.tenant
select current_setting('app.tenant')
set app.tenant = 'before reset all'
reset all
select current_setting('app.tenant')
set app.tenant = 'before discard all'
discard all
select current_setting('app.tenant', true)
set app.tenant to default
select current_setting('app.tenant', true)
select current_setting('app.never_set_by_anyone')
