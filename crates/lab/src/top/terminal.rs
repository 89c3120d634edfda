//! The terminal: a screen of its own and single keys while it is watched, and everything as it was before afterwards.

use super::page::{Line, Style};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{self, Read, Write};
use std::time::Duration;

/// The alternate screen, no cursor, no wrapping of long lines; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Supposed where the terminal does not tell its size.
const SIZE: (usize, usize) = (80, 24);

/// A terminal that is watched. Dropped, it is as it was before, also when a panic unwinds.
#[derive(Debug)]
pub(super) struct Terminal {
    /// How the keyboard was set; None if the standard input is no terminal.
    saved: Option<Termios>,
    has_colours: bool,
    has_keys: bool,
    entered: bool,
}

impl Terminal {
    /// Takes the terminal. Ctrl-C and Ctrl-Z are keys from now on.
    pub(super) fn enter(has_colours: bool) -> io::Result<Self> {
        let keyboard = io::stdin();
        let is_keyboard = isatty(&keyboard);
        let saved = if is_keyboard { Some(tcgetattr(&keyboard)?) } else { None };
        let mut terminal = Terminal {
            saved,
            has_colours,
            has_keys: is_keyboard,
            entered: false,
        };
        terminal.take()?;
        Ok(terminal)
    }

    /// Takes it again after [`Terminal::leave`].
    pub(super) fn take(&mut self) -> io::Result<()> {
        // From here on dropping it restores it.
        self.entered = true;
        if let Some(saved) = &self.saved {
            let mut keys = saved.clone();
            keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
            keys.input_modes -= InputModes::IXON;
            keys.special_codes[SpecialCodeIndex::VMIN] = 1;
            keys.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &keys)?;
        }
        write(ENTER)
    }

    /// Gives it back as it was.
    pub(super) fn leave(&mut self) {
        if !std::mem::take(&mut self.entered) {
            return;
        }
        // Where the terminal has gone there is nothing to restore.
        let _ = write(LEAVE);
        if let Some(saved) = &self.saved {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, saved);
        }
    }

    /// Shows the lines, and `last` at the bottom.
    pub(super) fn draw(&self, lines: &[Line], last: &str) -> io::Result<()> {
        let (width, height) = size();
        let mut text = String::from("\x1b[H");
        for line in lines.iter().take(height.saturating_sub(1)) {
            let (on, off) = self.looks(line.style);
            // A heading is a bar over the whole width.
            let padded = match line.style {
                Style::Heading if self.has_colours => format!("{:<width$}", line.text),
                _ => line.text.clone(),
            };
            text.push_str(&format!("{on}{padded}{off}\x1b[K\r\n"));
        }
        text.push_str(&format!("\x1b[J\x1b[{height};1H{last}\x1b[K"));
        write(&text)
    }

    fn looks(&self, style: Style) -> (&'static str, &'static str) {
        match style {
            _ if !self.has_colours => ("", ""),
            Style::Plain => ("", ""),
            Style::Title => ("\x1b[1m", "\x1b[0m"),
            Style::Heading => ("\x1b[7m", "\x1b[0m"),
            Style::Warning => ("\x1b[33m", "\x1b[0m"),
        }
    }

    /// The keys that were pressed; waits for one for at most this time.
    pub(super) fn keys(&mut self, wait: Duration) -> io::Result<Vec<u8>> {
        if !self.has_keys {
            std::thread::sleep(wait);
            return Ok(Vec::new());
        }
        let timeout = Timespec::try_from(wait).map_err(|_| io::ErrorKind::InvalidInput)?;
        let keyboard = io::stdin();
        let mut asked = [PollFd::new(&keyboard, PollFlags::IN)];
        match poll(&mut asked, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let mut keys = [0; 64];
        match keyboard.lock().read(&mut keys) {
            // The keyboard has gone.
            Ok(0) => self.has_keys = false,
            Ok(count) => return Ok(keys[..count].to_vec()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        Ok(Vec::new())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Columns and lines of the standard output.
pub(super) fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => SIZE,
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}
