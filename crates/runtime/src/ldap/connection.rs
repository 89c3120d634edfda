//! A connection to a directory.
//!
//! `ldap3` never reads from it. It has one end of a pair of sockets, and gets from there what [`DirectoryAnswers`] lets
//! pass; TLS is done on the directory's side of it.

use ldap3::asn1::{PL, Tag, TagClass, parse_tag};
use ldap3::{Ldap, LdapConnAsync, LdapConnSettings, LdapError, LdapResult, StdStream};
use pgweir_auth::{AnswerFault, DirectoryAnswers};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::os::unix::net::UnixStream as UnixPair;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// How much is read at once.
const READ_BYTES: usize = 16 * 1024;

/// The time for telling a directory that its connection ends.
const GOODBYE_WAIT_MAX: Duration = Duration::from_secs(1);

/// The extended request StartTLS, as the first message of a connection (RFC 4511, section 4.14.1).
const START_TLS: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";

/// The tag number of an ExtendedResponse.
const EXTENDED_RESPONSE: u64 = 24;

/// How the connection is encrypted.
#[derive(Clone)]
pub(super) enum Security {
    Plain,
    StartTls(Arc<ClientConfig>),
    Tls(Arc<ClientConfig>),
}

/// An open connection.
pub(super) struct Connection {
    pub(super) ldap: Ldap,
    /// Why no further answers pass.
    fault: Arc<OnceLock<AnswerFault>>,
    relay: JoinHandle<()>,
}

impl Connection {
    /// Connects, TLS included. The error is for the log.
    pub(super) async fn open(host: &str, port: u16, security: Security) -> Result<Connection, String> {
        let mut answers = DirectoryAnswers::default();
        let mut stream = TcpStream::connect((host, port)).await.map_err(io_error)?;
        match security {
            Security::Plain => Connection::new(stream, answers).await,
            Security::StartTls(config) => {
                start_tls(&mut stream, &mut answers).await?;
                Connection::with_tls(host, stream, config, answers).await
            }
            Security::Tls(config) => Connection::with_tls(host, stream, config, answers).await,
        }
    }

    async fn with_tls(
        host: &str,
        stream: TcpStream,
        config: Arc<ClientConfig>,
        answers: DirectoryAnswers,
    ) -> Result<Connection, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| format!("rustls DNS error: {e}"))?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        Connection::new(stream.map_err(io_error)?, answers).await
    }

    async fn new(
        directory: impl AsyncRead + AsyncWrite + Send + 'static,
        answers: DirectoryAnswers,
    ) -> Result<Connection, String> {
        let (ours, theirs) = UnixPair::pair().map_err(io_error)?;
        ours.set_nonblocking(true).map_err(io_error)?;
        let ours = UnixStream::from_std(ours).map_err(io_error)?;
        let settings = LdapConnSettings::new().set_std_stream(StdStream::Unix(theirs));
        // The address only says that the stream is a Unix-domain socket.
        let made = LdapConnAsync::with_settings(settings, "ldapi://pair").await;
        let (driver, ldap) = made.map_err(|e| e.to_string())?;
        tokio::spawn(driver.drive());
        let fault = Arc::new(OnceLock::new());
        let noted = fault.clone();
        // An error ends the connection, and ldap3 notices.
        let relay = tokio::spawn(async move { relay(directory, ours, answers, &noted).await.unwrap_or(()) });
        Ok(Connection { ldap, fault, relay })
    }

    /// Why no further answers pass, if there is a reason.
    pub(super) fn fault(&self) -> Option<AnswerFault> {
        self.fault.get().copied()
    }

    /// The reason of an error of `ldap3`, for the log.
    pub(super) fn reason(&self, e: &LdapError) -> String {
        self.fault().map_or_else(|| e.to_string(), |fault| fault.to_string())
    }

    /// Tells the directory that the connection ends.
    pub(super) async fn close(mut self) {
        let goodbye = async {
            let _ = self.ldap.unbind().await;
            let _ = self.relay.await;
        };
        let _ = tokio::time::timeout(GOODBYE_WAIT_MAX, goodbye).await;
    }
}

/// In `ldap3`'s words.
fn io_error(e: io::Error) -> String {
    LdapError::from(e).to_string()
}

/// Asks for TLS. Afterwards the directory must send nothing before the handshake: it would count as encrypted.
async fn start_tls(stream: &mut TcpStream, answers: &mut DirectoryAnswers) -> Result<(), String> {
    stream.write_all(START_TLS).await.map_err(io_error)?;
    let (mut chunk, mut passed) = (vec![0; READ_BYTES], Vec::new());
    while passed.is_empty() {
        match stream.read(&mut chunk).await.map_err(io_error)? {
            0 => return Err(io_error(io::ErrorKind::UnexpectedEof.into())),
            count => answers.take(&chunk[..count], &mut passed).map_err(|e| e.to_string())?,
        }
    }
    let invalid = || "invalid answer to StartTLS".to_owned();
    let (rest, message) = parse_tag(&passed).map_err(|_| invalid())?;
    if !rest.is_empty() || !answers.is_between_messages() {
        return Err("the directory has sent more than its answer to StartTLS before TLS began".into());
    }
    let PL::C(parts) = message.payload else {
        return Err(invalid());
    };
    let operation = parts
        .into_iter()
        .nth(1)
        .and_then(|t| t.match_class(TagClass::Application));
    let response = operation
        .and_then(|t| t.match_id(EXTENDED_RESPONSE))
        .ok_or_else(invalid)?;
    let result = LdapResult::from(Tag::StructureTag(response));
    result.success().map(|_| ()).map_err(|e| e.to_string())
}

/// Carries requests to the directory, and answers to `ldap3`, until one of them closes the connection or a fault is
/// found.
async fn relay(
    directory: impl AsyncRead + AsyncWrite,
    ldap3: UnixStream,
    mut answers: DirectoryAnswers,
    fault: &OnceLock<AnswerFault>,
) -> io::Result<()> {
    let (mut from_directory, mut to_directory) = tokio::io::split(directory);
    let (mut from_ldap3, mut to_ldap3) = ldap3.into_split();
    let carry_answers = async {
        let (mut chunk, mut passed) = (vec![0; READ_BYTES], Vec::new());
        loop {
            let count = from_directory.read(&mut chunk).await?;
            if count == 0 {
                return Ok(());
            }
            let found = answers.take(&chunk[..count], &mut passed).err();
            if let Some(found) = found {
                let _ = fault.set(found);
            }
            to_ldap3.write_all(&passed).await?;
            passed.clear();
            if found.is_some() {
                return Ok(());
            }
        }
    };
    let carry_requests = async {
        tokio::io::copy(&mut from_ldap3, &mut to_directory).await?;
        to_directory.shutdown().await
    };
    tokio::select! {
        end = carry_answers => end,
        end = carry_requests => end,
    }
}
