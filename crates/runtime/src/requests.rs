//! Carrying out the core's requests.

use crate::control::ControlRequest;
use crate::event_loop::EventLoop;
use crate::settings::Settings;
use pgweir_core::Request;

impl EventLoop {
    /// Carries out one request. If this leads to another `handle_*` call, that call's outbox is written before this
    /// returns, and its requests are added to the core's queue.
    pub(crate) fn do_request(&mut self, request: Request) {
        match request {
            Request::Connect { server, endpoint } => self.connect(server, endpoint),
            Request::Cancel { server, key } => self.cancel(server, &key),
            Request::ReadBeforeCancel { client, by } => self.read_before_cancel(client, by),
            Request::PassOn {
                peer,
                by,
                endpoint,
                sslmode,
                key,
            } => self.pass_on(peer, by, &endpoint, sslmode, &key),
            Request::SecureClient { client, direct } => self.secure_client(client, direct),
            Request::SecureServer { server, host, direct } => self.secure_server(server, &host, direct),
            Request::Close(id) => self.close(id),
            Request::Abort(id) => self.abort(id),
            Request::Resume(id) => self.resume(id),
            Request::Verify { asker, question } => {
                if let Some(origin) = self.connections.origin(asker) {
                    let connections = &mut self.connections;
                    let asked = self
                        .verifier
                        .ask(asker, origin, *question, |asker| connections.get(asker).is_some());
                    self.watch_question(asked);
                }
            }
            Request::Log { level, text } => self.log.write(level, &text),
            Request::Status(text) => self.service_manager.status(&text),
            Request::Reload { by } => {
                // Log rotation moves the file away and then sends SIGHUP.
                self.log.reopen();
                self.service_manager.reloading();
                self.reloads_under_way += 1;
                let file = self.settings.file.clone();
                self.control.send(ControlRequest::Reload { file, by });
            }
            Request::Configure(config) => {
                self.use_settings(Settings::of(&config));
                if let Some(tls) = self.read_tls.take() {
                    self.tls = tls;
                }
            }
            Request::TryTls(change) => self.try_tls(*change),
            Request::StopListening => self.accepting.stop_tcp(self.poll.registry()),
            Request::Exit => {
                self.accepting.stop();
                self.exit();
            }
        }
    }
}
