//! Repaired defects that can be brought back, to prove that the simulation finds each of them.
//!
//! A weakness can be switched on only if the crate is built with the feature `weaknesses`, which only the
//! simulation uses. Without the feature `is_weak()` is `false` at compile time.

/// A defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weakness {
    /// A client's statement is sent behind the restored settings, before the server has confirmed these.
    SharesUnconfirmed,
    /// If a server refuses a client's settings after the client has left, the settings count as set.
    TrustsAbandoned,
    /// If a server refuses one of two segments of restored settings, it is taken to have rolled back both.
    TrustsHalves,
    /// An unnamed statement that was parsed behind a SET is prepared again as if it stood before the SET.
    ReadsUnnamedAnew,
    /// A cancel is passed on even while the server works on an internal query.
    CancelsQuestions,
    /// A probe is sent while a cancel is on its way.
    AsksUnderCancel,
    /// The connection of a CancelRequest is closed before the server has got the request, so the client may send
    /// its next message.
    ClosesCancelEarly,
    /// A failed probe is not sent again, and the client loses the settings that it has set.
    ForgetsFailedProbe,
    /// RESET ROLE is taken to mean no role, although a server may log in with one.
    ForgetsDefaultRole,
    /// If a client leaves before a probe is answered, its server is not cleaned.
    TrustsUnanswered,
    /// Settings are restored under the time limits of the session.
    HurriesRestorations,
    /// If another client's cancel hits a client's flight on the server that they share, the client is told that its
    /// transaction was cancelled.
    TellsWhatOthersCancel,
    /// A Query is sent to a server that works for others, whatever the Query does.
    SharesAnything,
    /// A flight that finds a free server is shared, whatever the objects that it mentions do.
    TrustsFirstFlights,
    /// If a server is lost, the clients whose flights it had not begun are forgotten.
    ForgetsRiders,
    /// If a server is lost, the flights behind the first one count as not begun, and run again elsewhere.
    RunsBegunAgain,
    /// A client that cancels its flight, which stands behind others, gets the error at once, although the server will
    /// run the flight.
    RefusesRiders,
    /// A DEALLOCATE without a command tag, because the commit behind it has failed, counts as not run.
    TrustsCommandTags,
    /// The core is given a message again whenever another piece of it has come.
    LooksAtEachPiece,
    /// For each message of a client, all its requests that are not answered yet are counted.
    CountsReplies,
    /// For each server that logs in, the pools of all databases are looked at.
    LooksAtAllPools,
    /// Clients are not charged for the servers that they use.
    ForgetsToCharge,
    /// The client that came last gets the next server.
    ServesNewestFirst,
    /// When a client leaves, the first of its unanswered segments is cancelled, and those behind run without it.
    CancelsAmongSegments,
    /// A running text keeps the verdict that it got when it was sent, although code is changed meanwhile.
    TrustsRunningTexts,
    /// A definition is sent although flights stand behind others, which may run what it replaces.
    PublishesAmongFlights,
    /// What one server of a database tells of its code counts for its standbys, too, although they have not replayed it.
    TrustsReplicas,
    /// Statements are shared by clients with different roles, if their search_path does not name the role.
    SharesAcrossRoles,
    /// Settings that no probe shows are not reset after code that is not read.
    KeepsUnknownSettings,
    /// Code that is not read counts as harmless.
    TrustsCode,
    /// The texts of long messages are not read.
    TrustsLongTexts,
    /// A new server is not asked for the settings that `connect_query` has made.
    ForgetsConnectQuery,
    /// A server that refuses the first question counts as the console of a pooler, whatever the error.
    TakesErrorsForConsoles,
    /// A client that knows the name of an internal statement is trusted not to use it.
    TrustsNames,
    /// Servers do not discard what other clients have drawn from sequences.
    TellsOthersValues,
    /// A client gets a server before its message is complete.
    TakesServerEarly,
    /// The setting `seed` is treated like any other setting.
    TrustsSeeds,
    /// A cancel request that has not ended in time counts as over.
    TrustsLateCancels,
    /// If a client leaves without a Sync, what it has begun is committed.
    CommitsForTheGone,
    /// The plans of functions stay when the settings change under which their constants were read.
    KeepsPlans,
    /// The plans of functions stay when a client makes a temporary table that they do not find.
    OverlooksTemporary,
    /// The pooler's own answers come inside a message of which the client has got the beginning.
    AnswersInsideMessages,
    /// If an EXECUTE runs a statement that is an EXECUTE itself, only what the text of the second one shows counts.
    TrustsNested,
    /// The effects of a text that a server has refused count as if it had run.
    PinsForRefused,
    /// If a statement is prepared again, the server infers the types of its parameters again.
    ForgetsTypes,
    /// An idle server keeps the idle_session_timeout of its last client.
    KeepsIdleLimits,
    /// Each entry of \[databases\] has a catalog of its own, even if another one leads to the same database.
    SeparatesEntries,
    /// Statements that are not tracked stay on the server for its next client.
    LeavesUntracked,
    /// A server goes on to the next client behind a Query in a pipeline, which leaves PostgreSQL 18 out of step.
    TrustsPipelines,
    /// A Parse is answered from a held copy, even if types or names may have changed since.
    AnswersStale,
    /// Describe of an EXECUTE does not lend the executed statement to the server.
    DescribesUnlent,
    /// A Bind lends names before it waits for what else must come first, and again whenever it is looked at.
    LendsBeforeWaits,
    /// Forgets that a portal reads `pg_prepared_statements` after its Bind.
    ListsAtBind,
    /// pg_cancel_backend() and pg_terminate_backend() act on the clients of other users, too.
    SignalsAnyone,
    /// Connections that have not logged in do not count.
    ForgetsStrangers,
    /// Users in `stats_users` see values and statements of clients.
    TellsWatchers,
    /// A process that takes over does not apply its own configuration to what the earlier one has left.
    KeepsOldServers,
    /// A process that takes over does not open the connections that the earlier one was opening.
    ForgetsAttempts,
}

/// Internal work on a server, which the simulation may disturb.
#[cfg(feature = "weaknesses")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InternalWork {
    /// A client's settings are being restored.
    Restoration,
    /// A probe is being answered.
    Probe,
}

impl Weakness {
    /// All defects that the simulation must find.
    pub const ALL: [Weakness; 58] = [
        Weakness::SharesUnconfirmed,
        Weakness::TrustsAbandoned,
        Weakness::TrustsHalves,
        Weakness::ReadsUnnamedAnew,
        Weakness::CancelsQuestions,
        Weakness::AsksUnderCancel,
        Weakness::ForgetsFailedProbe,
        Weakness::ClosesCancelEarly,
        Weakness::ForgetsDefaultRole,
        Weakness::TrustsUnanswered,
        Weakness::HurriesRestorations,
        Weakness::TellsWhatOthersCancel,
        Weakness::SharesAnything,
        Weakness::TrustsFirstFlights,
        Weakness::ForgetsRiders,
        Weakness::RunsBegunAgain,
        Weakness::RefusesRiders,
        Weakness::TrustsCommandTags,
        Weakness::LooksAtEachPiece,
        Weakness::CountsReplies,
        Weakness::LooksAtAllPools,
        Weakness::ForgetsToCharge,
        Weakness::ServesNewestFirst,
        Weakness::CancelsAmongSegments,
        Weakness::TrustsRunningTexts,
        Weakness::PublishesAmongFlights,
        Weakness::TrustsReplicas,
        Weakness::SharesAcrossRoles,
        Weakness::KeepsUnknownSettings,
        Weakness::TrustsCode,
        Weakness::TrustsLongTexts,
        Weakness::ForgetsConnectQuery,
        Weakness::TakesErrorsForConsoles,
        Weakness::TrustsNames,
        Weakness::TellsOthersValues,
        Weakness::TakesServerEarly,
        Weakness::TrustsSeeds,
        Weakness::KeepsPlans,
        Weakness::OverlooksTemporary,
        Weakness::AnswersInsideMessages,
        Weakness::CommitsForTheGone,
        Weakness::TrustsLateCancels,
        Weakness::TrustsNested,
        Weakness::PinsForRefused,
        Weakness::ForgetsTypes,
        Weakness::KeepsIdleLimits,
        Weakness::SeparatesEntries,
        Weakness::LeavesUntracked,
        Weakness::TrustsPipelines,
        Weakness::AnswersStale,
        Weakness::DescribesUnlent,
        Weakness::LendsBeforeWaits,
        Weakness::ListsAtBind,
        Weakness::SignalsAnyone,
        Weakness::ForgetsStrangers,
        Weakness::TellsWatchers,
        Weakness::KeepsOldServers,
        Weakness::ForgetsAttempts,
    ];
}
