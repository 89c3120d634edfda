//! The two statements that read a catalog (see [`crate::catalog`]). They run with `search_path = pg_catalog, pg_temp`, so
//! that no operator of the client's takes part.
//!
//! Names and sources come in the encoding of the database, whatever that of the session, as `encode(.., 'escape')` writes
//! them: a conversion could fail.
//!
//! Objects made by initdb have lower OIDs than 16384 (`FirstNormalObjectId`); what of them matters is known by name.

/// One row for each routine, and one for each object that runs one: kind, OID, name, OID of what it runs.
///
/// | kind | object | what it runs |
/// |---|---|---|
/// | `r` | a routine | none: 1 for C outside an extension, 2 for a language that is not read, else 0 |
/// | `f` | a routine | a routine it depends on: BEGIN ATOMIC, an aggregate's function |
/// | `t` | a table | the function of a trigger |
/// | `v` | a table or view | a routine in a view, rule, default, check, policy or index |
/// | `u` | a table or view | a table or view below it: of a view, a partition, the other end of a cascade |
/// | `c` | a table | a domain of its columns |
/// | `d` | a domain or type | a routine |
/// | `n` | none that is named | a routine: of an operator, a cast |
/// | `e` | an event trigger | its function |
pub(crate) const OBJECTS: &str = "WITH RECURSIVE calls AS (\
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
    WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid >= 16384\
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
    WHEN EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
        AND e.objid = p.oid AND e.deptype = 'e') THEN 0 \
    ELSE 1 END::pg_catalog.int8 AS runs \
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE p.oid >= 16384 \
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

/// The source of every routine in a language that is read: OID, language (`s`: SQL, `b`: SQL with BEGIN ATOMIC or RETURN,
/// `p`: PL/pgSQL, `i`: internal), source; NULL where that is too long.
pub(crate) const SOURCES: &str = "SELECT s.oid, s.language, \
    CASE WHEN pg_catalog.octet_length(s.source) <= 262144 THEN pg_catalog.encode(pg_catalog.convert_to(s.source, \
        pg_catalog.getdatabaseencoding()), 'escape') END \
    FROM (SELECT p.oid, \
        CASE WHEN l.lanname = 'sql' AND p.prosrc = '' THEN 'b' ELSE pg_catalog.left(l.lanname::pg_catalog.text, 1) END \
            AS language, \
        CASE WHEN l.lanname = 'sql' AND p.prosrc = '' THEN pg_catalog.pg_get_functiondef(p.oid) ELSE p.prosrc END \
            AS source \
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
    WHERE p.oid >= 16384 AND p.prokind <> 'a' AND l.lanname IN ('sql', 'plpgsql', 'internal')) s";
