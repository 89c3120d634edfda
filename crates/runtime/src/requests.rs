//! What the core asks for, done.

use crate::control::ControlRequest;
use crate::event_loop::EventLoop;
use crate::settings::Settings;
use pgweir_core::Request;

impl EventLoop {
    /// Does one thing. Where that leads to another `handle_*` call, its outbox is written before this returns, and
    /// its requests stand in the core's queue behind those already there.
    pub(crate) fn do_request(&mut self, request: Request) {
        match request {
            Request::Connect { server, endpoint } => self.connect(server, endpoint),
            Request::Cancel { server, key } => self.cancel(server, &key),
            Request::Close(id) => self.close(id),
            Request::Resume(id) => self.resume(id),
            Request::Log { level, text } => self.log.write(level, &text),
            Request::Reload { by } => {
                // Log rotation moves the file away, then sends SIGHUP.
                self.log.reopen();
                self.control.send(ControlRequest::Reload { by });
            }
            Request::Configure(config) => self.use_settings(Settings::of(&config)),
            Request::StopListening => self.accepting.stop(),
            Request::Exit => self.exit(),
        }
    }
}
