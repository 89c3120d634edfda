//! The machine's memory over the time of the measurement.

use super::memory::SystemMemory;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(500);

/// Moments that are kept; of more, every second one goes.
const MOMENTS_MAX: usize = 600;

/// Memory at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Moment {
    /// Since the beginning.
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) memory: SystemMemory,
}

/// Recorded by a thread from `start` to `stop`; one that was never started is empty.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    started: Option<Instant>,
    moments: Arc<Mutex<Vec<Moment>>>,
    /// What happened when, seconds since the beginning.
    pub(super) notes: Vec<(f64, String)>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Timeline {
    pub(super) fn start() -> Self {
        let started = Instant::now();
        let mut timeline = Timeline::default();
        timeline.started = Some(started);
        let (moments, stop) = (Arc::clone(&timeline.moments), Arc::clone(&timeline.stop));
        timeline.thread = Some(thread::spawn(move || {
            let mut interval = INTERVAL;
            while !stop.load(Ordering::Relaxed) {
                if let Some(memory) = SystemMemory::now() {
                    let seconds = started.elapsed().as_secs_f64();
                    let mut moments = moments.lock().expect("no thread panics");
                    moments.push(Moment { seconds, memory });
                    if moments.len() > MOMENTS_MAX {
                        interval *= 2;
                        thin(&mut moments);
                    }
                }
                thread::park_timeout(interval);
            }
        }));
        timeline
    }

    /// Notes what happens now.
    pub(super) fn note(&mut self, what: String) {
        if let Some(started) = self.started {
            self.notes.push((started.elapsed().as_secs_f64(), what));
        }
    }

    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }

    pub(super) fn moments(&self) -> Vec<Moment> {
        self.moments.lock().expect("no thread panics").clone()
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        self.stop();
    }
}

fn thin(moments: &mut Vec<Moment>) {
    let mut index = 0;
    moments.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}
