use super::super::client_verifier::ClientVerifier;
use super::super::server_verifier::ServerVerifier;
use super::*;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
use std::sync::Arc;

fn certificate(name: &str) -> CertificateDer<'static> {
    let file = format!("{}/src/tls/trust_tests/{name}.pem", env!("CARGO_MANIFEST_DIR"));
    CertificateDer::from_pem_file(file).unwrap()
}

/// Whether the certificate `name` is accepted, with `others` behind it, if the file has the certificate `known`: of a
/// client and of a server alike.
fn accepts(known: &str, name: &str, others: &[&str]) -> bool {
    let trust = Trust::new(vec![certificate(known)]).unwrap();
    let provider = Arc::new(ring::default_provider());
    let of_clients = ClientVerifier::new(trust.clone(), &provider).unwrap();
    let of_servers = ServerVerifier {
        trust: Some(trust),
        checks_name: false,
        algorithms: provider.signature_verification_algorithms,
    };
    let (shown, now) = (certificate(name), UnixTime::now());
    let others: Vec<_> = others.iter().map(|name| certificate(name)).collect();
    let host = ServerName::try_from("localhost").unwrap();
    let of_client = of_clients.verify_client_cert(&shown, &others, now).is_ok();
    let of_server = of_servers.verify_server_cert(&shown, &others, &host, &[], now).is_ok();
    assert_eq!(of_client, of_server, "{known} {name}");
    of_client
}

#[test]
fn an_authority_signs_for_others() {
    for authority in ["ca", "old-root"] {
        for kind in ["new", "old"] {
            assert!(
                accepts(authority, &format!("{kind}-by-{authority}"), &[]),
                "{kind} {authority}"
            );
        }
    }
    assert!(!accepts("ca", "new-by-old-root", &[]) && !accepts("old-root", "new-by-ca", &[]));
}

/// Its holder has its key, and would otherwise make certificates for all users.
#[test]
fn a_certificate_that_may_not_sign_is_accepted_alone() {
    for single in ["pinned", "bare", "nosign", "old-middle"] {
        assert!(accepts(single, single, &[]), "{single}");
        for kind in ["new", "old"] {
            let signed = format!("{kind}-by-{single}");
            assert!(!accepts(single, &signed, &[]), "{signed}");
            assert!(!accepts(single, &signed, &[single]), "{signed}");
        }
    }
}

#[test]
fn a_certificate_of_version_1_is_no_authority_between_others() {
    for kind in ["new", "old"] {
        assert!(
            !accepts("ca", &format!("{kind}-by-old-middle"), &["old-middle"]),
            "{kind}"
        );
    }
}

#[test]
fn clients_are_told_the_names_of_all_certificates() {
    let both = Trust::new(vec![certificate("pinned"), certificate("ca")]).unwrap();
    let verifier = ClientVerifier::new(both, &Arc::new(ring::default_provider())).unwrap();
    assert_eq!(verifier.root_hint_subjects().len(), 2);
    // The authority's name is written as rustls itself writes it.
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca")).unwrap();
    assert_eq!(verifier.root_hint_subjects()[1].as_ref(), roots.subjects()[0].as_ref());
}

#[test]
fn what_is_no_certificate_is_an_error() {
    assert!(Trust::new(vec![CertificateDer::from(vec![1, 2, 3])]).is_err());
    assert!(Trust::of_readable(vec![CertificateDer::from(vec![1, 2, 3]), certificate("ca")]).is_ok());
}
