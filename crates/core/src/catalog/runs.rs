//! Which objects of a database run which others: what calls a function runs it, and a table runs its triggers. An
//! object has the effects of everything that it runs.

use pgweir_sql::Effects;

/// Kinds of objects that have names or run functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, pgweir_freeze::Freeze)]
pub(super) enum Kind {
    Routine,
    /// Tables and views.
    Relation,
    Type,
    /// A word of a text or a source: it stands for all objects with this word in their names.
    Word,
    /// Operators and casts: they are run without their name in the text.
    Nameless,
    /// Operators that belong to another user than their routine, and to no extension.
    OthersOperator,
    /// All statements that change the catalog: they run event triggers.
    Definition,
    /// All statements that may make tables, if new sessions make them in the schema of temporary objects.
    Creation,
    /// All statements that compute the expressions of indexes and statistics, of tables that they may not name.
    Maintenance,
    /// All statements that may be a TRUNCATE: with CASCADE it fires triggers of tables that it does not name.
    Truncation,
}

/// First words of statements that cause event triggers to run.
const DEFINING: [&str; 10] = [
    "create", "alter", "drop", "grant", "revoke", "comment", "import", "refresh", "reindex", "security",
];

/// First words of statements that compute the expressions of indexes and statistics.
const MAINTAINING: [&str; 5] = ["analyze", "analyse", "vacuum", "reindex", "cluster"];

/// Words of statements that may make tables.
const CREATING: [&str; 3] = ["create", "into", "import"];

/// The words that stand for all statements of a kind.
pub(super) fn words_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Definition => &DEFINING,
        Kind::Creation => &CREATING,
        Kind::Maintenance => &MAINTAINING,
        Kind::Truncation => &["truncate"],
        Kind::Routine | Kind::Relation | Kind::Type | Kind::Word | Kind::Nameless | Kind::OthersOperator => &[],
    }
}

#[derive(Debug, pgweir_freeze::Freeze)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) name: Box<[u8]>,
    /// Effects of statements that mention the object.
    pub(super) read: Effects,
    /// Further effects of statements that write to it.
    pub(super) written: Effects,
    /// The latest body that mentioned it.
    pub(super) mentioned_by: u32,
    /// If it is a routine: the arguments that it uses as names of settings; bit 0 is the first one.
    pub(super) passes: u64,
    /// A routine in C.
    pub(super) in_c: bool,
    /// A routine that is declared immutable.
    pub(super) immutable: bool,
    /// Its result may depend on a setting or the role, also by what it runs.
    pub(super) reads_session: bool,
    /// A routine that may make or change tables.
    pub(super) changes_tables: bool,
}

/// `who` runs `what`.
#[derive(Debug, Clone, Copy, pgweir_freeze::Freeze)]
pub(super) struct Run {
    pub(super) who: u32,
    pub(super) what: u32,
    /// Only when `who` is written to: a trigger.
    pub(super) on_write: bool,
}

/// A place in `nodes` that no object has.
const NOBODY: u32 = u32::MAX;

impl Node {
    pub(super) fn new(kind: Kind) -> Self {
        Node {
            kind,
            name: Box::default(),
            read: Effects::NONE,
            written: Effects::NONE,
            mentioned_by: NOBODY,
            passes: 0,
            in_c: false,
            immutable: false,
            reads_session: false,
            changes_tables: false,
        }
    }
}

/// Puts the pairs into the order that the functions below need.
pub(super) fn sort(runs: &mut [Run]) {
    runs.sort_unstable_by_key(|run| run.what);
}

/// The pairs in which this object is run.
fn runs_of(runs: &[Run], what: u32) -> impl Iterator<Item = &Run> {
    let from = runs.partition_point(|run| run.what < what);
    runs[from..].iter().take_while(move |run| run.what == what)
}

/// Finds the routines that are declared immutable although their result depends on the session: they get
/// [`Effects::FOLDS`]. Returns whether there are any. `runs` are in order.
pub(super) fn find_folding(nodes: &mut [Node], runs: &[Run]) -> bool {
    let reads = |&place: &u32| nodes[place as usize].reads_session;
    let mut news: Vec<u32> = (0..nodes.len() as u32).filter(reads).collect();
    while let Some(place) = news.pop() {
        for run in runs_of(runs, place) {
            let who = &mut nodes[run.who as usize];
            if !who.reads_session {
                who.reads_session = true;
                news.push(run.who);
            }
        }
    }
    let mut any = false;
    for node in nodes.iter_mut().filter(|node| node.immutable && node.reads_session) {
        node.read |= Effects::FOLDS;
        any = true;
    }
    any
}

/// Code with only these effects changes nothing in the session, so it may be missed when it becomes the code of a
/// table.
const ONLY_ASKS: Effects = Effects::TEMPORARY_SCHEMA
    .union(Effects::CURRENT_SETTING)
    .union(Effects::DRAWS)
    .union(Effects::STATEMENTS)
    .union(Effects::NAMES)
    .union(Effects::TRAPS_CANCEL)
    .union(Effects::FOLDS);

/// Adds to each object the effects of what it runs. Each effect is passed on once, so the time is proportional to the
/// number of pairs. `runs` are in order.
pub(super) fn pass_on_effects(nodes: &mut [Node], runs: &[Run]) {
    let has_effects = |node: &Node| !(node.read | node.written).is_empty();
    let mut news: Vec<u32> = (0..nodes.len() as u32)
        .filter(|&place| has_effects(&nodes[place as usize]))
        .collect();
    while let Some(place) = news.pop() {
        let what = &nodes[place as usize];
        let (all, written, in_c) = (what.read, what.written, what.in_c);
        // Only a text that calls the routine by its name also names the setting.
        let read = if all.intersects(Effects::PASSES) {
            all.without(Effects::PASSES) | Effects::UNTOLD
        } else {
            all
        };
        for run in runs_of(runs, place) {
            let who = &mut nodes[run.who as usize];
            let (read, written) = match who.kind {
                _ if run.on_write => (Effects::NONE, read | written),
                Kind::Word => (all, written),
                Kind::Relation => (read, written),
                // The tables that the routine changes may run this object from now on.
                Kind::Routine if who.changes_tables && !(read | written).without(ONLY_ASKS).is_empty() => {
                    (read | written | Effects::DEFINES, Effects::NONE)
                }
                Kind::Routine => (read | written, Effects::NONE),
                // Whoever may call a function can make an operator of it, in C too.
                Kind::OthersOperator => (read | written, Effects::NONE),
                // Every type has functions in C that read and print its values; they are no reason for a pin.
                Kind::Type | Kind::Nameless if in_c => (Effects::NONE, Effects::NONE),
                Kind::Type
                | Kind::Nameless
                | Kind::Definition
                | Kind::Creation
                | Kind::Maintenance
                | Kind::Truncation => ((read | written).without(Effects::NATIVE), Effects::NONE),
            };
            if !who.read.contains(read) || !who.written.contains(written) {
                who.read |= read;
                who.written |= written;
                news.push(run.who);
            }
        }
    }
}
