//! The two statements that read a catalog (see [`crate::catalog::code`]). They run with `search_path = pg_catalog,
//! pg_temp`, so that no operator that a client has made is used.
//!
//! Names and sources come in the encoding of the database, as `encode(.., 'escape')` writes them: a conversion to the
//! session's encoding could fail.
//!
//! Objects made by initdb have OIDs below 16384 (`FirstNormalObjectId`). Those that matter are known by name.
//! PostgreSQL keeps no dependency on them, so a call of one is found in the stored expressions of the object that calls
//! it.

/// One row for each routine, and one for each object that runs one: kind, OID, name, OID of what the object runs.
///
/// | kind | object | what it runs |
/// |---|---|---|
/// | `r` | a routine | none; instead 1 for C that may keep state in its process, 2 for code that is not read, 3 for C of an extension that nobody has reviewed, else 0 |
/// | `b` | one of PostgreSQL's own routines that some object runs | none |
/// | `x` | a volatile routine of a PostgreSQL later than the reviewed versions | none |
/// | `i` | the database; its name tells its server from others | none |
/// | `f` | a routine | a routine it depends on: BEGIN ATOMIC, an aggregate's function |
/// | `t` | a table | the function of a trigger |
/// | `v` | a table or view | a routine in a view, rule, default, check, policy or index |
/// | `u` | a table or view | a table or view that it uses: of a view, a partition, the other end of a cascade |
/// | `c` | a table | a domain of its columns |
/// | `d` | a domain or type | a routine |
/// | `n` | an object without a name | a routine: of an operator, a cast |
/// | `e` | an event trigger | its function |
pub(crate) const OBJECTS: &str = "WITH RECURSIVE later AS (\
    SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 190000 AS is_later\
), own AS (\
    SELECT p.oid AS routine FROM pg_catalog.pg_proc p, later l WHERE p.oid < 16384 AND (p.proname ~ '_to_xml\
        |^set_config$|^setseed$|^pg_(try_)?advisory_(un)?lock|^ts_(stat|rewrite)$|^pg_input_|_replication_slot$\
        |^pg_backup_|^pg_replication_origin_session_|^(domain|array|record|range|multirange)_(in|recv)$\
        |^brin_summarize|^gin_clean' OR l.is_later AND p.provolatile = 'v' AND p.proname !~ '^(next|set|curr|last)val$')\
), trees AS (\
    SELECT NULL::pg_catalog.oid AS caller, w.ev_class AS relation, NULL::pg_catalog.oid AS type, \
        w.ev_action::pg_catalog.text || COALESCE(w.ev_qual::pg_catalog.text, '') AS tree \
    FROM pg_catalog.pg_rewrite w WHERE w.oid >= 16384 \
    UNION ALL SELECT NULL, a.adrelid, NULL, a.adbin::pg_catalog.text FROM pg_catalog.pg_attrdef a WHERE a.oid >= 16384 \
    UNION ALL SELECT NULL, NULLIF(k.conrelid, 0), NULLIF(k.contypid, 0), k.conbin::pg_catalog.text \
    FROM pg_catalog.pg_constraint k WHERE k.oid >= 16384 AND k.conbin IS NOT NULL \
    UNION ALL SELECT NULL, p.polrelid, NULL, \
        COALESCE(p.polqual::pg_catalog.text, '') || COALESCE(p.polwithcheck::pg_catalog.text, '') \
    FROM pg_catalog.pg_policy p WHERE p.oid >= 16384 \
    UNION ALL SELECT NULL, t.tgrelid, NULL, t.tgqual::pg_catalog.text \
    FROM pg_catalog.pg_trigger t WHERE t.oid >= 16384 AND t.tgqual IS NOT NULL \
    UNION ALL SELECT NULL, i.indrelid, NULL, \
        COALESCE(i.indexprs::pg_catalog.text, '') || COALESCE(i.indpred::pg_catalog.text, '') \
    FROM pg_catalog.pg_index i WHERE i.indexrelid >= 16384 AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) \
    UNION ALL SELECT NULL, NULL, y.oid, y.typdefaultbin::pg_catalog.text \
    FROM pg_catalog.pg_type y WHERE y.oid >= 16384 AND y.typdefaultbin IS NOT NULL \
    UNION ALL SELECT p.oid, NULL, NULL, p.proargdefaults::pg_catalog.text \
    FROM pg_catalog.pg_proc p WHERE p.oid >= 16384 AND p.proargdefaults IS NOT NULL\
), calls_own AS (\
    SELECT DISTINCT m.routine[1]::pg_catalog.oid AS routine, t.caller, t.relation, t.type \
    FROM (SELECT ':funcid (' || pg_catalog.string_agg(o.routine::pg_catalog.text, '|') || ') ' AS names FROM own o) f, \
        trees t, LATERAL pg_catalog.regexp_matches(t.tree, f.names, 'g') m(routine) \
    UNION ALL SELECT o.oprcode::pg_catalog.oid, NULL, NULL, NULL FROM pg_catalog.pg_operator o JOIN own ON own.routine = o.oprcode \
    WHERE o.oid >= 16384 \
    UNION ALL SELECT c.castfunc, NULL, NULL, NULL FROM pg_catalog.pg_cast c JOIN own ON own.routine = c.castfunc \
    WHERE c.oid >= 16384 \
    UNION ALL SELECT own.routine, a.aggfnoid::pg_catalog.oid, NULL, NULL FROM pg_catalog.pg_aggregate a \
    JOIN own ON own.routine IN (a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn) \
    WHERE a.aggfnoid::pg_catalog.oid >= 16384\
), calls AS (\
    SELECT d.refobjid AS routine, d.classid = 'pg_catalog.pg_trigger'::pg_catalog.regclass AS by_trigger, \
        d.classid = 'pg_catalog.pg_event_trigger'::pg_catalog.regclass AS by_event, \
        CASE WHEN d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass THEN d.objid END AS caller, \
        COALESCE(w.ev_class, a.adrelid, NULLIF(k.conrelid, 0), p.polrelid, t.tgrelid, i.indrelid, s.stxrelid) \
            AS relation, \
        COALESCE(NULLIF(k.contypid, 0), \
            CASE WHEN d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass THEN d.objid END) AS type \
    FROM pg_catalog.pg_depend d \
    LEFT JOIN pg_catalog.pg_rewrite w ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND w.oid = d.objid \
    LEFT JOIN pg_catalog.pg_attrdef a ON d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND a.oid = d.objid \
    LEFT JOIN pg_catalog.pg_constraint k \
        ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND k.oid = d.objid \
    LEFT JOIN pg_catalog.pg_policy p ON d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass AND p.oid = d.objid \
    LEFT JOIN pg_catalog.pg_trigger t ON d.classid = 'pg_catalog.pg_trigger'::pg_catalog.regclass AND t.oid = d.objid \
    LEFT JOIN pg_catalog.pg_index i \
        ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND i.indexrelid = d.objid \
    LEFT JOIN pg_catalog.pg_statistic_ext s \
        ON d.classid = 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass AND s.oid = d.objid \
    WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid >= 16384 \
    UNION ALL SELECT o.routine, false, false, o.caller, o.relation, o.type FROM calls_own o\
), typed AS (\
    SELECT d.objid AS relation, d.refobjid AS type FROM pg_catalog.pg_depend d \
    WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass \
    AND d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.refobjid IN (SELECT c.type FROM calls c)\
), parts AS (\
    SELECT w.ev_class AS relation, d.refobjid AS part FROM pg_catalog.pg_depend d \
    JOIN pg_catalog.pg_rewrite w ON w.oid = d.objid \
    WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass \
    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid <> w.ev_class AND w.ev_class >= 16384 \
    UNION ALL SELECT h.inhparent, h.inhrelid FROM pg_catalog.pg_inherits h \
    UNION ALL SELECT k.confrelid, k.conrelid FROM pg_catalog.pg_constraint k \
    WHERE k.contype = 'f' AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))\
), reached AS (\
    (SELECT c.relation FROM calls c WHERE c.relation IS NOT NULL UNION SELECT y.relation FROM typed y) \
    UNION SELECT p.relation FROM reached r JOIN parts p ON p.part = r.relation\
) \
SELECT o.kind, o.oid, pg_catalog.encode(pg_catalog.convert_to(o.name::pg_catalog.text, \
    pg_catalog.getdatabaseencoding()), 'escape'), o.runs FROM (\
SELECT 'r' AS kind, p.oid AS oid, p.proname AS name, CASE \
    WHEN l.lanname IN ('sql', 'plpgsql', 'internal') OR p.prokind = 'a' THEN 0 \
    WHEN l.lanname <> 'c' THEN 2 \
    WHEN p.proname = 'isn_weak' THEN 1 \
    WHEN p.proname ~ '^(crosstab|connectby|xpath_table)' THEN 2 \
    ELSE (SELECT CASE \
        WHEN pg_catalog.count(x.extname) = 0 THEN 1 \
        WHEN p.provolatile <> 'v' OR pg_catalog.max(x.extname::pg_catalog.text) IN ('adminpack', 'amcheck', 'autoinc', 'bloom', \
            'btree_gin', 'btree_gist', 'citext', 'cube', 'dblink', 'dict_int', 'dict_xsyn', 'earthdistance', 'file_fdw', \
            'fuzzystrmatch', 'hstore', 'insert_username', 'intagg', 'intarray', 'isn', 'lo', 'ltree', 'moddatetime', \
            'pageinspect', 'pg_buffercache', 'pg_freespacemap', 'pg_prewarm', 'pg_stat_statements', 'pg_surgery', \
            'pg_trgm', 'pg_visibility', 'pg_walinspect', 'pgcrypto', 'pgrowlocks', 'pgstattuple', 'postgis', \
            'postgres_fdw', 'seg', 'sslinfo', 'tablefunc', 'tcn', 'tsm_system_rows', 'tsm_system_time', 'unaccent', \
            'uuid-ossp', 'vector', 'xml2') THEN 0 \
        ELSE 3 END \
        FROM pg_catalog.pg_depend e JOIN pg_catalog.pg_extension x ON x.oid = e.refobjid \
        WHERE e.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND e.objid = p.oid AND e.deptype = 'e') \
    END::pg_catalog.int8 AS runs \
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE p.oid >= 16384 \
UNION ALL SELECT DISTINCT 'b', p.oid, p.proname, 0::pg_catalog.int8 FROM pg_catalog.pg_proc p \
    JOIN calls_own c ON c.routine = p.oid \
UNION ALL SELECT 'x', p.oid, p.proname, 0 FROM pg_catalog.pg_proc p, later l \
    WHERE l.is_later AND p.oid < 16384 AND p.provolatile = 'v' \
UNION ALL SELECT 'i', d.oid, pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())::pg_catalog.text::pg_catalog.name, \
    0 FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database() \
UNION ALL SELECT 'f', c.caller, NULL, c.routine FROM calls c WHERE c.caller IS NOT NULL \
UNION ALL SELECT DISTINCT CASE WHEN c.by_trigger THEN 't' ELSE 'v' END, r.oid, r.relname, c.routine::pg_catalog.int8 \
    FROM calls c JOIN pg_catalog.pg_class r ON r.oid = c.relation \
UNION ALL SELECT DISTINCT 'u', r.oid, r.relname, p.part::pg_catalog.int8 \
    FROM parts p JOIN reached d ON d.relation = p.part JOIN pg_catalog.pg_class r ON r.oid = p.relation \
UNION ALL SELECT DISTINCT 'c', r.oid, r.relname, y.type::pg_catalog.int8 \
    FROM typed y JOIN pg_catalog.pg_class r ON r.oid = y.relation \
UNION ALL SELECT DISTINCT 'd', y.oid, y.typname, c.routine::pg_catalog.int8 \
    FROM calls c JOIN pg_catalog.pg_type y ON y.oid = c.type \
UNION ALL SELECT DISTINCT CASE WHEN c.by_event THEN 'e' ELSE 'n' END, 0::pg_catalog.oid, NULL::pg_catalog.name, \
    c.routine::pg_catalog.int8 FROM calls c \
    WHERE c.caller IS NULL AND c.relation IS NULL AND c.type IS NULL) o";

/// The source of every routine in a language that is read: OID; language (`s`: SQL, `b`: SQL with BEGIN ATOMIC or
/// RETURN, `p`: PL/pgSQL, `i`: internal); source, NULL if it is too long; names of the arguments, each with a comma
/// behind it. The name is `!` if the argument is neither text nor varchar, or if its number may not be that of the parameter.
pub(crate) const SOURCES: &str = "SELECT s.oid, s.language, \
    CASE WHEN pg_catalog.octet_length(s.source) <= 262144 THEN pg_catalog.encode(pg_catalog.convert_to(s.source, \
        pg_catalog.getdatabaseencoding()), 'escape') END, \
    CASE WHEN pg_catalog.octet_length(s.names) <= 4096 THEN pg_catalog.encode(pg_catalog.convert_to(s.names, \
        pg_catalog.getdatabaseencoding()), 'escape') END \
    FROM (SELECT p.oid, \
        CASE WHEN l.lanname = 'sql' AND p.prosrc = '' THEN 'b' ELSE pg_catalog.left(l.lanname::pg_catalog.text, 1) END \
            AS language, \
        CASE WHEN l.lanname = 'sql' AND p.prosrc = '' THEN pg_catalog.pg_get_functiondef(p.oid) ELSE p.prosrc END \
            AS source, \
        (SELECT pg_catalog.string_agg(CASE WHEN u.type IN (25, 1043) \
                AND pg_catalog.strpos(COALESCE(p.proargnames[u.number::pg_catalog.int4], ''), ',') = 0 \
                AND NOT COALESCE('o' = ANY (p.proargmodes), false) \
            THEN COALESCE(p.proargnames[u.number::pg_catalog.int4], '') ELSE '!' END || ',', '' ORDER BY u.number) \
            FROM unnest(p.proargtypes) WITH ORDINALITY u(type, number)) AS names \
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
    WHERE p.oid >= 16384 AND p.prokind <> 'a' AND l.lanname IN ('sql', 'plpgsql', 'internal')) s";
