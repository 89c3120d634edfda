//! The experiments: which limit is in force for how long.
//!
//! Time is cut into windows. A window at the *base*, the limit found so far, is followed by one at another limit (a
//! *probe*) if one is worth trying, then by one at the base again, and so on. A pause after each change of the limit
//! lets the requests of the old limit end. `evidence` says what a window is good for and what follows from it, `choice`
//! which limit is tried next.

mod anew;
mod choice;
mod evidence;

use crate::Bounds;
use crate::ladder::Ladder;
use crate::map::Map;
use crate::meter::Meter;
use crate::noise::Noise;
use crate::step::{Reason, Step, Steps};
use evidence::Use;

/// Completions of equal cost that a window should have.
const COMPLETIONS: f64 = 25.0;
/// A probe with this many completions ends early if it is slower than this share of the base's speed.
const HOPELESS_COMPLETIONS: f64 = 8.0;
const HOPELESS_SPEED: f64 = 0.5;
const WINDOW_SECONDS_MIN: f64 = 0.05;
/// Shortest pause after the limit has changed.
const PAUSE_SECONDS_MIN: f64 = 0.01;
/// Longest pause, and longest planned window; a window with too few completions stays open for up to twice as long.
const PLANNED_SECONDS_MAX: f64 = 2.0;
/// How many times as long as the requests that make up the work a pause and a window last.
const PAUSE_SERVICES: f64 = 1.25;
const WINDOW_SERVICES: f64 = 2.0;
/// The servers stand still if no request has completed for this long: in seconds, and in usual times between two.
const GAP_SECONDS: f64 = 0.1;
const GAP_SPACINGS: f64 = 10.0;
/// This many windows after a step are put down to the new limit alone, not to the workload: a wrong step shows at once.
const PROBATION: u32 = 2;
/// Servers that have just been connected are slow at first: their caches are empty.
const WARMING_SECONDS: f64 = 0.25;
/// How long a limit waits for its servers to be connected.
const CONNECTING_US: u64 = 2_000_000;
/// How long a limit that is tried waits for the requests above it to end.
const DRAINING_US: u64 = 1_000_000;
/// How long it is remembered that a limit could not be put in force.
const UNREACHABLE_US: u64 = 30_000_000;

/// A defect that the tests can ask for, to prove that they would find it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
pub enum Weakness {
    /// Takes less work for more.
    SignTurned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, pgweir_freeze::Freeze)]
enum Doing {
    /// The limit has been raised, clients wait, and servers are being connected for them.
    Connecting { since_us: u64 },
    /// The limit has just changed; requests of the old limit are still at work.
    Settling { since_us: u64 },
    /// A window is open.
    Measuring { since_us: u64 },
}

/// The latest figures of the workload at a limit; 0 is unknown.
#[derive(Debug, Clone, Copy, Default, pgweir_freeze::Freeze)]
struct Pace {
    /// How long the requests last that make up the work, in seconds.
    service: f64,
    /// Completions of equal cost per second.
    speed: f64,
}

/// Finds the limit on servers at work.
#[derive(Debug, Clone, pgweir_freeze::Freeze)]
pub struct Controller {
    ladder: Ladder,
    map: Map,
    meter: Meter,
    noise: Noise,
    steps: Steps,
    weakness: Option<Weakness>,
    held: bool,
    start: u32,
    /// The rung found so far, and the one in force: equal unless another one is being tried.
    base: usize,
    at: usize,
    doing: Doing,
    due_us: u64,
    /// The pace at the limit in force, and at the base.
    pace: Pace,
    base_pace: Pace,
    /// Seconds from a change of the limit to the next window.
    pause: f64,
    /// When the last window that was of use ended.
    measured_us: u64,
    /// When each rung was last measured.
    tried_us: Vec<u64>,
    /// Windows in a row in which the workload looked changed.
    surprises: u32,
    /// Windows at a new base that must still confirm the step.
    probation: u32,
    /// Windows at the base that have shown nothing since the latest one that has shown something.
    unseen: u32,
    /// Windows in a row in which the servers stood still for a while.
    stalls: u32,
    /// A rung whose last probe contradicted what is known of it, and is to be repeated.
    odd: Option<usize>,
    /// Probes that are still allowed although nobody waits.
    checks: u32,
    /// Slowness and active servers when the limit was last known to be good.
    usual: (f64, f64),
    /// Servers that could be connected, and until when that is believed.
    reach: u32,
    reach_until_us: u64,
    /// Servers that work on long requests, which a lower limit cannot stop, and until when that is believed.
    floor: u32,
    floor_until_us: u64,
    /// Servers that are connected, and those that work.
    connected: u32,
    working: u32,
}

impl Controller {
    /// A controller that begins at the limit `start`.
    pub fn new(bounds: Bounds, start: u32, now_us: u64) -> Self {
        let ladder = Ladder::new(bounds);
        let base = ladder.at_most(start);
        Controller {
            map: Map::new((0..ladder.len()).map(|rung| ladder.position(rung)).collect()),
            tried_us: vec![now_us; ladder.len()],
            ladder,
            meter: Meter::new(now_us),
            noise: Noise::default(),
            steps: Steps::new(),
            weakness: None,
            held: false,
            start,
            base,
            at: base,
            doing: Doing::Connecting { since_us: now_us },
            due_us: now_us,
            pace: Pace::default(),
            base_pace: Pace::default(),
            pause: PAUSE_SECONDS_MIN,
            measured_us: now_us,
            surprises: 0,
            probation: 0,
            unseen: 0,
            stalls: 0,
            odd: None,
            checks: 0,
            usual: (0.0, 0.0),
            reach: u32::MAX,
            reach_until_us: 0,
            floor: 0,
            floor_until_us: 0,
            connected: 0,
            working: 0,
        }
    }

    #[doc(hidden)]
    pub fn with_weakness(self, weakness: Weakness) -> Self {
        Controller {
            weakness: Some(weakness),
            ..self
        }
    }

    /// A request has been completed after `service_us` at a server. `class` groups requests of about equal cost;
    /// `waited` says that another request, not of the same client, was waiting for a server at this moment.
    pub fn completed(&mut self, now_us: u64, class: u32, service_us: u64, waited: bool) {
        self.meter.completed(now_us, class, service_us, waited);
    }

    /// Servers that may have a request outstanding now.
    pub fn limit(&self) -> u32 {
        self.ladder.limit(self.at)
    }

    /// The limit found so far; [`Controller::limit`] differs from it while another one is tried.
    pub fn settled(&self) -> u32 {
        self.ladder.limit(self.base)
    }

    /// When [`Controller::tick`] is to be called next: some 10 to 30 times in a second. Later does no harm.
    pub fn due_us(&self) -> u64 {
        self.due_us
    }

    /// The latest steps, oldest first.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> {
        self.steps.iter()
    }

    /// Stops all experiments and keeps the limit, or goes on.
    pub fn hold(&mut self, held: bool, now_us: u64) {
        self.held = held;
        self.go(self.base, now_us);
    }

    /// Whether the limit is held.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Does what is due; `connected` servers are connected, and `working` of them have a request outstanding. Returns a
    /// step if one was taken. [`Controller::limit`] and [`Controller::due_us`] may have changed in any case.
    pub fn tick(&mut self, now_us: u64, connected: u32, working: u32) -> Option<Step> {
        (self.connected, self.working) = (connected, working);
        if now_us < self.due_us {
            return None;
        }
        if self.held {
            self.due_us = now_us + 1_000_000;
            return None;
        }
        match self.doing {
            Doing::Connecting { since_us } => {
                self.connect(since_us, now_us);
                None
            }
            Doing::Settling { since_us } => {
                self.drain(since_us, now_us);
                None
            }
            Doing::Measuring { since_us } if self.goes_on(since_us, now_us) => {
                self.due_us = now_us + micros(WINDOW_SECONDS_MIN);
                None
            }
            Doing::Measuring { since_us } => self.close(since_us, now_us),
        }
    }

    fn connect(&mut self, since_us: u64, now_us: u64) {
        if self.connected >= self.limit().min(self.reach) || !self.meter.somebody_waits() {
            self.pause = self.pause.max(WARMING_SECONDS);
            self.settle(now_us);
        } else if now_us < since_us.saturating_add(CONNECTING_US) {
            self.due_us = now_us + micros(PAUSE_SECONDS_MIN);
        } else {
            (self.reach, self.reach_until_us) = (self.connected.max(1), now_us + UNREACHABLE_US);
            if self.at == self.base {
                self.settle(now_us)
            } else {
                self.go(self.base, now_us)
            }
        }
    }

    /// Opens the window when no more servers work than the limit allows.
    fn drain(&mut self, since_us: u64, now_us: u64) {
        if self.working <= self.limit() || self.at == self.base {
            self.open(now_us);
        } else if now_us < since_us.saturating_add(DRAINING_US) {
            self.due_us = now_us + micros(PAUSE_SECONDS_MIN);
        } else {
            (self.floor, self.floor_until_us) = (self.working, now_us + UNREACHABLE_US);
            self.go(self.base, now_us);
        }
    }

    fn settle(&mut self, now_us: u64) {
        self.doing = Doing::Settling { since_us: now_us };
        self.due_us = now_us + micros(self.pause);
    }

    fn open(&mut self, now_us: u64) {
        self.meter.begin(now_us);
        self.doing = Doing::Measuring { since_us: now_us };
        self.due_us = now_us + micros(self.window_seconds());
    }

    /// How long a window at the present pace should be.
    fn window_seconds(&self) -> f64 {
        let enough = if self.pace.speed > 0.0 {
            COMPLETIONS / self.pace.speed
        } else {
            0.0
        };
        enough
            .max(WINDOW_SERVICES * self.pace.service)
            .clamp(WINDOW_SECONDS_MIN, PLANNED_SECONDS_MAX)
    }

    /// Whether the window stays open: it has too few completions to say something, and may still get more.
    fn goes_on(&self, since_us: u64, now_us: u64) -> bool {
        let (completions, probing) = (self.meter.effective(), self.at != self.base);
        let open = now_us.saturating_sub(since_us) as f64 / 1e6;
        let (silence, hiccup) = (self.meter.silence(now_us), GAP_SPACINGS * open / completions.max(1.0));
        if open >= 2.0 * PLANNED_SECONDS_MAX || probing && silence > GAP_SECONDS.max(hiccup) {
            return false;
        }
        let slow = completions / open < HOPELESS_SPEED * self.base_pace.speed;
        // A window does not end in a silence that may be the beginning of a stall.
        silence > hiccup
            || completions
                < if probing && slow {
                    HOPELESS_COMPLETIONS
                } else {
                    COMPLETIONS
                }
    }

    fn close(&mut self, since_us: u64, now_us: u64) -> Option<Step> {
        let Some(window) = self.meter.end(now_us) else {
            return self.learn_nothing_came(since_us, now_us);
        };
        match self.use_of(&window) {
            Use::Queued | Use::Check => self.learn(&window, now_us),
            Use::Nothing => {
                self.rest(now_us);
                None
            }
        }
    }

    /// A window has shown nothing: goes back to the base. Time goes by, but what is known and suspected stays.
    fn rest(&mut self, now_us: u64) {
        self.noise.interrupt();
        if self.at == self.base {
            self.unseen = self.unseen.saturating_add(1);
        } else {
            self.odd = None;
        }
        self.go(self.base, now_us);
    }

    fn step_to(&mut self, to: usize, reason: Reason, now_us: u64) -> Step {
        let step = Step {
            at_us: now_us,
            from: self.settled(),
            to: self.ladder.limit(to),
            reason,
        };
        if to != self.base {
            self.probation = PROBATION;
        }
        (self.base, self.odd, self.base_pace) = (to, None, self.pace);
        self.steps.push(step);
        step
    }

    /// Puts the limit of rung `to` in force, and opens a window: after a pause if the limit has changed.
    fn go(&mut self, to: usize, now_us: u64) {
        if to == self.at && matches!(self.doing, Doing::Measuring { .. }) {
            return self.open(now_us);
        }
        let ratio = f64::from(self.ladder.limit(to)) / f64::from(self.limit());
        let before = self.pace.service;
        if to == self.base && self.base_pace.service > 0.0 {
            self.pace = self.base_pace;
        } else {
            // At worst requests take longer in proportion to the servers at work.
            self.pace.service *= ratio.max(1.0);
        }
        // If the limit is lowered, the requests above it end first.
        let pause = before * (1.0 - ratio).max(0.0) + PAUSE_SERVICES * self.pace.service;
        let pause = pause.min(PAUSE_SERVICES * before.max(self.pace.service));
        self.pause = pause.clamp(PAUSE_SECONDS_MIN, PLANNED_SECONDS_MAX);
        self.at = to;
        if now_us >= self.reach_until_us {
            self.reach = u32::MAX;
        }
        if now_us >= self.floor_until_us {
            self.floor = 0;
        }
        if self.connected < self.limit().min(self.reach) {
            self.doing = Doing::Connecting { since_us: now_us };
            self.due_us = now_us + micros(PAUSE_SECONDS_MIN);
        } else {
            self.settle(now_us);
        }
    }
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}
