//! A panic in the library ends the session, and nothing else.

use super::parties::{Parties, Setup};
use super::*;
use crate::tls::guard::report_panics;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{DigitallySignedStruct, NoKeyLog, SignatureScheme};
use std::sync::Mutex;

const WHY: &str = "this certificate is too much";

#[derive(Debug)]
struct Panics;

impl ServerCertVerifier for Panics {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        panic!("{WHY}")
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        unreachable!()
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        unreachable!()
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

#[test]
fn a_panic_in_the_library_ends_the_session_alone() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&reports);
    report_panics(move |text| {
        if text.contains(WHY) {
            reported.lock().unwrap().push(text);
        }
    });

    let setup = Setup::usual(false, &TLS13);
    let mut parties = Parties::new(&setup, Arc::new(NoKeyLog), Some(Arc::new(Panics)));
    let hello = parties.receive();
    parties.others_input(&hello.out).1.unwrap();
    let flight = parties.others_output();
    assert_eq!(parties.send(&flight), flight.len());

    let step = parties.receive();
    let Some(End::NotSecured(why)) = step.progress.end else {
        panic!("expected the end, got {step:?}")
    };
    assert_eq!(why, "the TLS library has failed");
    assert!(step.out.is_empty() && parties.session.library.is_gone());
    let mut out = Vec::new();
    assert!(parties.session.seal(b"select 1", &mut out).is_err());
    parties.session.close(&mut out);
    assert!(out.is_empty());
    assert!(matches!(parties.receive().progress.end, Some(End::Closed)));

    let reports = reports.lock().unwrap();
    let [report] = &reports[..] else {
        panic!("expected one report, got {reports:?}")
    };
    assert!(report.contains("the TLS library has failed") && report.contains("panics.rs"));
}

/// What is written cannot be left unsaid: the connection ends.
#[test]
fn a_panic_while_writing_ends_the_session() {
    let mut parties = Parties::secured(&Setup::usual(true, &TLS13), Arc::new(NoKeyLog));
    assert!(parties.session.library.with(|_| panic!("no reason")).is_err());
    let mut out = b"before".to_vec();
    assert!(parties.session.seal(b"select 1", &mut out).is_err());
    assert_eq!(out, b"before");
    assert!(matches!(parties.receive().progress.end, Some(End::Closed)));
}

/// In TLS 1.2 a connection ends with its keys: its client must not wait for what cannot be sent.
#[test]
fn a_session_whose_keys_are_used_up_ends() {
    let setup = Setup {
        records_max: Some(10),
        ..Setup::usual(true, &TLS12)
    };
    let mut parties = Parties::secured(&setup, Arc::new(NoKeyLog));
    assert!(parties.receive().progress.is_blocked);
    let mut out = Vec::new();
    let sealed = (0..20).take_while(|_| parties.session.seal(b"row", &mut out).is_ok());
    assert!((5..10).contains(&sealed.count()));
    assert!(matches!(parties.receive().progress.end, Some(End::Closed)));
    // The alert goes behind all rows.
    parties.session.close(&mut out);
    let (plain, outcome) = parties.others_input(&out);
    assert!(plain.starts_with(b"rowrow") && outcome.is_ok(), "{outcome:?}");
    assert!(
        !parties
            .other
            .process_new_packets()
            .is_ok_and(|state| !state.peer_has_closed())
    );
}
