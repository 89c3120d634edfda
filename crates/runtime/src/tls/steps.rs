//! One step of rustls at a time, for both roles.

use rustls::Error;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

/// What to do after a step of rustls.
pub(super) enum Step {
    Again,
    NeedsInput,
    Over,
}

/// Does what rustls asks for. Also returns the number of input bytes that it has used.
pub(super) fn advance<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    into: &mut [u8],
    filled: &mut usize,
    out: &mut Vec<u8>,
) -> (usize, Result<Step, Error>) {
    let mut discard = status.discard;
    let step = match status.state {
        Err(e) => Err(e),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                None => break Ok(Step::Again),
                Some(Err(e)) => break Err(e),
                Some(Ok(record)) => {
                    discard += record.discard;
                    // The payload is never longer than its records, for which there was room.
                    into[*filled..*filled + record.payload.len()].copy_from_slice(record.payload);
                    *filled += record.payload.len();
                }
            }
        },
        Ok(state) => Ok(answer(state, out)),
    };
    (discard, step)
}

/// States of rustls that bring no plain bytes.
fn answer<Data>(state: ConnectionState<'_, '_, Data>, out: &mut Vec<u8>) -> Step {
    match state {
        ConnectionState::EncodeTlsData(mut data) => {
            if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                let start = out.len();
                out.resize(start + size.required_size, 0);
                let _ = data.encode(&mut out[start..]);
            }
            Step::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Step::Again
        }
        ConnectionState::PeerClosed | ConnectionState::Closed => Step::Over,
        _ => Step::NeedsInput,
    }
}

/// Writes as soon as rustls is ready. Also returns the number of input bytes that it has used.
pub(super) fn write<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Vec<u8>,
    room: usize,
    plain: Option<&[u8]>,
) -> (usize, Step) {
    let step = status
        .state
        .map_or(Step::Over, |state| write_in(state, out, room, plain));
    (status.discard, step)
}

fn write_in<Data>(state: ConnectionState<'_, '_, Data>, out: &mut Vec<u8>, room: usize, plain: Option<&[u8]>) -> Step {
    let mut traffic = match state {
        ConnectionState::WriteTraffic(traffic) => traffic,
        // The other side's end does not end the pooler's side.
        ConnectionState::PeerClosed => return Step::Again,
        state => {
            return match answer(state, out) {
                Step::NeedsInput => Step::Over,
                step => step,
            };
        }
    };
    let start = out.len();
    out.resize(start + room, 0);
    let room = &mut out[start..];
    let written = match plain {
        Some(plain) => traffic.encrypt(plain, room),
        None => traffic.queue_close_notify(room),
    };
    debug_assert!(!matches!(written, Err(EncryptError::InsufficientSize(_))));
    out.truncate(start + written.as_ref().map_or(0, |count| *count));
    if written.is_ok() { Step::NeedsInput } else { Step::Over }
}
