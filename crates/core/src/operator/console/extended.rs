//! The extended protocol on the console: Parse, Bind, Describe, Execute, Close.

use crate::base::ids::ClientId;
use crate::base::time::Time;
use crate::console::portals::{Batch, Execute, Execution};
use crate::console::refusal::Refusal;
use crate::operator::console::actions::Done;
use crate::pooler::Pooler;
use pgweir_wire::{FrontendTag, Writer};

impl Pooler {
    pub(super) fn console_extended(&mut self, now: Time, id: ClientId, tag: FrontendTag, body: &[u8]) {
        let console = self.console_mut(id);
        console.begin_extended();
        let outcome = match tag {
            FrontendTag::Execute => self.console_execute(now, id, body),
            _ => console.portals.handle(tag, body).map(|reply| {
                self.shared.outbox.insert(id.into(), |to| to.extend_from_slice(&reply));
                None
            }),
        };
        match outcome {
            Ok(Some(done)) => self.console_done(now, id, done),
            Ok(None) => {}
            Err(refusal) => {
                self.console_refuses(id, &refusal);
                if let Some(console) = self.console(id) {
                    console.ignore_to_sync();
                }
            }
        }
    }

    /// Runs a portal, or returns more of its rows; `None` if the portal is suspended.
    fn console_execute(&mut self, now: Time, id: ClientId, body: &[u8]) -> Result<Option<Done>, Refusal> {
        let execute = Execute::read(body)?;
        if let Execution::Run(command, formats) = self.console_mut(id).portals.execute(&execute.portal)? {
            let mut reply = Vec::new();
            let done = self.console_command(now, id, &command, &formats, &mut reply)?;
            if command.columns().is_none() {
                self.shared.outbox.insert(id.into(), |to| to.extend_from_slice(&reply));
                return Ok(Some(done));
            }
            self.console_mut(id).portals.keep_rows(&execute.portal, reply);
        }
        let batch = self.console_mut(id).portals.next_rows(&execute)?;
        self.shared.outbox.insert(id.into(), |to| match &batch {
            Batch::Last(rows) => to.extend_from_slice(rows),
            Batch::More(rows) => {
                to.extend_from_slice(rows);
                Writer::new(to).empty(b's');
            }
        });
        let is_over = matches!(batch, Batch::Last(_));
        Ok(is_over.then(|| Done::Tag("SHOW".into())))
    }
}
