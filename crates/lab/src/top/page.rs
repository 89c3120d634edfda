//! The page: what is shown as lines of text. Pure: nothing here knows of a terminal.

use super::look::{CLIENTS_MAX, Clients, Pool};
use super::table::{Column, cut, harmless, lines};
use super::view::{Database, Rates, View, waited_us};
use crate::console::{Row, text};
use pgweir_maths::number_words;

/// A line, and how it looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) style: Style,
}

/// How a line looks where the terminal can show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    /// What stands above all.
    Title,
    /// The names of columns.
    Heading,
    /// Clients wait there, or something is wrong.
    Warning,
}

/// Where the page goes.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    /// None: as wide, as high as it is.
    pub(super) width: Option<usize>,
    pub(super) height: Option<usize>,
    /// `127.0.0.1:6432  PgBouncer 1.26.1`
    pub(super) title: String,
    /// What the user must know, such as a lost connection.
    pub(super) message: Option<String>,
}

/// What is not known yet, or never happened.
const NOTHING: &str = "-";

const POOL_COLUMNS: [Column; 14] = [
    Column::name("DATABASE", 100),
    Column::name("USER", 85),
    Column::name("MODE", 20),
    Column::number("CL_ACTIVE", 70),
    Column::number("CL_WAIT", 95),
    Column::number("CL_IDLE", 50),
    Column::number("SV_ACTIVE", 75),
    Column::number("SV_IDLE", 55),
    Column::number("MAXWAIT_MS", 80),
    Column::number("TPS", 90),
    Column::number("QUERIES/S", 40),
    Column::number("XACT_MS", 30),
    Column::number("QUERY_MS", 65),
    Column::number("WAIT_MS", 60),
];

/// The columns of SHOW SIZING with their names there.
const SIZING_COLUMNS: [(&str, Column); 13] = [
    ("host", Column::name("SIZING OF HOST", 100)),
    ("sizing", Column::name("SIZING", 60)),
    ("limit", Column::number("LIMIT", 95)),
    ("settled", Column::number("SETTLED", 85)),
    ("working", Column::number("WORKING", 90)),
    ("long", Column::number("LONG", 40)),
    ("held", Column::number("HELD", 70)),
    ("idle", Column::number("IDLE", 50)),
    ("opening", Column::number("OPENING", 45)),
    ("waiting", Column::number("WAITING", 80)),
    ("pools", Column::number("POOLS", 20)),
    ("servers_max", Column::number("MAX", 30)),
    ("per_second", Column::number("PER_SECOND", 65)),
];

const CLIENT_COLUMNS: [Column; 8] = [
    Column::name("CLIENT", 40),
    Column::name("DATABASE", 100),
    Column::name("USER", 90),
    Column::name("STATE", 95),
    Column::number("WAIT_MS", 80),
    Column::name("REQUEST SINCE", 70),
    Column::name("ADDRESS", 60),
    Column::name("APPLICATION", 85),
];

/// The whole page; not more lines than the frame has.
pub(super) fn page(view: &View, frame: &Frame) -> Vec<Line> {
    let mut page = header(view, frame);
    let height = frame.height.unwrap_or(usize::MAX);
    let sizings = sizings(view, frame.width);
    if !sizings.is_empty() {
        page.push(plain(String::new()));
        // However many hosts there are, pools are more important.
        page.extend(fitted(sizings, height / 3));
    }
    page.push(plain(String::new()));
    let room = height.saturating_sub(page.len());
    page.extend(match &view.clients {
        Clients::NotAsked => fitted(pools(&view.databases, frame.width), room),
        Clients::TooMany(count) => vec![plain(format!(
            "{count} clients: more than {CLIENTS_MAX} are not asked for, because the pooler would be busy with that"
        ))],
        Clients::Rows(rows) => fitted(clients(rows, frame.width), room),
    });
    page.truncate(height);
    for line in &mut page {
        line.text = cut(&line.text, frame.width.unwrap_or(usize::MAX));
    }
    page
}

/// The keys, for the last line and the help.
pub(super) const KEYS: &str = "q quit   h help   s order   c clients   p pause";

/// What the columns and keys mean.
pub(super) fn help(frame: &Frame) -> Vec<Line> {
    let text = include_str!("help.txt");
    let mut page: Vec<Line> = text.lines().map(|line| plain(line.to_owned())).collect();
    page.truncate(frame.height.unwrap_or(usize::MAX));
    for line in &mut page {
        line.text = cut(&line.text, frame.width.unwrap_or(usize::MAX));
    }
    page
}

fn plain(text: String) -> Line {
    let style = Style::Plain;
    Line { text, style }
}

/// The first lines: the console, and all pools together.
fn header(view: &View, frame: &Frame) -> Vec<Line> {
    let mut title = format!("{}  {}", harmless(&frame.title), view.clock);
    if !view.stopped.is_empty() {
        title.push_str(&format!("  {}", harmless(&view.stopped.join(", ")).to_uppercase()));
    }
    let mut header = vec![Line {
        text: title,
        style: Style::Title,
    }];
    // A sentence is no table: none of its words is cut off.
    let message = frame.message.as_deref().map(harmless).unwrap_or_default();
    header.extend(wrapped(&message, frame.width.unwrap_or(usize::MAX)).map(|text| {
        let style = Style::Warning;
        Line { text, style }
    }));
    header.push(plain(rates_words(view.rates.as_ref())));
    let all = &view.together;
    let first = match all.waiting {
        0 => String::new(),
        _ => format!(" (the first for {} ms)", ms(Some(all.wait_longest_us as f64))),
    };
    header.push(Line {
        text: format!(
            "clients: {} active, {} waiting{first}, {} idle; servers: {} active, {} idle, {} other",
            whole(all.clients_active),
            whole(all.waiting),
            whole(all.clients_idle),
            whole(all.servers_active),
            whole(all.servers_idle),
            whole(all.servers_other),
        ),
        style: style_of(all),
    });
    header
}

/// The words in lines of at most this width.
fn wrapped(text: &str, width: usize) -> impl Iterator<Item = String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter()
}

fn rates_words(rates: Option<&Rates>) -> String {
    let Some(rates) = rates else {
        return "TPS -".to_owned();
    };
    format!(
        "TPS {}, queries/s {}; server time {} ms a query, {:.1} servers at work; waits {} ms; in {} kB/s, out {} kB/s",
        number_words(rates.transactions.round()),
        number_words(rates.queries.round()),
        ms(rates.query_us),
        rates.working,
        ms(rates.wait_us),
        number_words((rates.received_bytes / 1000.0).round()),
        number_words((rates.sent_bytes / 1000.0).round()),
    )
}

/// Each host, and below it the last step to another limit.
fn sizings(view: &View, width: Option<usize>) -> Vec<Line> {
    if view.sizings.is_empty() {
        return Vec::new();
    }
    let columns = SIZING_COLUMNS.map(|(_, column)| column);
    let cells = |row: &Row| SIZING_COLUMNS.map(|(name, _)| harmless(&text(row, name))).to_vec();
    let rows: Vec<Vec<String>> = view.sizings.iter().map(cells).collect();
    let mut lines = lines(&columns, &rows, width).into_iter();
    let mut page: Vec<Line> = lines.next().map(heading).into_iter().collect();
    for (line, row) in lines.zip(&view.sizings) {
        page.push(plain(line));
        let (step, reason) = (text(row, "last_step"), text(row, "reason"));
        page.push(plain(match &*step {
            "" => "    no step yet".to_owned(),
            step => format!("    last step {}: {}", harmless(step), harmless(&reason)),
        }));
    }
    page
}

fn heading(text: String) -> Line {
    let style = Style::Heading;
    Line { text, style }
}

/// One line for a database with one pool; otherwise one for the database and, set in, one for each of its pools.
fn pools(databases: &[Database], width: Option<usize>) -> Vec<Line> {
    let (mut rows, mut styles) = (Vec::new(), Vec::new());
    for database in databases {
        let together = database.together();
        let rates = database.rates.as_ref();
        styles.push(style_of(&together));
        if let [pool] = &*database.pools {
            rows.push(cells(&database.name, &pool.user, &pool.mode, pool, Some(rates)));
            continue;
        }
        let users = format!("({} users)", database.pools.len());
        rows.push(cells(&database.name, &users, "", &together, Some(rates)));
        for pool in &database.pools {
            let name = format!("  {}", database.name);
            rows.push(cells(&name, &pool.user, &pool.mode, pool, None));
            styles.push(style_of(pool));
        }
    }
    let mut lines = lines(&POOL_COLUMNS, &rows, width).into_iter();
    let mut page: Vec<Line> = lines.next().map(heading).into_iter().collect();
    page.extend(lines.zip(styles).map(|(text, style)| Line { text, style }));
    page
}

/// The row of a pool. `rates`: those of its database; None where they are shown in another row.
fn cells(database: &str, user: &str, mode: &str, pool: &Pool, rates: Option<Option<&Rates>>) -> Vec<String> {
    let rate = |of: fn(&Rates) -> String| match rates {
        None => String::new(),
        Some(None) => NOTHING.to_owned(),
        Some(Some(rates)) => of(rates),
    };
    vec![
        harmless(database),
        harmless(user),
        harmless(mode),
        whole(pool.clients_active),
        whole(pool.waiting),
        whole(pool.clients_idle),
        whole(pool.servers_active),
        whole(pool.servers_idle),
        ms(Some(pool.wait_longest_us as f64)),
        rate(|r| number_words(r.transactions.round())),
        rate(|r| number_words(r.queries.round())),
        rate(|r| ms(r.transaction_us)),
        rate(|r| ms(r.query_us)),
        rate(|r| ms(r.wait_us)),
    ]
}

fn style_of(pool: &Pool) -> Style {
    match pool.waiting {
        0 => Style::Plain,
        _ => Style::Warning,
    }
}

fn clients(rows: &[Row], width: Option<usize>) -> Vec<Line> {
    let cells = |row: &Row| {
        let cell = |name: &str| harmless(&text(row, name));
        let waits = text(row, "state") == "waiting";
        vec![
            // Only newer versions have an id, for KILL_CLIENT.
            Some(cell("id"))
                .filter(|id| !id.is_empty())
                .unwrap_or_else(|| cell("ptr")),
            cell("database"),
            cell("user"),
            cell("state"),
            if waits {
                ms(Some(waited_us(row) as f64))
            } else {
                NOTHING.to_owned()
            },
            cell("request_time"),
            format!("{}:{}", cell("addr"), cell("port")),
            cell("application_name"),
        ]
    };
    let all: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let mut lines = lines(&CLIENT_COLUMNS, &all, width).into_iter();
    let mut page: Vec<Line> = lines.next().map(heading).into_iter().collect();
    let style = |row: &Row| {
        if text(row, "state") == "waiting" {
            Style::Warning
        } else {
            Style::Plain
        }
    };
    page.extend(lines.zip(rows).map(|(text, row)| Line {
        text,
        style: style(row),
    }));
    page
}

/// The first lines, and how many more there are.
fn fitted(mut lines: Vec<Line>, height: usize) -> Vec<Line> {
    if lines.len() > height {
        let shown = height.saturating_sub(1);
        let more = lines.len() - shown;
        lines.truncate(shown);
        lines.push(plain(format!("... {more} more")));
    }
    lines
}

fn whole(number: u64) -> String {
    number_words(number as f64)
}

/// Milliseconds with as many decimals as mean something.
fn ms(us: Option<f64>) -> String {
    let Some(us) = us else {
        return NOTHING.to_owned();
    };
    match us / 1000.0 {
        0.0 => "0".to_owned(),
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => number_words(ms.round()),
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
