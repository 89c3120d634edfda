show work_mem
set work_mem = '7MB'
show work_mem
set session work_mem to '7777kB'
show work_mem
set work_mem to default
show work_mem
set WORK_MEM = 4096
show Work_Mem
reset work_mem
show work_mem
set datestyle to iso, dmy
show datestyle
select date '2020-02-03'::text
set datestyle = 'Postgres'
show datestyle
reset datestyle
show datestyle
set time zone 'Europe/Paris'
show timezone
set time zone -3.5
show timezone
select timestamptz '2020-07-01 00:00+00'::text
set time zone interval '-08:30' hour to minute
show timezone
set time zone local
show timezone
set timezone to 'CET'
show time zone
reset timezone
show timezone
set names 'latin1'
show client_encoding
set names default
show client_encoding
set client_encoding = 'sql_ascii'
show client_encoding
reset client_encoding
set bytea_output = escape
select '\xff'::bytea
set extra_float_digits = -2
select 1.0::float8/3
set standard_conforming_strings = off
select 'a\tb'
set intervalstyle = 'sql_standard'
select interval '1 year 2 days'
set xmloption = document
show xmloption
set nonsense = 1
set work_mem = 'nonsense'
show work_mem
set work_mem = -7
set statement_timeout = '1h'
set lock_timeout = '2min'
set idle_in_transaction_session_timeout = '1d'
set idle_session_timeout = '3h'
select name, setting from pg_settings where name ~ 'timeout$' and name !~ '^(auth|wal|arch|tcp|dead|check|trans)' order by 1
reset all
show statement_timeout
show bytea_output
show standard_conforming_strings
show intervalstyle
