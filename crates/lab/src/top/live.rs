//! The live view: looks and keys in, pages out.

use super::look::{Clients, Console, Look};
use super::page::{Frame, KEYS, help, page};
use super::table::cut;
use super::terminal::{Terminal, size};
use super::view::{Order, View};
use super::watching::{Heard, Watching};
use crate::Result;
use crate::interrupt::Interrupt;
use crate::server::Server;
use rustix::process::{Signal, kill_current_process_group};
use std::time::{Duration, Instant};

/// The longest time until a signal, a look or a new size of the terminal is noticed.
const WAIT: Duration = Duration::from_millis(50);

/// After so many intervals without an answer the page says so.
const SILENT_INTERVALS: u32 = 3;

/// After a signal that stops the process all of its threads stand still within this time.
const STOPPED_WITHIN: Duration = Duration::from_millis(50);

const CTRL_C: u8 = 3;
const CTRL_L: u8 = 12;
const CTRL_Z: u8 = 26;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Quit,
    /// To be stopped, as by Ctrl-Z everywhere else.
    Stop,
    /// Another page, or the same again.
    Draw,
    Nothing,
}

/// What is seen.
#[derive(Debug)]
struct Screen {
    place: String,
    version: String,
    interval: Duration,
    order: Order,
    shows_clients: bool,
    shows_help: bool,
    /// The looks that were the latest ones when the view was paused.
    paused: Option<(Option<Look>, Option<Look>)>,
    before: Option<Look>,
    now: Option<Look>,
    lost: Option<String>,
    heard_at: Instant,
}

/// Watches until the user quits.
pub(super) fn watch(
    server: &Server,
    console: Console,
    (interval, order, shows_clients): (Duration, Order, bool),
) -> Result<()> {
    let about = (super::place(server), console.version.clone());
    let mut screen = Screen::new(about, (interval, order, shows_clients));
    let interrupt = Interrupt::install()?;
    let watching = Watching::begin(server.clone(), console, interval, shows_clients);
    let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut terminal = Terminal::enter(has_colours)?;
    let mut drawn = None;
    loop {
        interrupt.check()?;
        for heard in watching.heard() {
            screen.hear(heard);
            drawn = None;
        }
        let present = (size(), screen.silence());
        if drawn != Some(present) {
            screen.draw(&terminal, present.0)?;
            drawn = Some(present);
        }
        for key in terminal.keys(WAIT)? {
            match screen.press(key) {
                Wish::Quit => return Ok(()),
                Wish::Stop => stop(&mut terminal)?,
                Wish::Draw => {}
                Wish::Nothing => continue,
            }
            watching.ask_for_clients(screen.shows_clients);
            drawn = None;
        }
    }
}

/// Stops the process with the terminal as it was, and goes on when the shell says so.
fn stop(terminal: &mut Terminal) -> Result<()> {
    terminal.leave();
    kill_current_process_group(Signal::TSTP).map_err(std::io::Error::from)?;
    // The signal may stop another thread first, and this one a moment later.
    std::thread::sleep(STOPPED_WITHIN);
    Ok(terminal.take()?)
}

impl Screen {
    /// Nothing has been heard yet.
    fn new((place, version): (String, String), (interval, order, shows_clients): (Duration, Order, bool)) -> Screen {
        Screen {
            place,
            version,
            interval,
            order,
            shows_clients,
            shows_help: false,
            paused: None,
            before: None,
            now: None,
            lost: None,
            heard_at: Instant::now(),
        }
    }

    fn hear(&mut self, heard: Heard) {
        self.heard_at = Instant::now();
        match heard {
            Heard::Look(look, version) => {
                self.version = version;
                self.before = self.now.take();
                self.now = Some(*look);
                self.lost = None;
            }
            Heard::Lost(why) => self.lost = Some(why),
        }
    }

    /// Whole seconds without an answer, once they are noticeable.
    fn silence(&self) -> Option<u64> {
        let silent = self.heard_at.elapsed();
        let noticeable = (self.interval * SILENT_INTERVALS).max(Duration::from_secs(3));
        (silent >= noticeable).then_some(silent.as_secs())
    }

    fn press(&mut self, key: u8) -> Wish {
        if key == CTRL_C {
            return Wish::Quit;
        }
        if key == CTRL_Z {
            return Wish::Stop;
        }
        if std::mem::take(&mut self.shows_help) && key != b'q' {
            return Wish::Draw;
        }
        match key {
            b'q' | b'Q' => return Wish::Quit,
            b'h' | b'?' => self.shows_help = true,
            b's' => self.order = self.order.next(),
            b'c' => self.shows_clients = !self.shows_clients,
            b'p' | b' ' => {
                self.paused = match self.paused {
                    None => Some((self.before.clone(), self.now.clone())),
                    Some(_) => None,
                }
            }
            CTRL_L => {}
            _ => return Wish::Nothing,
        }
        Wish::Draw
    }

    fn draw(&self, terminal: &Terminal, (width, height): (usize, usize)) -> Result<()> {
        let frame = Frame {
            width: Some(width),
            // The last line has the keys.
            height: Some(height.saturating_sub(1)),
            title: format!("pgweir top: {}  {}", self.place, self.version),
            message: self.message(),
        };
        let page = match self.shows_help {
            true => help(&frame),
            false => page(&self.view(), &frame),
        };
        let keys = format!("{KEYS}   order: {}", self.order.word());
        Ok(terminal.draw(&page, &cut(&keys, width))?)
    }

    fn view(&self) -> View {
        let (before, now) = match &self.paused {
            Some((before, now)) => (before, now),
            None => (&self.before, &self.now),
        };
        let mut view = now
            .as_ref()
            .map(|now| View::new(before.as_ref(), now, self.order))
            .unwrap_or_default();
        if !self.shows_clients {
            view.clients = Clients::NotAsked;
        }
        view
    }

    fn message(&self) -> Option<String> {
        let waits_for_clients = || {
            let now = self.now.as_ref()?;
            (self.shows_clients && now.clients == Clients::NotAsked).then(|| "asking for the clients".to_owned())
        };
        match (&self.lost, self.silence()) {
            (Some(why), _) => Some(format!("connection lost, trying again: {why}")),
            (None, Some(seconds)) => Some(format!("no answer for {seconds} s")),
            (None, None) if self.paused.is_some() => Some("the view is paused: p goes on".to_owned()),
            (None, None) => waits_for_clients(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen() -> Screen {
        let about = ("127.0.0.1:6432".to_owned(), "pgweir 0.1.0".to_owned());
        Screen::new(about, (Duration::from_secs(1), Order::Waiting, false))
    }

    fn look(clock: &str) -> Heard {
        let look = Look {
            clock: clock.to_owned(),
            ..Look::default()
        };
        Heard::Look(Box::new(look), "pgweir 0.1.0".to_owned())
    }

    #[test]
    fn a_paused_view_stays() {
        let mut screen = screen();
        screen.hear(look("first"));
        assert_eq!(screen.press(b'p'), Wish::Draw);
        screen.hear(look("second"));
        assert_eq!(screen.view().clock, "first");
        assert!(screen.message().is_some_and(|message| message.contains("paused")));
        screen.press(b'p');
        assert_eq!((&*screen.view().clock, screen.message()), ("second", None));
    }

    #[test]
    fn a_lost_connection_is_told_until_the_next_look() {
        let mut screen = screen();
        screen.hear(look("first"));
        screen.hear(Heard::Lost("refused".to_owned()));
        assert!(
            screen
                .message()
                .is_some_and(|message| message.ends_with("trying again: refused"))
        );
        assert_eq!(screen.view().clock, "first");
        screen.hear(look("second"));
        assert_eq!(screen.message(), None);
    }

    #[test]
    fn keys() {
        let mut screen = screen();
        assert_eq!(screen.press(b'x'), Wish::Nothing);
        assert_eq!((screen.press(b'?'), screen.shows_help), (Wish::Draw, true));
        assert_eq!(
            (screen.press(b's'), screen.shows_help, screen.order),
            (Wish::Draw, false, Order::Waiting)
        );
        assert_eq!((screen.press(b's'), screen.order), (Wish::Draw, Order::Tps));
        assert_eq!(
            (screen.press(CTRL_Z), screen.press(CTRL_C), screen.press(b'q')),
            (Wish::Stop, Wish::Quit, Wish::Quit)
        );
    }
}
