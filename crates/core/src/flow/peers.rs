//! Cancel requests for clients of another process behind the same port: they are passed on to it.

use crate::base::ids::ClientId;
use crate::base::request::{CancelEnd, Request};
use crate::base::settings::endpoint;
use crate::base::time::Time;
use crate::client::ClientPhase;
use crate::login::cancel_keys::Route;
use crate::pooler::Pooler;
use crate::pools::peers::PeerPools;
use crate::shared::Shared;
use crate::upstream::cancels::{NOT_SENT, SENT};
use pgweir_wire::CancelKey;

// PgBouncer's reasons for closing the connection of a CancelRequest.
const NOBODYS_KEY: &str = "failed cancel request";
const NO_SUCH_PEER: &str = "could not find peer to forward request to";
const PASSED_ON_TOO_OFTEN: &str = "failed to forward cancel request because its TTL was exhausted";

impl Pooler {
    /// A CancelRequest on the connection `by` names no client of this process.
    pub(crate) fn cancel_elsewhere(&mut self, now: Time, by: ClientId, key: &CancelKey) {
        let config = &self.shared.config;
        let (peer, key) = match Route::of(key, config.global.peer_id) {
            Route::Peer(peer, key) if config.peers.contains_key(&peer) => (peer, key),
            Route::Peer(..) => return self.close_client(now, by, NO_SUCH_PEER),
            Route::Exhausted => return self.close_client(now, by, PASSED_ON_TOO_OFTEN),
            Route::Nowhere => return self.close_client(now, by, NOBODYS_KEY),
        };
        self.client_mut(by).phase = ClientPhase::Cancelling { has_place: false };
        self.peers.come(peer, by, key);
        pass_on(&mut self.peers, &mut self.shared, peer);
    }

    /// A request was passed on, or that has failed.
    pub(crate) fn passed_on(&mut self, now: Time, peer: u32, by: ClientId, end: CancelEnd) {
        self.peers.finished(peer);
        let reason = match end {
            CancelEnd::NotSent => NOT_SENT,
            CancelEnd::Over | CancelEnd::NotKnown => SENT,
        };
        self.close_client(now, by, reason);
        self.drop_removed_peers(now);
        pass_on(&mut self.peers, &mut self.shared, peer);
    }

    /// The configuration has changed: there may be other peers, or higher limits.
    pub(crate) fn use_peers(&mut self, now: Time) {
        self.drop_removed_peers(now);
        let peers: Vec<u32> = self.peers.iter().map(|(peer, _)| peer).collect();
        for peer in peers {
            pass_on(&mut self.peers, &mut self.shared, peer);
        }
    }

    fn drop_removed_peers(&mut self, now: Time) {
        let config = &self.shared.config;
        for by in self.peers.keep(|peer| config.peers.contains_key(&peer)) {
            self.close_client(now, by, NO_SUCH_PEER);
        }
    }
}

/// Passes on as many requests to a peer as may be under way at the same time.
fn pass_on(peers: &mut PeerPools, shared: &mut Shared, peer_id: u32) {
    let config = &shared.config;
    let Some(peer) = config.peers.get(&peer_id) else { return };
    let max = config.peer_pool_size(peer);
    while let Some((by, key)) = peers.next(peer_id, max) {
        shared.requests.push_back(Request::PassOn {
            peer: peer_id,
            by,
            endpoint: endpoint(&peer.host, peer.port),
            sslmode: config.global.server_tls_sslmode,
            key,
        });
    }
}
