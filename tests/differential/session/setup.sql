-- What the scripts of this folder find in their database. Made once for a cluster, by a superuser.
do $$begin create role session_alice; exception when duplicate_object then null; end$$;
do $$begin create role session_bob; exception when duplicate_object then null; end$$;
grant session_alice to session_bob;
create schema tenant_one;
create schema "tenant ""two""";
grant usage on schema tenant_one to public;
create table tenant_one.who (name text);
insert into tenant_one.who values ('one');
create table "tenant ""two""".who (name text);
insert into "tenant ""two""".who values ('two');
grant select on tenant_one.who to session_alice;
create table parents (id int primary key);
create table children (parent int references parents deferrable initially deferred);
create table scratch (a int, b text);
create table counted (id serial primary key, a int);
create table stored_messages (a text);
create function hidden_setting(name text, value text) returns text language plpgsql as
    $$ begin return set_config(name, value, false); end $$;
create function hidden_lock(key int) returns void language plpgsql as
    $$ begin perform pg_advisory_lock(key); end $$;
create function hidden_table() returns void language plpgsql as
    $$ begin create temp table hidden (a int); insert into hidden values (1); end $$;
create procedure commits_between() language plpgsql as
    $$ begin set work_mem = '1111kB'; commit; set work_mem = '2222kB'; rollback; end $$;
create procedure fails_after_commit() language plpgsql as
    $$ begin set work_mem = '3333kB'; commit; set work_mem = '4444kB'; raise exception 'no further'; end $$;
create function by_trigger() returns trigger language plpgsql as
    $$ begin perform set_config('app.seen', new.a, false); return new; end $$;
create trigger sees before insert on stored_messages for each row execute function by_trigger();
create function restores_after() returns text language sql set work_mem = '555kB' as $$ select current_setting('work_mem') $$;
