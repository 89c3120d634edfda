//! The errors by which the pooler may refuse a client.

use super::Client;
use crate::simulation::topology::Topology;
use pgweir_wire::ErrorFields;

/// Whether an unexpected message is allowed in this client's session.
pub(super) fn allowed_refusal(topology: &Topology, client: &Client, fields: &ErrorFields<'_>, body: &[u8]) -> bool {
    let faulty = topology.servers_may_die();
    // docs/differences.md: it is not known which Syncs the server has swallowed.
    let detail = b"DSync inside the data of a failed COPY\0";
    let copy_in_doubt = body.windows(detail.len()).any(|w| w == detail);
    match fields.sqlstate {
        // A client that has vanished counts until the pooler notices, and so do visitors.
        b"53300" => topology.max_client_conn <= topology.clients || topology.visitors,
        b"57014" => is_late(topology, client.waited_us, fields.message),
        b"57P05" => topology.pin_idle_timeout_ms > 0 || topology.limits_idle_time(client.session_number),
        // Several servers in a row have refused the settings.
        b"55000" => {
            (topology.refusal_percent > 0
                || topology.has_unseen_limits()
                || topology.reserved_names && is_of_reserved_name(body))
                && fields.message == b"cannot restore the session's settings"
        }
        b"08006" if copy_in_doubt => true,
        // The pooler's first question to a server was cancelled.
        b"08001" if topology.lock_percent > 0 && is_of_unknown_server(fields.message) => true,
        // A default limit has ended the question for what connect_query has set.
        b"08001" if topology.has_unseen_limits() && is_of_unknown_state(fields.message) => true,
        b"08006" | b"08001" | b"57P01" | b"57P03" | b"08P01" => faulty,
        _ => false,
    }
}

/// Whether a client that asked for something so long ago has met this limit.
fn is_late(topology: &Topology, waited_us: u64, message: &[u8]) -> bool {
    let limit_ms = match message {
        b"query_wait_timeout" => topology.query_wait_timeout_ms,
        // For a client that waits for a server, and for one that has a server.
        b"query_timeout" | b"query timeout" => topology.client_limits_s * 1000,
        _ => 0,
    };
    limit_ms > 0 && waited_us > limit_ms * 1000
}

/// Whether no server could be opened, because the last one has not said what it is.
fn is_of_unknown_server(message: &[u8]) -> bool {
    let text = b"it is not known whether the server is PostgreSQL";
    message.windows(text.len()).any(|part| part == text)
}

/// Whether no server could be opened, because the last one has not said what connect_query has set.
fn is_of_unknown_state(message: &[u8]) -> bool {
    let text = b"the state of its session is not known";
    message.windows(text.len()).any(|part| part == text)
}

/// Whether a message says that too many clients wait for a server (queue_target).
pub(super) fn is_refused_early(message: &[u8]) -> bool {
    let text = b"too many clients wait for a server";
    message.first() == Some(&b'E') && message.windows(text.len()).any(|w| w == text)
}

/// Whether a message is about a name under a prefix that a library has reserved.
fn is_of_reserved_name(body: &[u8]) -> bool {
    let name = b"invalid configuration parameter name \"plpgsql.";
    body.windows(name.len()).any(|w| w == name)
}
