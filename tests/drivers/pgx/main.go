// pgx v5 through pgweir: each query mode, batches, COPY, transactions, cancel through the context, large objects.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	background   = context.Background()
	mode         = os.Getenv("DRIVER_MODE")
	transactions = mode != "statement"
	table        = fmt.Sprintf("pgx_driver_%d", os.Getpid())
	passed       int
	failed       int
)

func check(name string, f func() error) {
	if err := f(); err != nil {
		failed++
		fmt.Printf("FAIL %s: %v\n", name, err)
		return
	}
	passed++
	fmt.Printf("ok %s\n", name)
}

// connectionString has these options, and channel binding as libpq's variable asks for it, which pgx does not read. All else
// comes from the environment.
func connectionString(options ...string) string {
	if binding := os.Getenv("PGCHANNELBINDING"); binding != "" {
		options = append(options, "channel_binding="+binding)
	}
	return strings.Join(options, " ")
}

func connect(options ...string) (*pgx.Conn, error) {
	return pgx.Connect(background, connectionString(options...))
}

// with runs f on a connection of its own.
func with(f func(c *pgx.Conn) error, options ...string) func() error {
	return func() error {
		c, err := connect(options...)
		if err != nil {
			return err
		}
		defer c.Close(background)
		return f(c)
	}
}

func expect[T comparable](got, expected T) error {
	if got != expected {
		return fmt.Errorf("got %v, expected %v", got, expected)
	}
	return nil
}

func queries(c *pgx.Conn) error {
	for i := 0; i < 20; i++ {
		var sum int
		var text string
		var null *string
		err := c.QueryRow(background, "select $1::int + 1, $2::text, null::text", i, "x").Scan(&sum, &text, &null)
		if err != nil {
			return err
		}
		if sum != i+1 || text != "x" || null != nil {
			return fmt.Errorf("wrong row: %d %q %v", sum, text, null)
		}
	}
	rows, err := c.Query(background, "select generate_series(1, $1::int)", 5000)
	if err != nil {
		return err
	}
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return err
	}
	return expect(len(numbers), 5000)
}

func manyStatements(c *pgx.Conn) error {
	for round := 0; round < 3; round++ {
		for i := 0; i < 20; i++ {
			var got int
			if err := c.QueryRow(background, fmt.Sprintf("select %d + $1::int", i), 1).Scan(&got); err != nil {
				return err
			}
			if err := expect(got, i+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func prepareAndDeallocate(c *pgx.Conn) error {
	for i := 0; i < 3; i++ {
		description, err := c.Prepare(background, "named", fmt.Sprintf("select $1::int * %d", i+2))
		if err != nil {
			return err
		}
		if err := expect(len(description.ParamOIDs), 1); err != nil {
			return err
		}
		var got int
		if err := c.QueryRow(background, "named", 10).Scan(&got); err != nil {
			return err
		}
		if err := expect(got, 10*(i+2)); err != nil {
			return err
		}
		if err := c.Deallocate(background, "named"); err != nil {
			return err
		}
	}
	if err := c.DeallocateAll(background); err != nil {
		return err
	}
	var got int
	if err := c.QueryRow(background, "select $1::int", 3).Scan(&got); err != nil {
		return err
	}
	return expect(got, 3)
}

func batch(c *pgx.Conn) error {
	for round := 0; round < 3; round++ {
		b := &pgx.Batch{}
		sum := 0
		for i := 0; i < 100; i++ {
			b.Queue("select $1::int", i).QueryRow(func(row pgx.Row) error {
				var n int
				err := row.Scan(&n)
				sum += n
				return err
			})
			b.Queue(fmt.Sprintf("select %d, $1::text", i%10), "x")
		}
		if err := c.SendBatch(background, b).Close(); err != nil {
			return err
		}
		if err := expect(sum, 4950); err != nil {
			return err
		}
	}
	return nil
}

func batchWithError(c *pgx.Conn) error {
	if _, err := c.Exec(background, "truncate "+table); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue("insert into "+table+" values ($1, 'lost')", 1)
	b.Queue("select 1 / $1::int", 0)
	b.Queue("insert into "+table+" values ($1, 'lost')", 2)
	err := c.SendBatch(background, b).Close()
	var pgError *pgconn.PgError
	if !errors.As(err, &pgError) || pgError.Code != "22012" {
		return fmt.Errorf("expected 22012, got %v", err)
	}
	var count int
	if err := c.QueryRow(background, "select count(*) from "+table).Scan(&count); err != nil {
		return err
	}
	return expect(count, 0)
}

func copyFrom(c *pgx.Conn) error {
	rows := make([][]any, 20000)
	for i := range rows {
		rows[i] = []any{i, fmt.Sprintf("row %d", i)}
	}
	n, err := c.CopyFrom(background, pgx.Identifier{table}, []string{"a", "b"}, pgx.CopyFromRows(rows))
	if err != nil {
		return err
	}
	if err := expect(n, 20000); err != nil {
		return err
	}
	var out bytes.Buffer
	if _, err := c.PgConn().CopyTo(background, &out, "copy "+table+" to stdout"); err != nil {
		return err
	}
	if err := expect(bytes.Count(out.Bytes(), []byte("\n")), 20000); err != nil {
		return err
	}
	source := pgx.CopyFromFunc(func() ([]any, error) { return nil, errors.New("given up") })
	if _, err := c.CopyFrom(background, pgx.Identifier{table}, []string{"a", "b"}, source); err == nil {
		return errors.New("no error from a COPY given up")
	}
	_, err = c.Exec(background, "truncate "+table)
	return err
}

func inTransaction(c *pgx.Conn) error {
	if _, err := c.Exec(background, "truncate "+table); err != nil {
		return err
	}
	err := pgx.BeginTxFunc(background, c, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
		var level string
		if err := tx.QueryRow(background, "show transaction_isolation").Scan(&level); err != nil {
			return err
		}
		if err := expect(level, "serializable"); err != nil {
			return err
		}
		if _, err := tx.Exec(background, "insert into "+table+" values ($1, 'kept')", 1); err != nil {
			return err
		}
		// A nested transaction is a savepoint.
		nested, err := tx.Begin(background)
		if err != nil {
			return err
		}
		if _, err := nested.Exec(background, "insert into "+table+" values ($1, 'lost')", 2); err != nil {
			return err
		}
		if _, err := nested.Exec(background, "select 1 / 0"); err == nil {
			return errors.New("no error from 1 / 0")
		}
		return nested.Rollback(background)
	})
	if err != nil {
		return err
	}
	tx, err := c.Begin(background)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(background, "insert into "+table+" values (3, 'lost')"); err != nil {
		return err
	}
	if err := tx.Rollback(background); err != nil {
		return err
	}
	var count int
	if err := c.QueryRow(background, "select count(*) from "+table).Scan(&count); err != nil {
		return err
	}
	return expect(count, 1)
}

func largeObjects(c *pgx.Conn) error {
	data := make([]byte, 200000)
	rand.Read(data)
	return pgx.BeginFunc(background, c, func(tx pgx.Tx) error {
		objects := tx.LargeObjects()
		oid, err := objects.Create(background, 0)
		if err != nil {
			return err
		}
		object, err := objects.Open(background, oid, pgx.LargeObjectModeRead|pgx.LargeObjectModeWrite)
		if err != nil {
			return err
		}
		if _, err := object.Write(data); err != nil {
			return err
		}
		if _, err := object.Seek(0, io.SeekStart); err != nil {
			return err
		}
		got, err := io.ReadAll(object)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, data) {
			return errors.New("read back something else")
		}
		return objects.Unlink(background, oid)
	})
}

// cancelByContext: pgx closes the connection and sends a cancel request for its query, which must then end.
func cancelByContext() error {
	marker := fmt.Sprintf("cancelled by context %d", os.Getpid())
	for i := 0; i < 3; i++ {
		c, err := connect()
		if err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(background, 400*time.Millisecond)
		_, err = c.Exec(ctx, "select pg_sleep(30) /* "+marker+" */")
		stop()
		if err == nil {
			return errors.New("not cancelled")
		}
	}
	return with(func(c *pgx.Conn) error {
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			var running int
			sql := "select count(*) from pg_stat_activity where state = 'active' and query like '%pg_sleep%' || $1 || '%' and pid <> pg_backend_pid()"
			if err := c.QueryRow(background, sql, marker).Scan(&running); err != nil {
				return err
			}
			if running == 0 {
				return nil
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%d cancelled queries still run", running)
			}
		}
	})()
}

func cancelRequest(c *pgx.Conn) error {
	go func() {
		time.Sleep(400 * time.Millisecond)
		c.PgConn().CancelRequest(background)
	}()
	_, err := c.Exec(background, "select pg_sleep(20)")
	var pgError *pgconn.PgError
	if !errors.As(err, &pgError) || pgError.Code != "57014" {
		return fmt.Errorf("expected 57014, got %v", err)
	}
	_, err = c.Exec(background, "select 1")
	return err
}

func pipeline(c *pgx.Conn) error {
	p := c.PgConn().StartPipeline(background)
	p.SendPrepare("piped", "select $1::int", nil)
	p.SendQueryPrepared("piped", [][]byte{[]byte("7")}, nil, nil)
	if err := p.Sync(); err != nil {
		return err
	}
	p.SendDeallocate("piped")
	p.SendPrepare("piped", "select $1::text", nil)
	p.SendQueryPrepared("piped", [][]byte{[]byte("x")}, nil, nil)
	if err := p.Sync(); err != nil {
		return err
	}
	read := 0
	for {
		results, err := p.GetResults()
		if err != nil {
			return err
		}
		if results == nil {
			break
		}
		if reader, ok := results.(*pgconn.ResultReader); ok {
			result := reader.Read()
			if result.Err != nil {
				return result.Err
			}
			read += len(result.Rows)
		}
	}
	if err := expect(read, 2); err != nil {
		return err
	}
	return p.Close()
}

func schemaChange(c *pgx.Conn) error {
	name := table + "_changed"
	defer c.Exec(background, "drop table if exists "+name)
	if _, err := c.Exec(background, "create table "+name+" as select 1 as a"); err != nil {
		return err
	}
	for i := 0; i < 2; i++ {
		if rows, err := c.Query(background, "select * from "+name); err != nil {
			return err
		} else if rows.Close(); rows.Err() != nil {
			return rows.Err()
		}
	}
	if _, err := c.Exec(background, "alter table "+name+" add b int default 2"); err != nil {
		return err
	}
	// The first use may fail; pgx then drops its cached statement, and the second must work.
	var failure error
	for i := 0; i < 2; i++ {
		rows, err := c.Query(background, "select * from "+name)
		if err != nil {
			return err
		}
		columns := len(rows.FieldDescriptions())
		rows.Close()
		if failure = rows.Err(); failure == nil {
			return expect(columns, 2)
		}
	}
	return failure
}

func pool() error {
	p, err := pgxpool.New(background, connectionString("pool_max_conns=10"))
	if err != nil {
		return err
	}
	defer p.Close()
	var group sync.WaitGroup
	failures := make(chan error, 1000)
	for worker := 0; worker < 20; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 30; i++ {
				var got int
				err := p.QueryRow(background, "select $1::int + $2::int", worker, i).Scan(&got)
				if err == nil {
					err = expect(got, worker+i)
				}
				if err != nil {
					failures <- err
				}
			}
		}()
	}
	group.Wait()
	close(failures)
	return <-failures
}

func failures(c *pgx.Conn) error {
	for i := 0; i < 5; i++ {
		_, err := c.Exec(background, "select nonsense, $1::int", 1)
		var pgError *pgconn.PgError
		if !errors.As(err, &pgError) || pgError.Code != "42703" {
			return fmt.Errorf("expected 42703, got %v", err)
		}
		if _, err := c.Exec(background, "select $1::int", 1); err != nil {
			return err
		}
	}
	return nil
}

// console reads the admin console with each query mode, as an exporter would.
func console() {
	for _, queryMode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		check("console, "+queryMode, with(func(c *pgx.Conn) error {
			for i := 0; i < 2; i++ {
				for _, command := range []string{"show pools", "SHOW STATS", "show databases;", "show clients", "show lists", "show config"} {
					rows, err := c.Query(background, command)
					if err != nil {
						return err
					}
					maps, err := pgx.CollectRows(rows, pgx.RowToMap)
					if err != nil {
						return fmt.Errorf("%s: %w", command, err)
					}
					if len(maps) == 0 && command != "show pools" {
						return fmt.Errorf("%s: no rows", command)
					}
					if command == "show lists" {
						if _, ok := maps[0]["items"].(int32); !ok {
							return fmt.Errorf("items is no int4: %T", maps[0]["items"])
						}
					}
				}
				var version string
				if err := c.QueryRow(background, "show version").Scan(&version); err != nil {
					return err
				}
				if _, err := c.Exec(background, "set query_wait_notify = 7"); err != nil {
					return err
				}
				if _, err := c.Exec(background, "no such command"); err == nil {
					return errors.New("no error for a command that does not exist")
				}
			}
			return nil
		}, "default_query_exec_mode="+queryMode))
	}
}

// finish prints the closing line and ends the process.
func finish() {
	fmt.Printf("pgx: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
	os.Exit(0)
}

func main() {
	if mode == "console" {
		console()
		finish()
	}
	if err := with(func(c *pgx.Conn) error {
		_, err := c.Exec(background, "create table "+table+" (a int, b text)")
		return err
	})(); err != nil {
		fmt.Println("cannot begin:", err)
		os.Exit(1)
	}
	for _, queryMode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		option := "default_query_exec_mode=" + queryMode
		check("queries, "+queryMode, with(queries, option))
		check("many statements, "+queryMode, with(manyStatements, option))
		check("batch, "+queryMode, with(batch, option))
		check("failures, "+queryMode, with(failures, option))
	}
	check("small statement cache", with(manyStatements, "statement_cache_capacity=4"))
	check("prepare and deallocate", with(prepareAndDeallocate))
	check("batch with an error", with(batchWithError))
	check("copy", with(copyFrom))
	check("pipeline", with(pipeline))
	check("schema change", with(schemaChange))
	check("cancel through the context", cancelByContext)
	check("cancel request", with(cancelRequest))
	check("pool", pool)
	if transactions {
		check("transactions", with(inTransaction))
		check("large objects", with(largeObjects))
	}
	with(func(c *pgx.Conn) error {
		_, err := c.Exec(background, "drop table "+table)
		return err
	})()
	finish()
}
