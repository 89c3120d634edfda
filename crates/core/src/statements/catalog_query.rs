//! The statements that read a catalog (see [`crate::catalog::code`]). They run with `search_path = pg_catalog,
//! pg_temp`, so that no operator that a client has made is used.
//!
//! Names and sources come in the encoding of the database, as `encode(.., 'escape')` writes them: a conversion to the
//! session's encoding could fail.
//!
//! Objects made by initdb have OIDs below 16384 (`FirstNormalObjectId`). Those that matter are known by name.
//! PostgreSQL keeps no dependency on them, so a call of one is found in the stored expressions of the object that calls
//! it. An UPDATE of a view over `pg_settings` calls set_config() by a rule of that view. A view over
//! `pg_prepared_statements` lists prepared statements.
//!
//! Only rules and policies may have sub-selects: their dependencies on tables and views are read. A key of a
//! partitioned table is computed for each row of its partitions, also if a text names the partition. Columns of type
//! `oid` that hold functions (of triggers, event triggers, casts, languages and foreign-data wrappers) are in
//! pg_depend.
//!
//! These columns hold code. A routine of the database in any of them is in pg_depend, too. If pg_depend names no table,
//! type or routine that runs it, any statement may run it. Built-in routines that are not harmless are found as
//! follows; `tests/e2e/test_attack_catalog.py` compares the list with real servers.
//!
//! | column | how it is read |
//! |---|---|
//! | `pg_rewrite.ev_action`, `pg_rewrite.ev_qual`, `pg_attrdef.adbin`, `pg_constraint.conbin`, `pg_policy.polqual`, `pg_policy.polwithcheck`, `pg_trigger.tgqual`, `pg_index.indexprs`, `pg_index.indpred`, `pg_statistic_ext.stxexprs`, `pg_partitioned_table.partexprs`, `pg_type.typdefaultbin`, `pg_proc.proargdefaults` | their expressions are searched |
//! | `pg_proc.prosqlbody` | read as text ([`SOURCES`]) |
//! | `pg_operator.oprcode`, `pg_aggregate.aggfnoid`, `pg_aggregate.aggtransfn`, `pg_aggregate.aggfinalfn`, `pg_aggregate.aggcombinefn`, `pg_aggregate.aggmtransfn`, `pg_aggregate.aggminvtransfn`, `pg_aggregate.aggmfinalfn` | by the routine's OID |
//! | `pg_class.relpartbound` | constants: computed when the partition is made |
//! | `pg_publication_rel.prqual` | only immutable functions of PostgreSQL's own are allowed |
//! | `pg_aggregate.aggserialfn`, `pg_aggregate.aggdeserialfn`, `pg_am.amhandler`, `pg_conversion.conproc`, `pg_operator.oprrest`, `pg_operator.oprjoin`, `pg_proc.prosupport`, `pg_transform.trffromsql`, `pg_transform.trftosql`, `pg_ts_parser.prsstart`, `pg_ts_parser.prstoken`, `pg_ts_parser.prsend`, `pg_ts_parser.prsheadline`, `pg_ts_parser.prslextype`, `pg_ts_template.tmplinit`, `pg_ts_template.tmpllexize`, `pg_type.typinput`, `pg_type.typoutput`, `pg_type.typreceive`, `pg_type.typsend`, `pg_type.typmodin`, `pg_type.typmodout`, `pg_type.typanalyze`, `pg_type.typsubscript` | the function must take arguments of the types internal, cstring or of the type itself, so it is in C, and no C function that matters has such arguments |
//! | `pg_amproc.amproc`, `pg_range.rngcanonical`, `pg_range.rngsubdiff` | no function that matters has the argument and result types that are required |

/// Whether the server is a standby, and its position in the write-ahead log: see [`crate::catalog::replicas`].
pub(crate) const POSITION: &str = "SELECT pg_catalog.pg_is_in_recovery(), \
    CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() \
        ELSE pg_catalog.pg_current_wal_insert_lsn() END";

/// One row for each routine, and one for each object that runs one: kind, OID, name, OID of what the object runs.
///
/// | kind | object | what it runs |
/// |---|---|---|
/// | `r` | a routine | none. The column says instead how the routine is known: 1 C that may keep state in its process, 2 code that is not read, 3 C of an extension that was not reviewed, whatever its volatility: it is not read either, 4 reviewed C, 0 all others; 8 more if it is declared immutable |
/// | `y` | a routine in C that is not called so in SQL: its name in C | none |
/// | `b` | one of PostgreSQL's own routines that some object runs | none |
/// | `x` | a volatile routine of a PostgreSQL later than the reviewed versions | none |
/// | `i` | the database; its name is that of the cluster, which its standbys have, too | none |
/// | `s` | the name of a setting that a routine runs under, in a way that matters | none; the OID is the routine's |
/// | `p` | none: new sessions have `pg_temp` in their search_path | none |
/// | `a` | none: a type that is not PostgreSQL's has the name `text`, and a cast to it may change a value | none |
/// | `l` | none: the database is in a Turkic language and a single-byte encoding, where `tolower()` makes an ASCII i of a letter beyond ASCII | none |
/// | `f` | a routine | a routine it depends on: BEGIN ATOMIC, an aggregate's function |
/// | `t` | a table | the function of a trigger; for a view of PostgreSQL's own, which has no name here, what it runs when it is updated |
/// | `v` | a table or view | a routine in a view, rule, default, check, policy or index |
/// | `u` | a table, view or index | a table or view that it uses: of a view, a policy, a partition, the other end of a cascade, the table of an index with expressions; for a partition, the table whose key has expressions |
/// | `c` | a table or view | a domain or type that it uses |
/// | `g` | a routine | a domain or type of its arguments or result |
/// | `k` | a domain or type | a domain or type that it is made of |
/// | `d` | a domain or type | a routine |
/// | `o` | a composite type | a typed table, which ALTER TYPE .. CASCADE rewrites |
/// | `w` | TRUNCATE | a truncate trigger's function: CASCADE reaches tables that the text does not name |
/// | `m` | ANALYZE, VACUUM, REINDEX, CLUSTER | a table with expressions in its indexes or statistics |
/// | `n` | an object without a name | a routine: of an operator, a cast |
/// | `q` | an operator that belongs to another user than its routine, and to no extension | its routine |
/// | `e` | an event trigger | its function |
pub(crate) const OBJECTS: &str = "WITH RECURSIVE later AS (\
    SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 190000 AS is_later\
), own AS (\
    SELECT p.oid AS routine FROM pg_catalog.pg_proc p, later l WHERE p.oid < 16384 AND (\
        p.proname IN ('set_config', 'setseed', 'currval', 'lastval', 'ts_stat', 'ts_rewrite', 'pg_prepared_statement', \
            'domain_in', 'domain_recv', 'array_in', 'array_recv', 'record_in', 'record_recv', 'range_in', 'range_recv', \
            'multirange_in', 'multirange_recv', 'fmgr_sql_validator', 'fmgr_internal_validator', 'fmgr_c_validator', \
            'plpgsql_validator') \
        OR p.proname LIKE ANY ('{%\\_to\\_xml%,pg\\_advisory\\_%,pg\\_try\\_advisory\\_%,pg\\_input\\_%\
            ,%\\_replication\\_slot,pg\\_backup\\_%,pg\\_replication\\_origin\\_session\\_%,brin\\_summarize%,gin\\_clean%\
            ,pg\\_restore\\_%}') \
        OR l.is_later AND p.provolatile = 'v' AND p.proname NOT IN ('nextval', 'setval'))\
), system_rules AS (\
    SELECT DISTINCT w.ev_class AS relation, m.routine[1]::pg_catalog.oid AS routine, w.ev_type <> '1' AS by_write \
    FROM (SELECT ':funcid (' || pg_catalog.string_agg(o.routine::pg_catalog.text, '|') || ') ' AS names FROM own o) f, \
        pg_catalog.pg_rewrite w, LATERAL pg_catalog.regexp_matches(w.ev_action::pg_catalog.text, f.names, 'g') m(routine) \
    WHERE w.oid < 16384 AND (w.ev_type <> '1' OR (SELECT l.is_later FROM later l) \
        OR w.ev_class = 'pg_catalog.pg_prepared_statements'::pg_catalog.regclass)\
), trees AS (\
    SELECT NULL::pg_catalog.oid AS caller, w.ev_class AS relation, NULL::pg_catalog.oid AS type, false AS stored, \
        w.ev_action::pg_catalog.text || COALESCE(w.ev_qual::pg_catalog.text, '') AS tree \
    FROM pg_catalog.pg_rewrite w WHERE w.oid >= 16384 \
    UNION ALL SELECT NULL, a.adrelid, NULL, false, a.adbin::pg_catalog.text FROM pg_catalog.pg_attrdef a WHERE a.oid >= 16384 \
    UNION ALL SELECT NULL, NULLIF(k.conrelid, 0), NULLIF(k.contypid, 0), false, k.conbin::pg_catalog.text \
    FROM pg_catalog.pg_constraint k WHERE k.oid >= 16384 AND k.conbin IS NOT NULL \
    UNION ALL SELECT NULL, p.polrelid, NULL, false, \
        COALESCE(p.polqual::pg_catalog.text, '') || COALESCE(p.polwithcheck::pg_catalog.text, '') \
    FROM pg_catalog.pg_policy p WHERE p.oid >= 16384 \
    UNION ALL SELECT NULL, t.tgrelid, NULL, false, t.tgqual::pg_catalog.text \
    FROM pg_catalog.pg_trigger t WHERE t.oid >= 16384 AND t.tgqual IS NOT NULL \
    UNION ALL SELECT NULL, i.indrelid, NULL, true, \
        COALESCE(i.indexprs::pg_catalog.text, '') || COALESCE(i.indpred::pg_catalog.text, '') \
    FROM pg_catalog.pg_index i WHERE i.indexrelid >= 16384 AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) \
    UNION ALL SELECT NULL, s.stxrelid, NULL, true, pg_catalog.to_jsonb(s) ->> 'stxexprs' \
    FROM pg_catalog.pg_statistic_ext s WHERE s.oid >= 16384 \
    UNION ALL SELECT NULL, p.partrelid, NULL, false, p.partexprs::pg_catalog.text \
    FROM pg_catalog.pg_partitioned_table p WHERE p.partexprs IS NOT NULL \
    UNION ALL SELECT NULL, NULL, y.oid, false, y.typdefaultbin::pg_catalog.text \
    FROM pg_catalog.pg_type y WHERE y.oid >= 16384 AND y.typdefaultbin IS NOT NULL \
    UNION ALL SELECT p.oid, NULL, NULL, false, p.proargdefaults::pg_catalog.text \
    FROM pg_catalog.pg_proc p WHERE p.oid >= 16384 AND p.proargdefaults IS NOT NULL\
), found AS (\
    SELECT DISTINCT m.found[1]::pg_catalog.oid AS routine, m.found[2]::pg_catalog.oid AS used, \
        t.caller, t.relation, t.type, t.stored \
    FROM (SELECT ':funcid (' || pg_catalog.string_agg(o.routine::pg_catalog.text, '|') || ') |:relid (' || \
        COALESCE((SELECT pg_catalog.string_agg(DISTINCT s.relation::pg_catalog.text, '|') FROM system_rules s), '0') || ') ' \
        AS names FROM own o) f, \
        trees t, LATERAL pg_catalog.regexp_matches(t.tree, f.names, 'g') m(found) \
), calls_own AS (\
    SELECT f.routine, f.caller, f.relation, f.type, f.stored, false AS by_write FROM found f WHERE f.routine IS NOT NULL \
    UNION ALL SELECT s.routine, NULL, s.relation, NULL, false, s.by_write FROM system_rules s \
    WHERE s.relation IN (SELECT f.used FROM found f) \
    UNION ALL SELECT o.oprcode::pg_catalog.oid, NULL, NULL, NULL, false, false FROM pg_catalog.pg_operator o JOIN own ON own.routine = o.oprcode \
    WHERE o.oid >= 16384 \
    UNION ALL SELECT c.castfunc, NULL, NULL, NULL, false, false FROM pg_catalog.pg_cast c JOIN own ON own.routine = c.castfunc \
    WHERE c.oid >= 16384 \
    UNION ALL SELECT own.routine, a.aggfnoid::pg_catalog.oid, NULL, NULL, false, false FROM pg_catalog.pg_aggregate a \
    JOIN own ON own.routine IN (a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn) \
    WHERE a.aggfnoid::pg_catalog.oid >= 16384\
), calls AS (\
    SELECT d.refobjid AS routine, d.classid = 'pg_catalog.pg_trigger'::pg_catalog.regclass AS by_trigger, \
        d.classid = 'pg_catalog.pg_event_trigger'::pg_catalog.regclass AS by_event, \
        CASE WHEN d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass THEN d.objid END AS caller, \
        COALESCE(w.ev_class, a.adrelid, NULLIF(k.conrelid, 0), p.polrelid, t.tgrelid, i.indrelid, s.stxrelid, g.partrelid) \
            AS relation, \
        COALESCE(NULLIF(k.contypid, 0), \
            CASE WHEN d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass THEN d.objid END) AS type, \
        i.indexrelid IS NOT NULL OR s.oid IS NOT NULL AS stored, \
        CASE WHEN d.classid = 'pg_catalog.pg_operator'::pg_catalog.regclass THEN d.objid END AS operator \
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
    LEFT JOIN pg_catalog.pg_partitioned_table g \
        ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND g.partrelid = d.objid \
    WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid >= 16384 \
    UNION ALL SELECT o.routine, o.by_write, false, o.caller, o.relation, o.type, o.stored, NULL FROM calls_own o\
), made_of AS (\
    SELECT d.objid AS type, d.refobjid AS part FROM pg_catalog.pg_depend d \
    WHERE d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass \
    AND d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass \
    UNION ALL SELECT r.reltype, d.refobjid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class r ON r.oid = d.objid \
    WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass \
    AND d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass AND r.reltype <> 0 \
    UNION ALL SELECT k.contypid, d.refobjid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_constraint k ON k.oid = d.objid \
    WHERE d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass \
    AND d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass AND k.contypid <> 0\
), types AS (\
    SELECT c.type FROM calls c JOIN pg_catalog.pg_type y ON y.oid = c.type JOIN pg_catalog.pg_proc p ON p.oid = c.routine \
    WHERE y.typtype <> 'b' OR p.prolang <> (SELECT l.oid FROM pg_catalog.pg_language l WHERE l.lanname = 'c') \
    UNION SELECT m.type FROM types t JOIN made_of m ON m.part = t.type\
), typed AS (\
    SELECT DISTINCT COALESCE(w.ev_class, a.adrelid, NULLIF(k.conrelid, 0), p.polrelid, t.tgrelid, i.indrelid, s.stxrelid, \
            CASE WHEN d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass THEN d.objid END) AS relation, \
        CASE WHEN d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass THEN d.objid END AS routine, d.refobjid AS type, \
        i.indexrelid IS NOT NULL OR s.oid IS NOT NULL AS stored \
    FROM types y JOIN pg_catalog.pg_depend d \
        ON d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.refobjid = y.type \
    LEFT JOIN pg_catalog.pg_rewrite w ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND w.oid = d.objid \
    LEFT JOIN pg_catalog.pg_attrdef a ON d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND a.oid = d.objid \
    LEFT JOIN pg_catalog.pg_constraint k \
        ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND k.oid = d.objid \
    LEFT JOIN pg_catalog.pg_policy p ON d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass AND p.oid = d.objid \
    LEFT JOIN pg_catalog.pg_trigger t ON d.classid = 'pg_catalog.pg_trigger'::pg_catalog.regclass AND t.oid = d.objid \
    LEFT JOIN pg_catalog.pg_index i \
        ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND i.indexrelid = d.objid \
    LEFT JOIN pg_catalog.pg_statistic_ext s \
        ON d.classid = 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass AND s.oid = d.objid\
), keyed AS (\
    SELECT h.inhrelid AS relation, h.inhparent AS part FROM pg_catalog.pg_inherits h \
    JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = h.inhparent WHERE p.partexprs IS NOT NULL \
    UNION SELECT h.inhrelid, k.part FROM keyed k JOIN pg_catalog.pg_inherits h ON h.inhparent = k.relation\
), parts AS (\
    SELECT w.ev_class AS relation, d.refobjid AS part FROM pg_catalog.pg_depend d \
    JOIN pg_catalog.pg_rewrite w ON w.oid = d.objid \
    WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass \
    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid <> w.ev_class AND w.ev_class >= 16384 \
    UNION ALL SELECT f.relation, f.used FROM found f WHERE f.used IS NOT NULL AND f.relation IS NOT NULL \
    UNION ALL SELECT p.polrelid, d.refobjid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_policy p ON p.oid = d.objid \
    WHERE d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass \
    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid <> p.polrelid \
    UNION ALL SELECT k.relation, k.part FROM keyed k \
    UNION ALL SELECT i.indexrelid, i.indrelid FROM pg_catalog.pg_index i \
    WHERE i.indexrelid >= 16384 AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) \
    UNION ALL SELECT h.inhparent, h.inhrelid FROM pg_catalog.pg_inherits h \
    UNION ALL SELECT k.confrelid, k.conrelid FROM pg_catalog.pg_constraint k \
    WHERE k.contype = 'f' AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))\
), reached AS (\
    (SELECT c.relation FROM calls c WHERE c.relation IS NOT NULL \
        UNION SELECT y.relation FROM typed y WHERE y.relation IS NOT NULL) \
    UNION SELECT p.relation FROM reached r JOIN parts p ON p.part = r.relation\
) \
SELECT o.kind, o.oid, pg_catalog.encode(pg_catalog.convert_to(o.name::pg_catalog.text, \
    pg_catalog.getdatabaseencoding()), 'escape'), o.runs FROM (\
SELECT 'r' AS kind, p.oid AS oid, p.proname AS name, CASE WHEN p.provolatile = 'i' THEN 8 ELSE 0 END + CASE \
    WHEN l.lanname IN ('sql', 'plpgsql', 'internal') OR p.prokind = 'a' THEN 0 \
    WHEN l.lanname <> 'c' THEN 2 \
    WHEN p.proname = 'isn_weak' OR p.prosrc IN ('accept_weak_input', 'weak_input_status') THEN 1 \
    WHEN p.proname::pg_catalog.text || ' ' || p.prosrc \
        ~ '(^| )(crosstab|connectby|xpath_table|(bt|gin)_index_(parent_)?check|dblink_build_sql_|check_authorization)' THEN 2 \
    ELSE (SELECT CASE \
        WHEN pg_catalog.count(x.extname) = 0 THEN 1 \
        WHEN pg_catalog.max(x.extname::pg_catalog.text) IN ('adminpack', 'amcheck', 'autoinc', 'bloom', 'btree_gin', \
            'btree_gist', 'citext', 'cube', 'dblink', 'dict_int', 'dict_xsyn', 'earthdistance', 'file_fdw', \
            'fuzzystrmatch', 'hstore', 'insert_username', 'intagg', 'intarray', 'isn', 'lo', 'ltree', 'moddatetime', \
            'old_snapshot', 'pageinspect', 'pg_buffercache', 'pg_freespacemap', 'pg_logicalinspect', 'pg_prewarm', \
            'pg_stat_statements', 'pg_surgery', 'pg_trgm', 'pg_visibility', 'pg_walinspect', 'pgcrypto', 'pgrowlocks', \
            'pgstattuple', 'postgis', 'postgres_fdw', 'seg', 'sslinfo', 'tablefunc', 'tcn', 'tsm_system_rows', \
            'tsm_system_time', 'unaccent', 'uuid-ossp', 'vector', 'xml2') THEN 4 \
        ELSE 3 END \
        FROM pg_catalog.pg_depend e JOIN pg_catalog.pg_extension x ON x.oid = e.refobjid \
        WHERE e.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND e.objid = p.oid AND e.deptype = 'e') \
    END::pg_catalog.int8 AS runs \
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE p.oid >= 16384 \
UNION ALL SELECT 'y', p.oid, p.prosrc::pg_catalog.name, 0 FROM pg_catalog.pg_proc p \
    JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
    WHERE p.oid >= 16384 AND l.lanname = 'c' AND p.prosrc <> p.proname::pg_catalog.text \
UNION ALL SELECT DISTINCT 'b', p.oid, p.proname, 0::pg_catalog.int8 FROM pg_catalog.pg_proc p \
    JOIN calls_own c ON c.routine = p.oid \
UNION ALL SELECT 'x', p.oid, p.proname, 0 FROM pg_catalog.pg_proc p, later l \
    WHERE l.is_later AND p.oid < 16384 AND p.provolatile = 'v' \
UNION ALL SELECT 'i', d.oid, (SELECT c.system_identifier::pg_catalog.text::pg_catalog.name FROM pg_catalog.pg_control_system() c), 0 \
    FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database() \
UNION ALL SELECT 's', p.oid, pg_catalog.split_part(c.setting, '=', 1)::pg_catalog.name, 0 \
    FROM pg_catalog.pg_proc p, LATERAL pg_catalog.unnest(p.proconfig) c(setting) WHERE p.oid >= 16384 AND c.setting ~* \
    '^(search_path=.*pg_temp|standard_conforming_strings=(?!on$)|(role|session_authorization|client_encoding|seed\
        |array_nulls|bytea_output|datestyle|extra_float_digits|intervalstyle|lc_monetary|quote_all_identifiers|timezone\
        |timezone_abbreviations|transform_null_equals|xmlbinary|xmloption)=)' \
UNION ALL SELECT 'p', 0::pg_catalog.oid, NULL::pg_catalog.name, 0 WHERE EXISTS (SELECT FROM pg_catalog.pg_db_role_setting s, \
        LATERAL pg_catalog.unnest(s.setconfig) c(setting) WHERE c.setting ~* '^search_path=.*pg_temp') \
    OR (SELECT g.reset_val FROM pg_catalog.pg_settings g WHERE g.name = 'search_path') ~* 'pg_temp' \
UNION ALL SELECT 'a', 0::pg_catalog.oid, NULL::pg_catalog.name, 0 WHERE EXISTS (SELECT FROM pg_catalog.pg_type y \
    WHERE y.typname = 'text' AND y.oid >= 16384 \
    AND (y.typtype <> 'c' OR EXISTS (SELECT FROM pg_catalog.pg_cast c WHERE c.castsource = y.oid))) \
UNION ALL SELECT 'l', 0::pg_catalog.oid, NULL::pg_catalog.name, 0 FROM pg_catalog.pg_database d \
    WHERE d.datname = pg_catalog.current_database() AND pg_catalog.pg_encoding_max_length(d.encoding) = 1 \
    AND d.datctype ~* '^(tr|az|kk|tt|crh)' \
UNION ALL SELECT 'f', c.caller, NULL, c.routine FROM calls c WHERE c.caller IS NOT NULL \
UNION ALL SELECT DISTINCT CASE WHEN c.by_trigger THEN 't' ELSE 'v' END, r.oid, \
    CASE WHEN r.oid >= 16384 THEN r.relname END, c.routine::pg_catalog.int8 \
    FROM calls c JOIN pg_catalog.pg_class r ON r.oid = c.relation \
UNION ALL SELECT DISTINCT 'u', r.oid, r.relname, p.part::pg_catalog.int8 \
    FROM parts p JOIN reached d ON d.relation = p.part JOIN pg_catalog.pg_class r ON r.oid = p.relation \
UNION ALL SELECT DISTINCT 'c', r.oid, r.relname, y.type::pg_catalog.int8 \
    FROM typed y JOIN pg_catalog.pg_class r ON r.oid = y.relation \
UNION ALL SELECT DISTINCT 'g', y.routine, NULL::pg_catalog.name, y.type::pg_catalog.int8 FROM typed y \
    WHERE y.routine IS NOT NULL \
UNION ALL SELECT DISTINCT 'k', y.oid, y.typname, m.part::pg_catalog.int8 \
    FROM types t JOIN made_of m ON m.part = t.type JOIN pg_catalog.pg_type y ON y.oid = m.type WHERE m.type <> m.part \
UNION ALL SELECT DISTINCT 'o', y.typrelid, y.typname, r.oid::pg_catalog.int8 FROM pg_catalog.pg_class r \
    JOIN reached d ON d.relation = r.oid JOIN pg_catalog.pg_type y ON y.oid = r.reloftype \
UNION ALL SELECT DISTINCT 'w', 0::pg_catalog.oid, NULL::pg_catalog.name, t.tgfoid::pg_catalog.int8 \
    FROM pg_catalog.pg_trigger t WHERE t.oid >= 16384 AND t.tgtype::pg_catalog.int4 & 32 <> 0 \
UNION ALL SELECT DISTINCT 'm', 0::pg_catalog.oid, NULL::pg_catalog.name, s.relation::pg_catalog.int8 \
    FROM (SELECT c.relation FROM calls c WHERE c.stored UNION ALL SELECT y.relation FROM typed y WHERE y.stored) s \
UNION ALL SELECT DISTINCT 'd', y.oid, y.typname, c.routine::pg_catalog.int8 \
    FROM calls c JOIN pg_catalog.pg_type y ON y.oid = c.type \
UNION ALL SELECT DISTINCT CASE WHEN c.by_event THEN 'e' WHEN o.oprowner <> p.proowner AND NOT EXISTS (\
        SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 'pg_catalog.pg_operator'::pg_catalog.regclass \
        AND e.objid = o.oid AND e.deptype = 'e') THEN 'q' ELSE 'n' END, \
    0::pg_catalog.oid, NULL::pg_catalog.name, c.routine::pg_catalog.int8 FROM calls c \
    LEFT JOIN pg_catalog.pg_operator o ON o.oid = c.operator LEFT JOIN pg_catalog.pg_proc p ON p.oid = c.routine \
    WHERE c.caller IS NULL AND c.relation IS NULL AND c.type IS NULL) o";

/// The source of every routine in a language that is read: OID; language (`s`: SQL, `b`: SQL with BEGIN ATOMIC or
/// RETURN, `p`: PL/pgSQL, `i`: internal); source, NULL if it is too long; names of the arguments, each with a comma
/// behind it. The name is `!` if the argument is neither text nor varchar, or if its number may not be that of the
/// parameter.
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
