// node-postgres through pgweir: named prepared statements, pool, transactions, cancel, COPY's refusal, types.
'use strict';

const assert = require('node:assert');
const sasl = require('pg/lib/crypto/sasl');
const { Client, Pool } = require('pg');

const mode = process.env.DRIVER_MODE || 'direct';
const transactions = mode !== 'statement';
const sessions = (process.env.DRIVER_SESSIONS || (mode === 'direct' || mode === 'session' ? 'yes' : 'no')) === 'yes';
const table = `node_driver_${process.pid}`;
// The driver has no way to require channel binding: it uses it if it may and the server offers it. So we look what it chose.
const bindsChannel = process.env.PGCHANNELBINDING === 'require';
const security = bindsChannel ? { enableChannelBinding: true } : {};
const mechanisms = new Set();
const { startSession } = sasl;
sasl.startSession = (...given) => {
  const session = startSession(...given);
  mechanisms.add(session.mechanism);
  return session;
};
let passed = 0;
let failed = 0;

async function check(name, f) {
  try {
    await f();
    passed += 1;
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${error.stack}`);
  }
}

// Runs f on a connection of its own.
async function connected(f, options = {}) {
  const client = new Client({ ...security, ...options });
  await client.connect();
  try {
    return await f(client);
  } finally {
    await client.end();
  }
}

async function simpleQueries(c) {
  assert.deepEqual((await c.query('select 1 as a, null as b')).rows, [{ a: 1, b: null }]);
  const results = await c.query('select 1 as a; select 2 as b');
  assert.deepEqual(results.map((r) => r.rows[0]), [{ a: 1 }, { b: 2 }]);
  assert.equal((await c.query('')).rows.length, 0);
}

async function parameters(c) {
  for (let i = 0; i < 20; i += 1) {
    const { rows } = await c.query('select $1::int + 1 as n, $2::text as t, $3::bytea as b', [i, 'x', Buffer.from([0, 255])]);
    assert.deepEqual(rows, [{ n: i + 1, t: 'x', b: Buffer.from([0, 255]) }]);
  }
}

async function namedStatements(c) {
  for (let i = 0; i < 20; i += 1) {
    const { rows } = await c.query({ name: 'add', text: 'select $1::int + 1 as n', values: [i] });
    assert.equal(rows[0].n, i + 1);
    const other = await c.query({ name: `other ${i % 4}`, text: `select ${i % 4} as n`, values: [] });
    assert.equal(other.rows[0].n, i % 4);
  }
}

async function sameNameInManyConnections() {
  await Promise.all(
    Array.from({ length: 12 }, (_, number) =>
      connected(async (c) => {
        for (let i = 0; i < 20; i += 1) {
          const { rows } = await c.query({ name: 's', text: `select ${number} as client, $1::int as i`, values: [i] });
          assert.deepEqual(rows, [{ client: number, i }]);
        }
      }),
    ),
  );
}

async function queriesSentWithoutWaiting(c) {
  const results = await Promise.all(Array.from({ length: 200 }, (_, i) => c.query('select $1::int as n', [i])));
  assert.deepEqual(results.map((r) => r.rows[0].n), Array.from({ length: 200 }, (_, i) => i));
}

async function errors(c) {
  for (let i = 0; i < 5; i += 1) {
    await assert.rejects(c.query('select nonsense'), { code: '42703' });
    await assert.rejects(c.query({ name: `bad ${i}`, text: 'select nonsense, $1', values: [1] }), { code: '42703' });
    await assert.rejects(c.query({ name: 'divide', text: 'select 1 / $1::int', values: [0] }), { code: '22012' });
    assert.equal((await c.query('select 1 as n')).rows[0].n, 1);
  }
}

async function inTransaction(c) {
  await c.query('begin');
  await c.query(`insert into ${table} values ($1, 'kept')`, [1]);
  await c.query('savepoint s');
  await assert.rejects(c.query('select 1/0'), { code: '22012' });
  await c.query('rollback to savepoint s');
  await c.query('commit');
  await c.query('begin');
  await c.query(`insert into ${table} values (2, 'lost')`);
  await c.query('rollback');
  assert.deepEqual((await c.query(`select a from ${table}`)).rows, [{ a: 1 }]);
  await c.query(`truncate ${table}`);
}

async function pool() {
  const p = new Pool({ ...security, max: 10 });
  await Promise.all(
    Array.from({ length: 300 }, async (_, i) => {
      const { rows } = await p.query({ name: 'pooled', text: 'select $1::int * 2 as n', values: [i] });
      assert.equal(rows[0].n, i * 2);
    }),
  );
  await p.end();
}

async function cancel(c) {
  for (let i = 0; i < 3; i += 1) {
    const query = c.query('select pg_sleep(20)');
    setTimeout(() => {
      // A cancel request goes out on a connection of its own; node-postgres has the packet, not the call.
      const { processID, secretKey } = c;
      const other = require('node:net').connect(Number(process.env.PGPORT), process.env.PGHOST, () => {
        const packet = Buffer.alloc(16);
        packet.writeInt32BE(16, 0);
        packet.writeInt32BE(80877102, 4);
        packet.writeInt32BE(processID, 8);
        packet.writeInt32BE(secretKey, 12);
        other.end(packet);
      });
      other.on('error', () => {});
    }, 400);
    const started = Date.now();
    await assert.rejects(query, { code: '57014' });
    assert.ok(Date.now() - started < 5000);
    assert.equal((await c.query('select 1 as n')).rows[0].n, 1);
  }
}

async function largeResults(c) {
  const { rows } = await c.query("select i, repeat('x', 1000) as x from generate_series(1, 20000) i");
  assert.equal(rows.length, 20000);
  assert.ok(rows.every((r, i) => r.i === i + 1 && r.x.length === 1000));
}

async function notices(c) {
  const got = [];
  c.on('notice', (n) => got.push(n.message));
  await c.query("do $$ begin raise notice 'hello'; end $$");
  assert.deepEqual(got, ['hello']);
}

async function rowLimit(c) {
  // `rows` makes node-postgres execute the portal in steps, until it is complete.
  const got = await c.query({ text: 'select generate_series(1, 95) as n', rows: 10 });
  assert.equal(got.rows.length, 95);
}

async function listen(c) {
  const heard = new Promise((resolve) => {
    c.on('notification', (n) => resolve(n.payload));
  });
  await c.query('listen pgweir_node');
  await c.query("notify pgweir_node, 'hello'");
  assert.equal(await heard, 'hello');
}

// What a client sets is there at the next query, and in nobody else's session.
async function sessionState(c) {
  await c.query("set search_path = pg_temp, public; set timezone = 'Asia/Tokyo'");
  await c.query("select set_config('app.tenant', $1, false)", ["it's node"]);
  await c.query('create temp table of_session (a int)');
  await c.query('select pg_advisory_lock($1)', [process.pid]);
  await connected(async (other) => {
    const { rows } = await other.query("select current_setting('timezone') as zone, to_regclass('of_session') as t");
    assert.notEqual(rows[0].zone, 'Asia/Tokyo');
    assert.equal(rows[0].t, null);
    const lock = await other.query('select pg_try_advisory_lock($1) as got', [process.pid]);
    assert.equal(lock.rows[0].got, false);
  });
  for (let i = 0; i < 5; i += 1) {
    const { rows } = await c.query({
      name: 'looks',
      text: "select current_setting('timezone') as zone, current_setting('app.tenant') as tenant, count(*)::int as n from of_session",
    });
    assert.deepEqual(rows, [{ zone: 'Asia/Tokyo', tenant: "it's node", n: i }]);
    await c.query('insert into of_session values (1)');
  }
  await c.query("begin; set timezone = 'Europe/Rome'");
  await c.query('rollback');
  assert.equal((await c.query('show timezone')).rows[0].TimeZone, 'Asia/Tokyo');
  assert.equal((await c.query('select pg_advisory_unlock($1) as freed', [process.pid])).rows[0].freed, true);
  await c.query('discard all');
  assert.equal((await c.query("select to_regclass('of_session') as t")).rows[0].t, null);
}

async function main() {
  await connected((c) => c.query(`create table ${table} (a int, b text)`));
  for (const f of [simpleQueries, parameters, namedStatements, queriesSentWithoutWaiting, errors, cancel, largeResults, notices, rowLimit]) {
    await check(f.name, () => connected(f));
  }
  await check('sameNameInManyConnections', sameNameInManyConnections);
  await check('pool', pool);
  await check('application_name', () =>
    connected(async (c) => {
      assert.equal((await c.query('show application_name')).rows[0].application_name, 'node driver');
    }, { application_name: 'node driver' }),
  );
  if (transactions) {
    await check('inTransaction', () => connected(inTransaction));
  }
  if (sessions) {
    await check('listen', () => connected(listen));
    await check('sessionState', () => connected(sessionState));
  }
  await connected((c) => c.query(`drop table ${table}`));
  if (bindsChannel) {
    await check('every login is bound to its channel', async () => assert.deepEqual([...mechanisms], ['SCRAM-SHA-256-PLUS']));
  }
  console.log(`node: ${passed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}

main();
