//! Runs a plant with a limiter, event by event.

use super::judge::Judge;
use super::random::Random;
use super::{Limiter, Phase, Plant};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Seconds between two looks at the weather, the stalls and the phases.
const STEP: f64 = 0.01;
const RESTART_SECONDS: f64 = 1.5;
const WARM_SECONDS: f64 = 3.0;
/// Servers that can be connected in a step: one takes 5 milliseconds.
const LOGINS: u32 = 2;

/// A kind's requests at work, and its clock.
#[derive(Default)]
struct Work {
    clock: f64,
    /// (the clock's value at the end, as bits, which order as the values do; start in microseconds; class)
    ends: BinaryHeap<Reverse<(u64, u64, u32)>>,
}

struct Run<'a> {
    plant: &'a Plant,
    phase: usize,
    late: f64,
    random: Random,
    now: f64,
    work: Vec<Work>,
    queue: VecDeque<u32>,
    /// Clients in the loop.
    clients: u32,
    weather: f64,
    stalled_until: f64,
    restarted_at: Option<f64>,
    active: u32,
    connected: u32,
}

/// Runs `plant` with `limiter` to its end; `seed` decides all that is random.
pub fn run(plant: &Plant, limiter: &mut dyn Limiter, seed: u64) -> Judge {
    let mut judge = Judge::new(plant);
    let mut run = Run::new(plant, seed);
    let (mut next_step, mut next_tick) = (0.0, 0.0);
    while run.now < plant.seconds {
        if run.now >= next_step {
            next_step = run.now + STEP;
            run.look_around(limiter);
            judge.step(run.phase, run.now, STEP, limiter.limit(), run.factor());
        }
        if run.now >= next_tick {
            next_tick = limiter.tick((run.now * 1e6) as u64, run.connected, run.active) as f64 / 1e6;
        }
        run.start(limiter.limit());
        let until = next_step.min(next_tick).max(run.now + 1e-6);
        while let Some((class, service, waited)) = run.complete(until) {
            limiter.completed((run.now * 1e6) as u64, class, (service * 1e6).max(1.0) as u64, waited);
            judge.completed(plant.classes[class as usize].worth);
            run.start(limiter.limit());
        }
    }
    judge
}

impl<'a> Run<'a> {
    fn new(plant: &'a Plant, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let late = if plant.late > 0.0 {
            plant.late * random.unit()
        } else {
            0.0
        };
        Run {
            plant,
            phase: 0,
            late,
            random,
            now: 0.0,
            work: (0..plant.phases[0].kinds.len()).map(|_| Work::default()).collect(),
            queue: VecDeque::new(),
            clients: 0,
            weather: 0.0,
            stalled_until: 0.0,
            restarted_at: None,
            active: 0,
            connected: 0,
        }
    }

    fn phase(&self) -> &Phase {
        &self.plant.phases[self.phase]
    }

    /// Speed of all servers, as a share of the undisturbed one.
    fn factor(&self) -> f64 {
        if self.now < self.stalled_until {
            return 0.0;
        }
        let warm = self.restarted_at.map_or(1.0, |at| {
            let since = self.now - at - RESTART_SECONDS;
            (0.3 + 0.7 * since / WARM_SECONDS).min(1.0)
        });
        self.weather.exp() * warm
    }

    fn look_around(&mut self, limiter: &mut dyn Limiter) {
        let trouble = self.plant.trouble;
        if self
            .plant
            .phases
            .get(self.phase + 1)
            .is_some_and(|next| self.now >= next.from + self.late)
        {
            self.phase += 1;
        }
        let (deviation, lasts) = trouble.weather;
        if deviation > 0.0 {
            let keep = (-STEP / lasts).exp();
            self.weather = self.weather * keep + deviation * (1.0 - keep * keep).sqrt() * self.random.normal();
        }
        if trouble.stalls > 0.0 && self.now >= self.stalled_until && self.random.unit() < STEP / trouble.stalls {
            self.stalled_until = self.now + 0.2 + 1.8 * self.random.unit();
        }
        if trouble.restart > 0.0 && self.now >= trouble.restart && self.restarted_at.is_none() {
            self.restarted_at = Some(self.now);
            self.stalled_until = self.now + RESTART_SECONDS;
            for work in &mut self.work {
                self.queue.extend(work.ends.drain().map(|Reverse((_, _, class))| class));
            }
            (self.active, self.connected) = (0, 0);
            limiter.restarted((self.now * 1e6) as u64);
        }
        if !self.queue.is_empty() && self.now >= self.stalled_until {
            self.connected = (self.connected + LOGINS).min(limiter.limit().max(self.connected));
        }
        while self.clients < self.phase().clients {
            self.clients += 1;
            let class = self.draw();
            self.queue.push_back(class);
        }
    }

    fn draw(&mut self) -> u32 {
        let mix = &self.plant.phases[self.phase].mix;
        let mut at = self.random.unit() * mix.iter().sum::<f64>();
        for (class, part) in mix.iter().enumerate() {
            at -= part;
            if at < 0.0 {
                return class as u32;
            }
        }
        (mix.len() - 1) as u32
    }

    fn start(&mut self, limit: u32) {
        while self.active < limit.min(self.connected)
            && let Some(class) = self.queue.pop_front()
        {
            self.active += 1;
            let of = self.plant.classes[class as usize];
            let demand = of.demand * self.random.factor(self.plant.trouble.noise);
            let work = &mut self.work[of.kind];
            work.ends.push(Reverse((
                (work.clock + demand).to_bits(),
                (self.now * 1e6) as u64,
                class,
            )));
        }
    }

    /// The next completion before `until`: its class, service time, and whether another request waits. None if there is
    /// none; the time has then gone on to `until`.
    fn complete(&mut self, until: f64) -> Option<(u32, f64, bool)> {
        let factor = self.factor();
        let speed = |kind: usize, work: &Work| {
            let servers = work.ends.len() as f64;
            if servers == 0.0 {
                0.0
            } else {
                factor * self.phase().kinds[kind].rate(servers) / servers
            }
        };
        let speeds: [f64; 2] = std::array::from_fn(|kind| self.work.get(kind).map_or(0.0, |w| speed(kind, w)));
        let mut first = (until, None);
        for (kind, work) in self.work.iter().enumerate() {
            if let Some(Reverse((end, ..))) = work.ends.peek()
                && speeds[kind] > 0.0
            {
                let at = self.now + (f64::from_bits(*end) - work.clock).max(0.0) / speeds[kind];
                if at < first.0 {
                    first = (at, Some(kind));
                }
            }
        }
        for (kind, work) in self.work.iter_mut().enumerate() {
            work.clock += (first.0 - self.now) * speeds[kind];
        }
        self.now = first.0;
        let Reverse((_, start, class)) = self.work[first.1?].ends.pop()?;
        self.active -= 1;
        let waited = !self.queue.is_empty();
        if self.clients > self.phase().clients {
            self.clients -= 1;
        } else {
            let class = self.draw();
            self.queue.push_back(class);
        }
        Some((class, self.now - start as f64 / 1e6, waited))
    }
}

/// A limit that stays.
pub struct Fixed(pub u32);

impl Limiter for Fixed {
    fn completed(&mut self, _: u64, _: u32, _: u64, _: bool) {}
    fn tick(&mut self, now_us: u64, _: u32, _: u32) -> u64 {
        now_us + 1_000_000
    }
    fn limit(&self) -> u32 {
        self.0
    }
    fn restarted(&mut self, _: u64) {}
}

/// Worth completed in a second of `phase` with a fixed limit, measured without trouble.
pub fn fixed_rate(plant: &Plant, phase: &Phase, limit: u32) -> f64 {
    let seconds = 60.0;
    let mut run = Run::new(plant, limit.into());
    run.phase = plant.phases.iter().position(|of| std::ptr::eq(of, phase)).unwrap_or(0);
    run.connected = limit;
    let mut worth = 0.0;
    run.look_around(&mut Fixed(limit));
    run.start(limit);
    while let Some((class, ..)) = run.complete(seconds) {
        worth += plant.classes[class as usize].worth;
        run.start(limit);
    }
    worth / seconds
}
