//! What a seed decides about a flood.

use crate::random::Random;
use pgweir_wire::Writer;

/// What a client sends again and again. `{i}` in a text stands for the number of the repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Parse,
    ParseNamed,
    Bind,
    BindNamed,
    Describe,
    Execute,
    CloseNamed,
    Sync,
    Flush,
    Query(&'static str),
}

/// Parts of the extended protocol.
const EXTENDED: [Part; 9] = [
    Part::Parse,
    Part::ParseNamed,
    Part::Bind,
    Part::Bind,
    Part::BindNamed,
    Part::Describe,
    Part::Execute,
    Part::CloseNamed,
    Part::Flush,
];

/// Statements that leave something behind, that end it, or that fail.
const TEXTS: [&str; 18] = [
    "select 1",
    "begin",
    "commit",
    "set app.s{i} = 'x'",
    "set local app.s{i} = 'x'",
    "reset app.s{i}",
    "set application_name = 'a{i}'",
    "prepare p{i} as select 1",
    "deallocate p{i}",
    "execute p{i}",
    "listen c{i}",
    "notify c{i}",
    "unlisten c{i}",
    "declare c{i} cursor with hold for select 1",
    "create temp table t{i} (a int)",
    "savepoint s{i}",
    "select pg_advisory_lock({i})",
    "selekt {i}",
];

/// Pieces of which one long text consists.
const PIECES: [&str; 18] = [
    "deallocate p{i};",
    "select {i};",
    "set app.s{i} = 'x';",
    "prepare q{i} as select 1;",
    "execute p{i};",
    "listen c{i};",
    "begin;",
    "(",
    "a.",
    "'x' ",
    "\"",
    "$${i}",
    "/*",
    "--\n",
    "select f{i}(",
    "case when {i} then ",
    "with w{i} as (select 1) ",
    "do $$begin execute 'set app.s{i} = 1'; end$$;",
];

/// Several times the same.
#[derive(Debug)]
enum Phase {
    /// These messages, again and again.
    Cycle(Vec<Part>),
    /// One Query or Parse whose text consists of this piece, again and again.
    Text { piece: &'static str, parses: bool },
}

/// What a seed decides.
#[derive(Debug)]
pub(super) struct Plan {
    phases: Vec<Phase>,
    /// Each repetition comes from another client; otherwise all come from one.
    pub(super) from_each: bool,
    /// Each client has a database of its own.
    pub(super) own_databases: bool,
    /// So many bytes come together.
    pub(super) read_bytes: usize,
    /// The server answers after all has come, and not at once.
    pub(super) answers_late: bool,
    pool_mode: &'static str,
    session_state: &'static str,
    statements_max: u64,
    servers: u64,
    depth: u64,
    /// Settings by which the pools of several databases share a limit. It is far below the number of databases.
    shared_limit: &'static str,
}

/// See [`Plan::shared_limit`].
const SHARED_LIMITS: [&str; 3] = [
    "",
    "max_user_connections = 3",
    "default_pool_size = auto\npool_size_max = 3",
];

/// A piece of a text is no message: so many count as a repetition.
const PIECES_PER_REPETITION: usize = 8;

/// What the runtime reads at once.
const READ_BYTES: usize = 64 << 10;

/// A long text is handled while it comes, a shorter one when it is whole. With fewer bytes at a time, the calls for the
/// long one would cost more than what is measured.
const TEXT_READ_BYTES_MIN: usize = 50;

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut r = Random::new(seed ^ 0xf100_d000);
        let mut phases: Vec<Phase> = (0..r.between(1, 2)).map(|_| some_phase(&mut r)).collect();
        // A long text names what was made before.
        if r.percent(20) {
            let (made, ends) = *r.pick(&[
                ("prepare p{i} as select 1", 0),
                ("set app.s{i} = 'x'", 2),
                ("listen c{i}", 5),
            ]);
            let ends = if r.percent(50) { PIECES[ends] } else { PIECES[4] };
            let (piece, parses) = (ends, false);
            phases = vec![Phase::Cycle(vec![Part::Query(made)]), Phase::Text { piece, parses }];
        }
        // Behind a text that is too long to be read, messages cost more than behind a shorter one.
        phases.sort_by_key(|phase| matches!(phase, Phase::Text { .. }));
        let is_text = phases.iter().any(|phase| matches!(phase, Phase::Text { .. }));
        let from_each = !is_text && r.percent(25);
        let few = *r.pick(&[1, 7, 50, 1000]);
        let mut plan = Plan {
            phases,
            from_each,
            own_databases: from_each && r.percent(30),
            read_bytes: match r.percent(40) {
                true if is_text => few.max(TEXT_READ_BYTES_MIN),
                true => few,
                false => READ_BYTES,
            },
            answers_late: r.percent(60),
            pool_mode: one_of(&mut r, &["transaction", "transaction", "transaction", "session"]),
            session_state: one_of(&mut r, &["full", "full", "pgbouncer"]),
            statements_max: *r.pick(&[0, 10, 200, 200]),
            servers: r.between(1, 2),
            depth: *r.pick(&[1, 16]),
            shared_limit: "",
        };
        if plan.own_databases {
            plan.shared_limit = one_of(&mut r, &SHARED_LIMITS);
        }
        plan
    }

    /// What the client with this number sends, in a flood of so many repetitions.
    pub(super) fn bytes_of(&self, client: usize, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let numbers = if self.from_each { client..client + 1 } else { 0..count };
        for phase in &self.phases {
            match phase {
                Phase::Cycle(parts) => {
                    for number in numbers.clone() {
                        parts.iter().for_each(|part| part.write(&mut bytes, number));
                    }
                    Writer::new(&mut bytes).sync();
                }
                Phase::Text { piece, parses } => {
                    let text: String = (0..count * PIECES_PER_REPETITION)
                        .map(|number| numbered(piece, number))
                        .collect();
                    let mut w = Writer::new(&mut bytes);
                    match parses {
                        true => w.parse(b"long", text.as_bytes(), &[0, 0]),
                        false => w.query(text.as_bytes()),
                    }
                    w.sync();
                }
            }
        }
        bytes
    }

    pub(super) fn ini(&self) -> String {
        format!(
            "[databases]\n* = host=127.0.0.1 port=5432\n[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\n\
             auth_file = users\npool_mode = {}\nsession_state = {}\nserver_tls_sslmode = disable\nquery_wait_timeout = 0\n\
             max_client_conn = 100000\ndefault_pool_size = {}\nmax_prepared_statements = {}\npipeline_depth = {}\n\
             log_connections = 0\nlog_disconnections = 0\nlog_pooler_errors = 0\n{}\n",
            self.pool_mode, self.session_state, self.servers, self.statements_max, self.depth, self.shared_limit
        )
    }
}

fn some_phase(r: &mut Random) -> Phase {
    if r.percent(25) {
        return Phase::Text {
            piece: one_of(r, &PIECES),
            parses: r.percent(40),
        };
    }
    let extends = r.percent(50);
    let mut parts: Vec<Part> = (0..r.between(1, 4))
        .map(|_| match extends {
            true => *r.pick(&EXTENDED),
            false => Part::Query(one_of(r, &TEXTS)),
        })
        .collect();
    if r.percent(60) {
        parts.push(Part::Sync);
    }
    Phase::Cycle(parts)
}

fn one_of(r: &mut Random, list: &[&'static str]) -> &'static str {
    list[r.below(list.len() as u64) as usize]
}

fn numbered(text: &str, number: usize) -> String {
    text.replace("{i}", &number.to_string())
}

impl Part {
    fn write(self, bytes: &mut Vec<u8>, number: usize) {
        let name = format!("s{number}");
        let mut w = Writer::new(bytes);
        match self {
            Part::Parse => w.parse(b"", b"select 1", &[0, 0]),
            Part::ParseNamed => w.parse(name.as_bytes(), format!("select {number}").as_bytes(), &[0, 0]),
            Part::Bind => w.bind_text(b"", &[]),
            Part::BindNamed => w.bind_text(name.as_bytes(), &[]),
            Part::Describe => w.describe(b'P', b""),
            Part::Execute => w.execute(),
            Part::CloseNamed => w.close(b'S', name.as_bytes()),
            Part::Sync => w.sync(),
            Part::Flush => w.flush(),
            Part::Query(text) => w.query(numbered(text, number).as_bytes()),
        }
    }
}
