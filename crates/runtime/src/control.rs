//! The control plane: work that may take long runs on a separate thread, and its result is sent to the data plane.

use crate::configuration::ConfigurationFile;
use crate::inbox::{InboxSender, Message};
use pgweir_core::OrderId;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// A request of the data plane.
#[derive(Debug)]
pub(crate) enum ControlRequest {
    /// Read the configuration again.
    Reload {
        /// The file to read: the setting `conffile`.
        file: ConfigurationFile,
        /// The command of the console that asked, or `None` for a signal.
        by: Option<OrderId>,
    },
}

/// The data plane's end of the channel.
#[derive(Debug)]
pub(crate) struct ControlSender(Sender<ControlRequest>);

impl ControlSender {
    pub(crate) fn send(&self, request: ControlRequest) {
        // The thread ends only with the process.
        let _ = self.0.send(request);
    }
}

/// Starts the control thread.
pub(crate) fn start(inbox: InboxSender) -> io::Result<ControlSender> {
    let (sender, requests) = channel();
    thread::Builder::new().name("control".into()).spawn(move || {
        for request in requests {
            match request {
                ControlRequest::Reload { file, by } => {
                    let (outcome, tls) = file.reload();
                    inbox.send(Message::Reloaded { by, outcome, tls });
                }
            }
        }
    })?;
    Ok(ControlSender(sender))
}
