//! How long the parts of a connection take: one connection, opened step by step with a clock beside it.
//!
//! ```text
//! transport        connect(2) until it returns: TCP's handshake, or a Unix-domain socket's accept queue
//! tls              SSLRequest and its answer, TLS's handshake
//! login            StartupMessage to ReadyForQuery: PostgreSQL starts a process, and asks who we are
//! first query      SELECT 1 on the new connection: filling the caches of the new process
//! ```

use super::conninfo::Parameters;
use super::spy::{Heard, Spy};
use super::{connect, query_error, tls};
use crate::{Error, Result};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Time for one connection.
const PROBE_MAX: Duration = Duration::from_secs(30);

/// How the server asked who its client is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Authentication {
    /// Not at all: `trust`, `peer`, or a certificate of the client.
    #[default]
    NoPassword,
    /// A password in clear text, also by PAM, LDAP or RADIUS.
    ClearText,
    /// MD5.
    Md5,
    /// SCRAM-SHA-256.
    Scram,
    /// Anything else, such as GSSAPI.
    Other,
}

/// The parts of opening a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectTimes {
    /// The connection below PostgreSQL's protocol.
    pub transport: Duration,
    /// TLS; zero without it.
    pub tls: Duration,
    /// Startup and authentication.
    pub login: Duration,
    /// The first query.
    pub first_query: Duration,
    /// What the server asked for.
    pub authentication: Authentication,
}

impl ConnectTimes {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.transport + self.tls + self.login + self.first_query
    }
}

/// Opens a connection with resolved parameters, asks `SELECT 1`, closes it. The first host, where there are several.
pub(super) fn probe(parameters: &Parameters) -> Result<ConnectTimes> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let probed = tokio::time::timeout(PROBE_MAX, connect_in_steps(parameters)).await;
        probed.unwrap_or_else(|_| {
            let seconds = PROBE_MAX.as_secs();
            Err(Error::new(format!(
                "no connection to {} within {seconds} s",
                connect::place(parameters)
            )))
        })
    })
}

async fn connect_in_steps(parameters: &Parameters) -> Result<ConnectTimes> {
    let first = |name: &str| {
        parameters
            .get(name)
            .and_then(|list| list.split(',').next())
            .unwrap_or_default()
    };
    let host = if first("hostaddr").is_empty() {
        first("host")
    } else {
        first("hostaddr")
    };
    let port: u16 = first("port").parse().unwrap_or(5432);
    let failed = |e: std::io::Error| Error::new(format!("could not connect to {}: {e}", connect::place(parameters)));
    let started = Instant::now();
    if host.starts_with('/') {
        let path = Path::new(host).join(format!(".s.PGSQL.{port}"));
        let stream = UnixStream::connect(path).await.map_err(failed)?;
        let transport = started.elapsed();
        return log_in(parameters, host, stream, transport).await;
    }
    // Looking up the name is not counted.
    let addresses: Vec<_> = tokio::net::lookup_host((host, port)).await.map_err(failed)?.collect();
    let started = Instant::now();
    let stream = TcpStream::connect(&addresses[..]).await.map_err(failed)?;
    let transport = started.elapsed();
    stream.set_nodelay(true)?;
    log_in(parameters, first("host"), stream, transport).await
}

async fn log_in<S>(parameters: &Parameters, host: &str, stream: S, transport: Duration) -> Result<ConnectTimes>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut config = connect::config(parameters).map_err(Error::new)?;
    if host.starts_with('/') {
        config
            .ssl_mode(SslMode::Disable)
            .ssl_negotiation(SslNegotiation::Postgres);
    }
    let ended = Arc::new(Mutex::new(None));
    let (heard, heard_in_tls) = (Heard::default(), Heard::default());
    let mut maker = MakeRustlsConnect::new(tls::config(parameters)?);
    let inner = <MakeRustlsConnect as MakeTlsConnect<Spy<S>>>::make_tls_connect(&mut maker, host);
    let inner = inner.map_err(|e| Error::new(format!("TLS: {e}")))?;
    let clocked = Clocked {
        inner,
        ended: Arc::clone(&ended),
        heard: heard_in_tls.clone(),
    };
    let started = Instant::now();
    let (client, connection) = config
        .connect_raw(Spy::new(stream, heard.clone()), clocked)
        .await
        .map_err(|e| connect::readable(&e, parameters))?;
    let both = started.elapsed();
    let tls = ended
        .lock()
        .ok()
        .and_then(|at| *at)
        .map_or(Duration::ZERO, |at: Instant| at - started);
    let running = tokio::spawn(connection);
    let started = Instant::now();
    client.simple_query("select 1").await.map_err(|e| query_error(&e))?;
    let first_query = started.elapsed();
    drop(client);
    let _ = running.await;
    Ok(ConnectTimes {
        transport,
        tls,
        login: both - tls,
        first_query,
        authentication: heard_in_tls
            .authentication()
            .or(heard.authentication())
            .unwrap_or_default(),
    })
}

/// A TLS handshake that leaves the time of its end.
struct Clocked<C> {
    inner: C,
    ended: Arc<Mutex<Option<Instant>>>,
    heard: Heard,
}

impl<S, C> TlsConnect<S> for Clocked<C>
where
    C: TlsConnect<S>,
    C::Future: Send + 'static,
{
    type Stream = Spy<C::Stream>;
    type Error = C::Error;
    type Future = ClockedHandshake<C::Future>;

    fn connect(self, stream: S) -> Self::Future {
        ClockedHandshake {
            inner: Box::pin(self.inner.connect(stream)),
            ended: self.ended,
            heard: self.heard,
        }
    }
}

/// The handshake under way.
struct ClockedHandshake<F> {
    inner: Pin<Box<F>>,
    ended: Arc<Mutex<Option<Instant>>>,
    heard: Heard,
}

impl<S, E, F: Future<Output = Result<S, E>>> Future for ClockedHandshake<F> {
    type Output = Result<Spy<S>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.inner.as_mut().poll(context);
        if outcome.is_ready()
            && let Ok(mut ended) = self.ended.lock()
        {
            *ended = Some(Instant::now());
        }
        let heard = &self.heard;
        outcome.map(|stream| Ok(Spy::new(stream?, heard.clone())))
    }
}
