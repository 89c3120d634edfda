// JDBC through pgweir: prepare thresholds, batches, cursors by fetch size, large objects by FunctionCall, COPY, cancel.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.util.Arrays;
import java.util.Properties;
import java.util.Random;
import java.util.Timer;
import java.util.TimerTask;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;

public final class Jdbc {
    private static final String MODE = System.getenv().getOrDefault("DRIVER_MODE", "direct");
    private static final boolean TRANSACTIONS = !MODE.equals("statement");
    private static final String TABLE = "jdbc_driver_" + ProcessHandle.current().pid();
    private static int passed;
    private static int failed;

    private interface Check {
        void run(Connection c) throws Exception;
    }

    private static Connection connect(String... options) throws SQLException {
        Properties properties = new Properties();
        properties.put("user", System.getenv("PGUSER"));
        set(properties, "password", "PGPASSWORD");
        set(properties, "sslmode", "PGSSLMODE");
        set(properties, "sslrootcert", "PGSSLROOTCERT");
        set(properties, "channelBinding", "PGCHANNELBINDING");
        for (int i = 0; i < options.length; i += 2) {
            properties.put(options[i], options[i + 1]);
        }
        return DriverManager.getConnection(
            "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"),
            properties);
    }

    /** A property of the driver from a variable of libpq's, if that is set. */
    private static void set(Properties properties, String name, String variable) {
        String value = System.getenv(variable);
        if (value != null) {
            properties.put(name, value);
        }
    }

    /** Runs the check on a connection of its own. */
    private static void check(String name, Check check, String... options) {
        try (Connection c = connect(options)) {
            check.run(c);
            passed++;
            System.out.println("ok " + name);
        } catch (Throwable e) {
            failed++;
            System.out.println("FAIL " + name);
            e.printStackTrace(System.out);
        }
    }

    private static void expect(Object got, Object expected) {
        if (!got.equals(expected)) {
            throw new AssertionError("got " + got + ", expected " + expected);
        }
    }

    private static long number(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
            r.next();
            return r.getLong(1);
        }
    }

    private static void execute(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.execute(sql);
        }
    }

    private static void statements(Connection c) throws SQLException {
        try (PreparedStatement p = c.prepareStatement("select ?::int + 1, ?::text, ?::timestamptz is null")) {
            for (int i = 0; i < 20; i++) {
                p.setInt(1, i);
                p.setString(2, "text " + i);
                p.setNull(3, Types.TIMESTAMP_WITH_TIMEZONE);
                try (ResultSet r = p.executeQuery()) {
                    r.next();
                    expect(r.getInt(1), i + 1);
                    expect(r.getString(2), "text " + i);
                    expect(r.getBoolean(3), true);
                }
            }
        }
        // The same statement with other types of parameter, which makes the driver parse it again.
        try (PreparedStatement p = c.prepareStatement("select ?")) {
            for (int i = 0; i < 12; i++) {
                if (i % 2 == 0) {
                    p.setInt(1, i);
                } else {
                    p.setString(1, "s" + i);
                }
                try (ResultSet r = p.executeQuery()) {
                    r.next();
                    expect(r.getString(1), i % 2 == 0 ? "" + i : "s" + i);
                }
            }
        }
    }

    private static void manyStatements(Connection c) throws SQLException {
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 25; i++) {
                try (PreparedStatement p = c.prepareStatement("select " + i + " + ?::int")) {
                    p.setInt(1, round);
                    try (ResultSet r = p.executeQuery()) {
                        r.next();
                        expect(r.getInt(1), i + round);
                    }
                }
            }
        }
    }

    private static void batch(Connection c) throws SQLException {
        try (PreparedStatement p = c.prepareStatement("insert into " + TABLE + " values (?, ?)")) {
            for (int i = 0; i < 1000; i++) {
                p.setInt(1, i);
                p.setString(2, "row " + i);
                p.addBatch();
            }
            expect(p.executeBatch().length, 1000);
        }
        expect(number(c, "select sum(a) from " + TABLE), 499500L);
        try (Statement s = c.createStatement()) {
            for (int i = 0; i < 50; i++) {
                s.addBatch("update " + TABLE + " set b = 'updated' where a = " + i);
            }
            expect(Arrays.stream(s.executeBatch()).sum(), 50);
        }
        try (PreparedStatement p = c.prepareStatement("insert into " + TABLE + " values (1 / ?, 'x')")) {
            for (int i = -3; i < 4; i++) {
                p.setInt(1, i);
                p.addBatch();
            }
            try {
                p.executeBatch();
                throw new AssertionError("no error");
            } catch (BatchUpdateException e) {
                expect(e.getSQLState(), "22012");
            }
        }
        execute(c, "truncate " + TABLE);
    }

    private static void generatedKeys(Connection c) throws SQLException {
        try (PreparedStatement p = c.prepareStatement("insert into " + TABLE + " values (?, 'x')", Statement.RETURN_GENERATED_KEYS)) {
            p.setInt(1, 5);
            p.executeUpdate();
            try (ResultSet r = p.getGeneratedKeys()) {
                r.next();
                expect(r.getInt("a"), 5);
            }
        }
        execute(c, "truncate " + TABLE);
    }

    private static void fetchSize(Connection c) throws SQLException {
        // A fetch size makes the driver execute the portal in steps, inside a transaction.
        c.setAutoCommit(false);
        try (PreparedStatement p = c.prepareStatement("select generate_series(1, 1000)")) {
            p.setFetchSize(70);
            for (int round = 0; round < 7; round++) {
                long sum = 0;
                try (ResultSet r = p.executeQuery()) {
                    while (r.next()) {
                        sum += r.getInt(1);
                    }
                }
                expect(sum, 500500L);
            }
            // A second cursor is opened and the first left unread.
            try (ResultSet r = p.executeQuery()) {
                r.next();
            }
        }
        c.commit();
        expect(number(c, "select 1"), 1L);
        c.commit();
    }

    private static void transactions(Connection c) throws SQLException {
        c.setAutoCommit(false);
        c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        execute(c, "insert into " + TABLE + " values (1, 'kept')");
        Savepoint savepoint = c.setSavepoint("point");
        execute(c, "insert into " + TABLE + " values (2, 'lost')");
        try {
            execute(c, "select 1 / 0");
            throw new AssertionError("no error");
        } catch (SQLException e) {
            expect(e.getSQLState(), "22012");
        }
        c.rollback(savepoint);
        c.commit();
        execute(c, "insert into " + TABLE + " values (3, 'lost')");
        c.rollback();
        expect(number(c, "select count(*) from " + TABLE), 1L);
        execute(c, "truncate " + TABLE);
        c.commit();
    }

    private static void readOnly(Connection c) throws SQLException {
        c.setAutoCommit(false);
        c.setReadOnly(true);
        try {
            execute(c, "insert into " + TABLE + " values (1, 'x')");
            throw new AssertionError("no error");
        } catch (SQLException e) {
            expect(e.getSQLState(), "25006");
        }
        c.rollback();
        c.setReadOnly(false);
        execute(c, "insert into " + TABLE + " values (1, 'x')");
        c.rollback();
    }

    private static void largeObjects(Connection c) throws SQLException {
        c.setAutoCommit(false);
        byte[] data = new byte[300000];
        new Random(1).nextBytes(data);
        LargeObjectManager manager = c.unwrap(PGConnection.class).getLargeObjectAPI();
        long oid = manager.createLO(LargeObjectManager.READWRITE);
        LargeObject object = manager.open(oid, LargeObjectManager.READWRITE);
        object.write(data);
        expect(object.size(), 300000);
        object.seek(100000);
        byte[] part = object.read(1000);
        expect(Arrays.equals(part, Arrays.copyOfRange(data, 100000, 101000)), true);
        object.truncate(1000);
        expect(object.size(), 1000);
        object.close();
        manager.delete(oid);
        try {
            manager.open(oid);
            throw new AssertionError("no error");
        } catch (SQLException e) {
            expect(e.getSQLState(), "42704");
        }
        c.rollback();
    }

    private static void copy(Connection c) throws Exception {
        CopyManager manager = c.unwrap(PGConnection.class).getCopyAPI();
        StringBuilder rows = new StringBuilder();
        for (int i = 0; i < 20000; i++) {
            rows.append(i).append("\trow ").append(i).append('\n');
        }
        expect(manager.copyIn("copy " + TABLE + " from stdin", new ByteArrayInputStream(rows.toString().getBytes())), 20000L);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        expect(manager.copyOut("copy (select * from " + TABLE + " order by a) to stdout", out), 20000L);
        expect(out.toString(), rows.toString());
        try {
            manager.copyIn("copy " + TABLE + " from stdin", new ByteArrayInputStream("x\ty\n".getBytes()));
            throw new AssertionError("no error");
        } catch (SQLException e) {
            expect(e.getSQLState(), "22P02");
        }
        execute(c, "truncate " + TABLE);
    }

    private static void cancel(Connection c) throws SQLException {
        Timer timer = new Timer(true);
        for (int i = 0; i < 3; i++) {
            try (Statement s = c.createStatement()) {
                timer.schedule(new TimerTask() {
                    @Override
                    public void run() {
                        try {
                            s.cancel();
                        } catch (SQLException e) {
                            e.printStackTrace(System.out);
                        }
                    }
                }, 400);
                try {
                    s.execute("select pg_sleep(20)");
                    throw new AssertionError("not cancelled");
                } catch (SQLException e) {
                    expect(e.getSQLState(), "57014");
                }
            }
            expect(number(c, "select 1"), 1L);
        }
    }

    private static void queryTimeout(Connection c) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.setQueryTimeout(1);
            try {
                s.execute("select pg_sleep(20)");
                throw new AssertionError("not cancelled");
            } catch (SQLException e) {
                expect(e.getSQLState(), "57014");
            }
        }
        expect(number(c, "select 1"), 1L);
    }

    private static void errors(Connection c) throws SQLException {
        for (int i = 0; i < 8; i++) {
            try (PreparedStatement p = c.prepareStatement("select 1 / ?")) {
                p.setInt(1, i % 2);
                p.executeQuery();
                expect(i % 2, 1);
            } catch (SQLException e) {
                expect(e.getSQLState(), "22012");
            }
            try {
                execute(c, "select nonsense");
                throw new AssertionError("no error");
            } catch (SQLException e) {
                expect(e.getSQLState(), "42703");
            }
        }
    }

    private static void schemaChange(Connection c) throws SQLException {
        String name = TABLE + "_changed";
        execute(c, "create table " + name + " as select 1 as a");
        try (PreparedStatement p = c.prepareStatement("select * from " + name)) {
            for (int i = 0; i < 7; i++) {
                p.executeQuery().close();
            }
            execute(c, "alter table " + name + " add b int default 2");
            // The driver sees 0A000, parses again and repeats by itself, outside a transaction.
            try (ResultSet r = p.executeQuery()) {
                expect(r.getMetaData().getColumnCount(), 2);
            }
        } finally {
            execute(c, "drop table " + name);
        }
    }

    private static void metadata(Connection c) throws SQLException {
        try (ResultSet r = c.getMetaData().getColumns(null, null, TABLE, null)) {
            r.next();
            expect(r.getString("COLUMN_NAME"), "a");
            r.next();
            expect(r.getString("COLUMN_NAME"), "b");
        }
        expect(c.isValid(5), true);
    }

    private static void warnings(Connection c) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.execute("do $$ begin raise notice 'hello'; end $$");
            expect(s.getWarnings().getMessage(), "hello");
        }
    }

    private static void multipleResults(Connection c) throws SQLException {
        try (Statement s = c.createStatement()) {
            expect(s.execute("select 1; select 2; select 3"), true);
            int count = 1;
            while (s.getMoreResults()) {
                count++;
            }
            expect(count, 3);
        }
    }

    /** The admin console, as an exporter reads it. */
    private static void console(Connection c) throws SQLException {
        for (int i = 0; i < 7; i++) {
            for (String command : new String[] {"show stats", "SHOW DATABASES", "show clients", "show lists", "show config"}) {
                try (PreparedStatement p = c.prepareStatement(command); ResultSet r = p.executeQuery()) {
                    expect(r.next(), true);
                    if (command.equals("show lists")) {
                        expect(r.getMetaData().getColumnTypeName(2), "int4");
                        expect(r.getInt("items") >= 0, true);
                    }
                    if (command.equals("show stats")) {
                        expect(r.getBigDecimal("total_xact_count").signum() >= 0, true);
                    }
                }
            }
            try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("show pools")) {
                expect(r.getMetaData().getColumnCount(), 17);
            }
            execute(c, "set query_wait_notify = 7");
            try {
                execute(c, "no such command");
                throw new AssertionError("no error");
            } catch (SQLException e) {
                expect(e.getMessage().contains("invalid command"), true);
            }
        }
    }

    private static void finish() {
        System.out.println("jdbc: " + passed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    public static void main(String[] arguments) throws Exception {
        if (MODE.equals("console")) {
            check("console", Jdbc::console);
            check("console, prepareThreshold=1", Jdbc::console, "prepareThreshold", "1");
            check("console, preferQueryMode=simple", Jdbc::console, "preferQueryMode", "simple");
            finish();
        }
        try (Connection c = connect()) {
            execute(c, "create table " + TABLE + " (a int, b text)");
        }
        for (String threshold : new String[] {"1", "5", "0", "-1"}) {
            String[] option = {"prepareThreshold", threshold};
            check("statements, prepareThreshold=" + threshold, Jdbc::statements, option);
            check("many statements, prepareThreshold=" + threshold, Jdbc::manyStatements, option);
            check("batch, prepareThreshold=" + threshold, Jdbc::batch, option);
            check("errors, prepareThreshold=" + threshold, Jdbc::errors, option);
            if (TRANSACTIONS) {
                check("fetch size, prepareThreshold=" + threshold, Jdbc::fetchSize, option);
            }
        }
        check("small statement cache", Jdbc::manyStatements, "prepareThreshold", "1", "preparedStatementCacheQueries", "4");
        check("preferQueryMode=simple", Jdbc::statements, "preferQueryMode", "simple");
        check("preferQueryMode=extendedCacheEverything", Jdbc::statements, "preferQueryMode", "extendedCacheEverything");
        check("reWriteBatchedInserts", Jdbc::batch, "reWriteBatchedInserts", "true");
        check("generated keys", Jdbc::generatedKeys);
        check("copy", Jdbc::copy);
        check("cancel", Jdbc::cancel);
        check("query timeout", Jdbc::queryTimeout);
        check("schema change", Jdbc::schemaChange);
        check("metadata", Jdbc::metadata);
        check("warnings", Jdbc::warnings);
        check("multiple results", Jdbc::multipleResults);
        if (TRANSACTIONS) {
            check("transactions", Jdbc::transactions);
            check("read only", Jdbc::readOnly);
            check("large objects", Jdbc::largeObjects);
        }
        try (Connection c = connect()) {
            execute(c, "drop table " + TABLE);
        }
        finish();
    }
}
