//! The two sides of a session: the pooler's, and rustls as it is usually used.

use super::*;
use crate::reading::READ_BYTES;
use crate::tls::client_verifier::ClientVerifier;
use crate::tls::contexts::{Accepts, Connects, TlsContexts};
use crate::tls::server_verifier::ServerVerifier;
use crate::tls::trust::Trust;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};
use rustls::{
    ClientConfig, ClientConnection, Connection, KeyLog, ServerConfig, ServerConnection, SupportedProtocolVersion,
};
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

/// A certificate that stands for itself, and its key.
type Pair = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn pair(name: &str) -> Pair {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    (made.cert.der().clone(), key)
}

/// Both are made once: that takes longer than a handshake.
fn pairs() -> &'static [Pair; 2] {
    static PAIRS: OnceLock<[Pair; 2]> = OnceLock::new();
    PAIRS.get_or_init(|| [pair("server"), pair("client")])
}

/// The suite, with a limit of records for each key.
fn limited(suite: SupportedCipherSuite, records_max: u64) -> SupportedCipherSuite {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: common.hash_provider,
        confidentiality_limit: records_max,
    };
    match suite {
        SupportedCipherSuite::Tls12(old) => SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
            common: common(&old.common),
            ..*old
        }))),
        SupportedCipherSuite::Tls13(new) => SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
            common: common(&new.common),
            ..*new
        }))),
    }
}

/// How the two sides are set up.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// The pooler is the server.
    pub(super) accepts: bool,
    pub(super) version: &'static SupportedProtocolVersion,
    /// The index of the only cipher suite; the highest ones are for TLS 1.2.
    pub(super) suite: usize,
    /// The client is asked for a certificate, and must have one.
    pub(super) asks: bool,
    pub(super) must: bool,
    pub(super) has_certificate: bool,
    /// The server's certificate is verified.
    pub(super) verifies: bool,
    /// Each side trusts another certificate than the one that it is shown.
    pub(super) distrusts: bool,
    pub(super) direct: bool,
    pub(super) alpn: Option<&'static str>,
    pub(super) tickets: bool,
    /// The most records of one key, if there are fewer than usual.
    pub(super) records_max: Option<u64>,
}

impl Setup {
    pub(super) fn usual(accepts: bool, version: &'static SupportedProtocolVersion) -> Setup {
        Setup {
            accepts,
            version,
            suite: if version.version == rustls::ProtocolVersion::TLSv1_3 {
                0
            } else {
                3
            },
            asks: false,
            must: false,
            has_certificate: false,
            verifies: true,
            distrusts: false,
            direct: false,
            alpn: Some("postgresql"),
            tickets: true,
            records_max: None,
        }
    }

    fn provider(&self) -> Arc<CryptoProvider> {
        let mut provider = ring::default_provider();
        let suite = provider.cipher_suites[self.suite];
        provider.cipher_suites = vec![self.records_max.map_or(suite, |max| limited(suite, max))];
        Arc::new(provider)
    }

    /// The certificate that is trusted in the place of `pair`.
    fn trusted(&self, pair: usize) -> Trust {
        Trust::new(vec![pairs()[if self.distrusts { 1 - pair } else { pair }].0.clone()]).unwrap()
    }

    fn server_config(&self) -> ServerConfig {
        let provider = self.provider();
        let (certificate, key) = &pairs()[0];
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[self.version])
            .unwrap();
        let builder = if self.asks {
            let verifier = ClientVerifier::new(self.trusted(1), self.must, &provider).unwrap();
            builder.with_client_cert_verifier(Arc::new(verifier))
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder
            .with_single_cert(vec![certificate.clone()], key.clone_key())
            .unwrap();
        if self.tickets {
            config.send_tls13_tickets = 1;
            config.ticketer = ring::Ticketer::new().unwrap();
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config
    }

    fn client_config(&self, verifier: Option<Arc<dyn ServerCertVerifier>>) -> ClientConfig {
        let provider = self.provider();
        let usual = ServerVerifier {
            trust: self.verifies.then(|| self.trusted(0)),
            checks_name: false,
            algorithms: provider.signature_verification_algorithms,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[self.version])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(verifier.unwrap_or_else(|| Arc::new(usual)));
        if self.has_certificate {
            let (certificate, key) = &pairs()[1];
            builder
                .with_client_auth_cert(vec![certificate.clone()], key.clone_key())
                .unwrap()
        } else {
            builder.with_no_client_auth()
        }
    }
}

/// What a step of the pooler's session has brought.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) progress: Progress,
    pub(super) plain: Vec<u8>,
    pub(super) out: Vec<u8>,
}

/// Both sides. Nothing moves by itself.
pub(super) struct Parties {
    pub(super) session: TlsSession,
    transport: Transport,
    /// The other end of the session's socket.
    pub(super) socket: Option<UnixStream>,
    pub(super) other: Connection,
}

impl Parties {
    /// Both sides. `keys` gets the keys of the other side; `verifier` is used instead of the usual one of the pooler.
    pub(super) fn new(setup: &Setup, keys: Arc<dyn KeyLog>, verifier: Option<Arc<dyn ServerCertVerifier>>) -> Parties {
        let alpn: Vec<Vec<u8>> = setup.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let (mut servers, mut clients) = (setup.server_config(), setup.client_config(verifier));
        if setup.accepts {
            clients.key_log = keys;
            clients.alpn_protocols = alpn;
            servers.alpn_protocols = vec![b"postgresql".to_vec()];
        } else {
            servers.key_log = keys;
            servers.alpn_protocols = alpn;
            clients.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        let (servers, clients) = (Arc::new(servers), Arc::new(clients));
        let contexts = TlsContexts {
            accepts: Some(Accepts {
                config: Arc::clone(&servers),
                end_point: None,
                verifies: setup.asks,
            }),
            connects: Some(Connects {
                config: Arc::clone(&clients),
                checks_name: false,
            }),
            connects_directly: setup.direct,
        };
        let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (session, mut other) = if setup.accepts {
            let name = ServerName::try_from("server").unwrap();
            (
                TlsSession::accept(&contexts, Vec::new(), setup.direct),
                Connection::Client(ClientConnection::new(clients, name).unwrap()),
            )
        } else {
            (
                TlsSession::connect(&contexts, "server", localhost, setup.direct),
                Connection::Server(ServerConnection::new(servers).unwrap()),
            )
        };
        other.set_buffer_limit(None);
        let (socket, own) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        Parties {
            session: session.unwrap().unwrap(),
            transport: Transport::new(own.into()),
            socket: Some(socket),
            other,
        }
    }

    /// Both sides, behind their handshake.
    pub(super) fn secured(setup: &Setup, keys: Arc<dyn KeyLog>) -> Parties {
        let mut parties = Parties::new(setup, keys, None);
        for _ in 0..10 {
            let output = parties.others_output();
            assert_eq!(parties.send(&output), output.len());
            let step = parties.receive();
            assert!(step.progress.end.is_none(), "{step:?}");
            parties.others_input(&step.out).1.unwrap();
            if parties.session.is_secured() && !parties.other.is_handshaking() {
                return parties;
            }
        }
        panic!("the handshake does not end")
    }

    /// The pooler reads once.
    pub(super) fn receive(&mut self) -> Step {
        let (mut records, mut plain, mut out) = (vec![0; READ_BYTES], vec![0; READ_BYTES], Vec::new());
        let progress = self
            .session
            .receive(&mut self.transport, &mut records, &mut plain, &mut out);
        plain.truncate(progress.bytes);
        Step { progress, plain, out }
    }

    /// The other side sends these bytes, as many as the socket takes. Returns their number.
    pub(super) fn send(&mut self, bytes: &[u8]) -> usize {
        let socket = self.socket.as_mut();
        socket.map_or(bytes.len(), |socket| socket.write(bytes).unwrap_or_default())
    }

    /// What the other side wants to send.
    pub(super) fn others_output(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.other.wants_write() {
            self.other.write_tls(&mut out).unwrap();
        }
        out
    }

    /// The other side reads what the pooler has written. Returns the plain bytes in it, too.
    pub(super) fn others_input(&mut self, mut records: &[u8]) -> (Vec<u8>, Result<(), String>) {
        let mut plain = Vec::new();
        while !records.is_empty() {
            match self.other.read_tls(&mut records) {
                // The pooler has ended its side.
                Ok(0) => return (plain, Ok(())),
                Ok(_) => {}
                Err(e) => return (plain, Err(e.to_string())),
            }
            let outcome = self.other.process_new_packets();
            let _ = self.other.reader().read_to_end(&mut plain);
            if let Err(e) = outcome {
                return (plain, Err(e.to_string()));
            }
        }
        (plain, Ok(()))
    }
}
