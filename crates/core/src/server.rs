//! A server connection.

use crate::base::close_reason::CloseReason;
use crate::base::ids::ClientId;
use crate::base::pin_reason::Cleanup;
use crate::base::pool_id::PoolId;
use crate::base::reasons::Passing;
use crate::base::request::{Connected, Endpoint};
use crate::base::time::Time;
use crate::state::probe::Probe;
use crate::state::restoration::Restoration;
use crate::state::shape::Shape;
use crate::statements::held::Held;
use crate::statements::unnamed::Unnamed;
use crate::upstream::phase::{Begin, Intake, ServerPhase};
use crate::upstream::reply_queue::ReplyQueue;
use foldhash::fast::RandomState;
use pgweir_sql::Effects;
use pgweir_wire::{CancelKey, HEADER_BYTES, TransactionStatus};
use std::collections::HashSet;
use std::sync::Arc;

/// Names of custom settings kept for one server; what goes beyond them may show.
const CUSTOM_NAMES_MAX: usize = 1024;

/// What may make a setting for the transaction at least.
const MAY_SET_LOCALLY: Effects = Effects::SETTINGS.union(Effects::LOCAL).union(Effects::CODE);

/// One server connection.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) pool: PoolId,
    pub(crate) phase: ServerPhase,
    pub(crate) link: Option<ClientId>,
    pub(crate) endpoint: Endpoint,
    pub(crate) connected: Option<Connected>,
    pub(crate) queue: ReplyQueue,
    pub(crate) passing: Passing,
    /// As of the last ReadyForQuery.
    pub(crate) status: TransactionStatus,
    pub(crate) intake: Intake,
    /// Syncs stand among the data of the copy-in: if it fails, which of them the server had swallowed is not known.
    pub(crate) sync_among_copy_data: bool,
    /// The FATAL message it has sent its client; its end follows.
    pub(crate) fatal: Option<Box<str>>,
    /// A probe whose answer is due.
    pub(crate) probe: Option<Box<Probe>>,
    /// A step of moving channels has failed (see [`crate::flow::handover`]); its ReadyForQuery follows.
    pub(crate) move_failed: bool,
    /// The catalog it is reading to the pooler.
    pub(crate) reading: Option<Box<crate::catalog::schedule::Reading>>,
    /// What was sent to it may make something that runs code.
    pub(crate) defines: bool,
    /// What must be done before another client gets it.
    pub(crate) cleanup: Cleanup,
    /// Who had it last.
    pub(crate) last_client: Option<ClientId>,
    /// Which of that client's visits it was: where the client has been elsewhere since, what is left here of it is old.
    pub(crate) last_visit: u32,
    /// Its present client had another server before.
    pub(crate) visited_anew: bool,
    /// What it remembers of sequences may be someone else's than its client's, or older than what the client has drawn
    /// elsewhere. It ends only with the server's word.
    pub(crate) stranger: bool,
    /// It has been told to forget what was drawn from sequences, and has not confirmed it.
    pub(crate) forgets_sequences: bool,
    /// It is left to its last client for what that has drawn from sequences: see [`crate::session::sequences`].
    pub(crate) claimed: bool,
    /// Custom settings that sessions have made or tried to make there: since then they are empty there instead of unknown.
    pub(crate) custom_names: HashSet<Box<str>, RandomState>,
    /// The segment of restored settings at the front of the queue; its ParameterStatus are not the client's.
    pub(crate) restoration: Option<Box<Restoration>>,
    /// What it looks like, by its own word.
    pub(crate) shape: Arc<Shape>,
    /// Something that may change settings was sent, and the ReadyForQuery that reports them has not come.
    pub(crate) settings_in_doubt: bool,
    /// The present transaction may have made a setting that no ReadyForQuery reports before it ends: SET LOCAL, code, or a
    /// setting that is never reported. What is parsed under it is not shared.
    pub(crate) local_in_doubt: bool,
    /// What it looked like after its login: what RESET returns to.
    pub(crate) base: Arc<Shape>,
    pub(crate) held: Held,
    /// Whose statements it may know by the client's own names.
    pub(crate) lends_to: Option<ClientId>,
    /// It has a schema for temporary objects since a client made some: see [`crate::preparing::replanning`].
    pub(crate) temporary_schema: bool,
    /// In session pooling: its client did what only the end of the connection undoes.
    pub(crate) leaves_traces: bool,
    pub(crate) unnamed: Unnamed,
    pub(crate) cancel_key: Option<CancelKey>,
    /// Cancel requests on their way to it.
    pub(crate) cancels_in_flight: u32,
    /// A deferred BEGIN that was sent to it.
    pub(crate) begin: Begin,
    /// The numbers of the pooler's latest segments behind a savepoint of its own: what fails in them fails nothing of the
    /// client's, see [`crate::preparing::own_names`].
    pub(crate) guarded: std::ops::Range<u64>,
    /// The number of the latest segment in which DISCARD ALL has run: it has taken effect though the segment fails.
    pub(crate) discarded_in: Option<u64>,
    /// The segment that its client wants cancelled, when the server gets to it.
    pub(crate) cancel_wanted: Option<u64>,
    /// The connections that have asked for the cancels above. They are closed when the signal has been sent.
    pub(crate) cancelled_by: Vec<ClientId>,
    /// Close it instead of giving it back: RECONNECT, a changed configuration, its lifetime, an eviction.
    pub(crate) close_reason: Option<CloseReason>,
    /// A Query came between an Execute and its Sync: in PostgreSQL 18 an implicit transaction block may be open until the
    /// client's next Sync, which no Sync of ours may end. It is closed when its client is done.
    pub(crate) queried_in_pipeline: bool,
    /// Close it at this age.
    pub(crate) expires: Time,
    /// Whether a client has had it.
    pub(crate) has_served: bool,
    /// It has told what it looks like, or need not.
    pub(crate) introduced: bool,
    pub(crate) connect_time: Time,
    /// When it entered its present phase.
    pub(crate) since: Time,
    /// When the query it runs began; the time limits count from it.
    pub(crate) request_time: Time,
    /// When it last answered ReadyForQuery.
    pub(crate) ready_time: Time,
    /// When it was first seen to have answered everything of a segment that its client has not ended. It means something
    /// only where it is later than `request_time`.
    pub(crate) quiet_since: Time,
}

impl Server {
    /// A server whose socket is being opened. `shape` is what nothing is known of.
    pub(crate) fn new(now: Time, pool: PoolId, endpoint: Endpoint, shape: Arc<Shape>, expires: Time) -> Self {
        Server {
            pool,
            phase: ServerPhase::Connecting,
            link: None,
            endpoint,
            connected: None,
            queue: ReplyQueue::default(),
            passing: Passing::None,
            status: TransactionStatus::Idle,
            intake: Intake::Requests,
            sync_among_copy_data: false,
            settings_in_doubt: false,
            local_in_doubt: false,
            fatal: None,
            probe: None,
            move_failed: false,
            reading: None,
            defines: false,
            cleanup: Cleanup::Nothing,
            last_client: None,
            last_visit: 0,
            visited_anew: false,
            stranger: false,
            forgets_sequences: false,
            claimed: false,
            custom_names: Default::default(),
            restoration: None,
            base: shape.clone(),
            shape,
            held: Held::new(),
            lends_to: None,
            temporary_schema: false,
            leaves_traces: false,
            unnamed: Unnamed::Nothing,
            cancel_key: None,
            cancels_in_flight: 0,
            begin: Begin::Settled,
            guarded: 0..0,
            discarded_in: None,
            cancel_wanted: None,
            cancelled_by: Vec::new(),
            close_reason: None,
            queried_in_pipeline: false,
            expires,
            has_served: false,
            introduced: false,
            connect_time: now,
            since: now,
            request_time: now,
            ready_time: now,
            quiet_since: now,
        }
    }

    /// Nothing is owed and no transaction is open.
    pub(crate) fn is_clean(&self) -> bool {
        self.queue.is_empty()
            && !self.queue.segment_open()
            && self.status == TransactionStatus::Idle
            && self.intake == Intake::Requests
            && self.passing == Passing::None
            // Its end follows, and its client's.
            && self.fatal.is_none()
    }

    /// Whether what its client sends next must wait for answers. A cancel that is meant for what was sent before could hit
    /// it, or what the pooler sends in front of it; behind a deferred BEGIN that fails it would run outside its transaction.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.cancels_in_flight > 0
            || match self.begin {
                Begin::Settled => false,
                Begin::Owed => !self.queue.segment_open(),
                Begin::Refused => true,
            }
    }

    /// Whether a deferred BEGIN has been sent without its Sync, and nothing of its client's behind it.
    pub(crate) fn is_beginning(&self) -> bool {
        self.queue.segment_open() && self.only_begins()
    }

    /// Whether it is in a copy that its client has not ended, or may come to be in one. Outside of copies it ignores their
    /// messages.
    pub(crate) fn may_copy(&self) -> bool {
        matches!(self.intake, Intake::CopyIn | Intake::CopyBoth) || self.queue.may_copy()
    }

    /// Whether a deferred BEGIN is all that it has been asked.
    pub(crate) fn only_begins(&self) -> bool {
        self.begin == Begin::Owed && self.queue.all_ours()
    }

    /// Whether it works on a segment of the pooler's that stands behind a savepoint.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guarded.contains(&self.queue.segments_answered())
    }

    /// Whether its client is in the midst of a segment, and the server reads it as such.
    #[inline]
    pub(crate) fn is_in_segment(&self) -> bool {
        !self.queue.is_empty() && !matches!(self.intake, Intake::ToSync | Intake::CopyIn)
    }

    /// Whether a ReadyForQuery that ends a request of the client's says nothing to anybody else.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        matches!(self.phase, ServerPhase::Linked) && self.cancel_wanted.is_none() && self.begin == Begin::Settled
    }

    /// Whether a message is nothing but a part of the reply to a request of the linked client's, or the end of one that has
    /// succeeded. Nearly all messages are: rows, and the replies to requests that change nothing in the session. `false` means
    /// nothing.
    #[inline]
    pub(crate) fn passes_plainly(&mut self, tag: u8, message: &[u8], whole: bool) -> bool {
        self.link.is_some()
            && match tag {
                b'C' => whole && self.completes_plainly(message.get(HEADER_BYTES).copied()),
                _ => self.queue.passes_plainly(tag),
            }
    }

    /// CommandComplete whose command tag begins with this letter. DELETE, too, is not plain, for the sake of DEALLOCATE and
    /// DISCARD.
    #[inline]
    fn completes_plainly(&mut self, letter: Option<u8>) -> bool {
        if matches!(letter, None | Some(b'B' | b'C' | b'D' | b'R')) || !self.queue.completes_command() {
            return false;
        }
        self.held.committed = false;
        self.sync_among_copy_data = false;
        true
    }

    /// Something with these effects is about to run.
    #[inline]
    pub(crate) fn may_set(&mut self, effects: Effects) {
        self.settings_in_doubt |= effects.intersects(Effects::SETTINGS);
        self.local_in_doubt |= effects.intersects(MAY_SET_LOCALLY);
    }

    /// Whether a cancel may go out though it could hit a deferred BEGIN: what is sent already must not run outside the
    /// transaction then. PostgreSQL does not say that it has begun before it says more.
    pub(crate) fn may_cancel_begin(&self) -> bool {
        self.begin != Begin::Owed || self.queue.is_one_whole_segment()
    }

    /// Whether an answer that is due tells settings: what a Parse would be parsed under is not known before.
    pub(crate) fn awaits_settings(&self) -> bool {
        self.intake != Intake::CopyIn && (self.settings_in_doubt || self.probe.as_ref().is_some_and(|p| p.settings))
    }

    /// Whether this client had it last and has had no other since.
    #[inline]
    pub(crate) fn was_last_visited_by(&self, id: ClientId, visits: u32) -> bool {
        self.last_client == Some(id) && self.last_visit == visits
    }

    /// Whether its lifetime is over. With a lifetime of zero, which means "use once", it must have been used.
    pub(crate) fn is_expired(&self, now: Time) -> bool {
        self.expires <= now && (self.has_served || self.expires > self.connect_time)
    }

    /// Whether it may show something of sessions that it has served before.
    #[inline]
    pub(crate) fn has_traces(&self) -> bool {
        self.temporary_schema || !self.custom_names.is_empty()
    }

    /// A session on it names a custom setting that it makes.
    pub(crate) fn note_custom_setting(&mut self, name: &str) {
        if !self.custom_names.contains(name) && self.custom_names.len() < CUSTOM_NAMES_MAX {
            self.custom_names.insert(name.into());
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, ServerPhase::Idle)
    }
}
