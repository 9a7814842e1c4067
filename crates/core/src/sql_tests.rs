//! Statements that read, that stay within their schema, and that prove neither.

use super::*;

const DIALECTS: [Option<Dialect>; 4] = [None, Some(Dialect::Postgres), Some(Dialect::Mysql), Some(Dialect::Sqlite)];

#[test]
fn only_what_certainly_reads_reads() {
    for text in [
        "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
        "  select count(*), max (v) FROM t WHERE (a = $1 OR b IN ($2, $3)) AND EXISTS (SELECT 1 FROM u)",
        "SELECT v FROM formats WHERE intos = $1::int LIMIT 1",
        "SELECT a FROM s.t WHERE name = 'O''Hara; DELETE' -- UPDATE\n",
        "WITH w AS (SELECT a FROM t) SELECT replace(a, 'x', 'y') FROM w",
        "(SELECT 1) UNION (SELECT 2)",
        "WITH w AS MATERIALIZED (SELECT a FROM t) SELECT a FROM w",
        "SELECT \"a\" FROM \"s\".\"t\" WHERE b = 1 /* update */",
        "VALUES (1), (2)",
        "BEGIN",
        "start transaction isolation level serializable, read only",
        "END",
        "ROLLBACK TO SAVEPOINT s",
        "release s",
        "COMMIT AND NO CHAIN",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "SELECT a -- x\r\nFROM t --\r\n",
        "SELECT 'é' /* é */ FROM \"é\" -- é",
        "SELECT count(*) FILTER (WHERE a > $1), sum(a) OVER (PARTITION BY (b)) FROM t GROUP BY (b)",
        "SELECT a FROM t JOIN (SELECT b FROM u) AS x ON (a = b) WHERE a = ANY (SELECT c FROM v)",
    ] {
        assert!(only_reads(text, None), "{text}");
    }
    for text in [
        "UPDATE t SET a = 1",
        "WITH gone AS (DELETE FROM t RETURNING a) SELECT a FROM gone",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM t FOR\nSHARE",
        "SELECT a FROM t LOCK IN SHARE MODE",
        "SELECT a INTO u FROM t",
        "SELECT a FROM t INTO OUTFILE 'x'",
        "SELECT nextval ($1)",
        "SELECT set_config('default_transaction_read_only', 'off', false)",
        "SELECT pg_advisory_lock(1)",
        "SELECT count(*) FROM t WHERE f(a)",
        "SELECT mine.count(*)",
        "SELECT mine . count(*)",
        "SELECT \"f\"(1)",
        "SELECT `f`(1)",
        "SELECT 1; DELETE FROM t",
        "SELECT 1 /*! INTO OUTFILE 'x' */",
        "SELECT /* x */ f/**/(1)",
        "SELECT 5--1, f(1)",
        "SELECT 'it\\'s', f(1)",
        "SELECT $$x$$",
        "BEGIN READ WRITE",
        "COMMIT PREPARED 'x'",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "EXPLAIN ANALYZE DELETE FROM t",
        "CALL p()",
        "DO $$BEGIN END$$",
        "LOCK TABLE t",
        "COPY t TO PROGRAM 'x'",
        "",
        // MariaDB: each of them starts replication.
        "START ALL SLAVES",
        "START ALL REPLICAS",
        "START GROUP_REPLICATION",
        "BEGIN f",
        // PostgreSQL ends the comment at \r.
        "SELECT a -- x\rINTO u FROM t",
        "SELECT a --\rINTO u FROM t",
        // `f$1` and, in MariaDB, `$1` are names of functions.
        "SELECT f$1(2)",
        "SELECT $1(2)",
        "SELECT $1 /* x */ (2)",
        "SELECT $1f(2)",
        // Not a blank of any server; and the Kelvin sign is none of their letters.
        "SELECT f\u{a0}(1)",
        "SELECT count\u{a0}(1)",
        "SELECT loc\u{212a}, ran\u{212a}(1)",
        "SELECT 1\u{b}, now()",
        "SELECT a FROM U&\"f!0075\" UESCAPE '!'",
        "SELECT s.nextval",
        // Words that are functions at these positions.
        "SELECT filter(1)",
        "SELECT by(1), key(1)",
        "SELECT set(1)",
        "SELECT 1 WHERE join(1)",
        "SELECT NOT materialized(1)",
    ] {
        for dialect in DIALECTS {
            assert!(!only_reads(text, dialect), "{text}");
        }
    }
}

#[test]
fn a_function_is_known_where_the_server_has_it() {
    let (postgres, mysql) = (Some(Dialect::Postgres), Some(Dialect::Mysql));
    for (text, own) in [
        ("SELECT random()", postgres),
        ("SELECT hashtext('a')", postgres),
        ("SELECT to_number('1', '9')", postgres),
        ("SELECT a FROM t WHERE a = ANY ($1)", postgres),
        ("SELECT n FROM generate_series(1, 2) AS n", postgres),
        ("SELECT rand()", mysql),
        ("SELECT ifnull(a, 1) FROM t", mysql),
    ] {
        for dialect in DIALECTS {
            assert_eq!(only_reads(text, dialect), dialect == own, "{text}: {dialect:?}");
        }
    }
}

#[test]
fn what_stays_in_its_schema_names_no_other_where_it_changes_something() {
    for text in [
        "UPDATE t SET a = t.a + 1 WHERE t.b = $1",
        "UPDATE accounts SET balance = balance - 1 WHERE aid = $1 RETURNING balance",
        "INSERT INTO t (a, b) VALUES ($1, now())",
        "INSERT INTO accounts SELECT n, 0 FROM generate_series(1, 100000 * 1) AS n",
        "DELETE FROM t USING u WHERE t.a = u.a",
        "DELETE FROM t WHERE a IN (SELECT a FROM public.u)",
        "INSERT INTO t SELECT a FROM public.u",
        "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
        "CREATE INDEX IF NOT EXISTS i ON t (a)",
        "VACUUM FULL VERBOSE t",
        "SELECT balance FROM accounts WHERE aid = $1 FOR UPDATE",
        "CREATE TABLE accounts (aid int PRIMARY KEY, balance int DEFAULT (0), name varchar(20), CHECK (balance > 0))",
        "CREATE TABLE IF NOT EXISTS t (a int)",
        "CREATE UNIQUE INDEX i ON t (a, b)",
        "DROP TABLE IF EXISTS t",
        "TRUNCATE t",
        "ANALYZE t",
        "VACUUM ANALYZE t",
        "ALTER TABLE t ADD PRIMARY KEY (a)",
        "BEGIN",
        "SELECT a FROM public.t",
    ] {
        assert!(stays_in_schema(text, Some(Dialect::Postgres)), "{text}");
    }
    for text in [
        "UPDATE public.t SET a = 1",
        "UPDATE t, shop.u SET u.a = 1",
        "UPDATE ONLY public.t SET a = 1",
        "INSERT INTO public.t VALUES (1)",
        "INSERT INTO \"public\".\"t\" VALUES (1)",
        "INSERT shop.t VALUES (1)",
        "DELETE FROM public.t",
        "DELETE t, shop.u FROM t JOIN shop.u ON t.a = u.a",
        "WITH w AS (DELETE FROM public.t RETURNING a) SELECT a FROM w",
        "SELECT a INTO public.u FROM t",
        "MERGE INTO public.t USING u ON true WHEN MATCHED THEN DELETE",
        "DROP TABLE t, public.u",
        "DROP SCHEMA public",
        "CREATE TABLE public.t (a int)",
        "CREATE INDEX ON public.t (a)",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'DELETE FROM public.t'",
        "ALTER TABLE t SET SCHEMA public",
        "TRUNCATE public.t",
        "SET search_path = public",
        "USE shop",
        "UPDATE t SET a = f(1)",
        "SELECT setval('public.s', 1)",
        "CALL p()",
        "GRANT ALL ON t TO public",
        "COPY t FROM STDIN",
        "DELETE FROM t, shop.u USING t JOIN shop.u ON t.a = u.a WHERE t.b = 1",
        "DELETE LOW_PRIORITY FROM shop.t",
        "DELETE HISTORY FROM shop.t",
        "DELETE u FROM (SELECT a FROM t WHERE b = 1) AS x JOIN shop.u AS u ON u.a = x.a",
        "INSERT HIGH_PRIORITY shop.t VALUES (1)",
        "INSERT DELAYED shop.t VALUES (1)",
        "INSERT LOW_PRIORITY IGNORE shop.t VALUES (1)",
        "REPLACE DELAYED shop.t VALUES (1)",
        "SELECT a INTO TEMP shop.u FROM t",
        "SELECT a INTO TABLE shop.u FROM t",
        "SELECT NEXT VALUE FOR shop.s",
        "CREATE TABLE t AS SELECT 1 FROM a JOIN b ON f(1)",
        "CREATE TABLE t AS SELECT 1 WHERE EXISTS f(1)",
        "CREATE TABLE t SELECT 1 FROM a JOIN b ON f(1)",
        "CREATE TABLE t (a int) ENGINE = FEDERATED CONNECTION = 'mysql://h/shop/t'",
        "VACUUM",
        "VACUUM FULL",
        "VACUUM ANALYZE",
        "VACUUM INTO '/tmp/copy'",
        "ANALYZE",
        "ANALYZE VERBOSE",
        "UPDATE pg_database SET datallowconn = false",
        "UPDATE \"pg_database\" SET datallowconn = false",
        "DELETE FROM pg_authid",
        "UPDATE $1.t SET a = 1",
    ] {
        for dialect in DIALECTS {
            assert!(!stays_in_schema(text, dialect), "{text}");
        }
    }
}

#[test]
fn a_statement_runs_others_by_its_first_word() {
    for text in ["CALL p(1)", "/* x */ begin not atomic select 1; end", "EXECUTE IMMEDIATE 'SELECT 1'", "", "'"] {
        assert!(runs_others(text), "{text}");
    }
    for text in ["SELECT `call` FROM t", "INSERT INTO t VALUES (?)", "UPDATE t SET a = 1"] {
        assert!(!runs_others(text), "{text}");
    }
}

#[test]
fn a_statement_drops_prepared_statements_and_settings_by_all_of_its_words() {
    for text in ["DISCARD ALL", "discard /* x */ all;", " DISCARD\nALL "] {
        assert!(resets_settings(text) && drops_statements(text), "{text}");
    }
    for text in ["DEALLOCATE ALL", "deallocate prepare all"] {
        assert!(!resets_settings(text) && drops_statements(text), "{text}");
    }
    for text in ["RESET ALL", "reset /* x */ all;"] {
        assert!(resets_settings(text) && !drops_statements(text), "{text}");
    }
    for text in [
        "DISCARD PLANS",
        "DEALLOCATE p",
        "DEALLOCATE PREPARE p",
        "SELECT all",
        "DISCARD ALL TABLES",
        "DISCARD",
        "RESET search_path",
        "RESET",
        "",
    ] {
        assert!(!resets_settings(text) && !drops_statements(text), "{text}");
    }
}

#[test]
fn a_statement_changes_names_by_its_first_word() {
    for text in
        ["CREATE TABLE t (a int)", " -- x\n create temporary table t (a int)", "SET search_path = s", "use shop"]
    {
        assert!(changes_names(text), "{text}");
    }
    for text in ["SELECT a FROM \"create\"", "ALTER TABLE t ADD created int", "SET LOCAL synchronous_commit = off", ""]
    {
        assert!(!changes_names(text), "{text}");
    }
}
