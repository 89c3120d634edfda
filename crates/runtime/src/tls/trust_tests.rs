use super::super::chain::{ALIKE_MAX, CHECKS_MAX, OTHERS_MAX};
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

/// All certificates of a file.
fn certificates(name: &str) -> Vec<CertificateDer<'static>> {
    let file = format!("{}/src/tls/trust_tests/{name}.pem", env!("CARGO_MANIFEST_DIR"));
    let found = CertificateDer::pem_file_iter(file).unwrap();
    found.map(Result::unwrap).collect()
}

/// The verdicts on the certificate `name` of a client and of a server, with `others` behind it, if the file has the
/// certificate `known`.
fn verdicts(known: &str, name: &str, others: &[&str]) -> [Result<(), String>; 2] {
    let trust = Trust::new(vec![certificate(known)]).unwrap();
    let provider = Arc::new(ring::default_provider());
    let of_clients = ClientVerifier::new(trust.clone(), true, &provider).unwrap();
    let of_servers = ServerVerifier {
        trust: Some(trust),
        checks_name: false,
        algorithms: provider.signature_verification_algorithms,
    };
    let (shown, now) = (certificate(name), UnixTime::now());
    let others: Vec<_> = others.iter().flat_map(|name| certificates(name)).collect();
    let host = ServerName::try_from("localhost").unwrap();
    let of_client = of_clients.verify_client_cert(&shown, &others, now).map(drop);
    let of_server = of_servers.verify_server_cert(&shown, &others, &host, &[], now);
    [of_client, of_server.map(drop)].map(|verdict| verdict.map_err(|e| e.to_string()))
}

/// Whether it is accepted: of a client and of a server alike.
fn accepts(known: &str, name: &str, others: &[&str]) -> bool {
    let [of_client, of_server] = verdicts(known, name, others);
    assert_eq!(of_client.is_ok(), of_server.is_ok(), "{known} {name}");
    of_client.is_ok()
}

/// Why it is refused, if it is for its costs: of a client and of a server alike.
fn costs(known: &str, name: &str, others: &[&str]) -> Option<String> {
    let [of_client, of_server] = verdicts(known, name, others).map(Result::unwrap_err);
    assert_eq!(of_client, of_server);
    of_client.strip_prefix("other error: ").map(str::to_string)
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
fn a_chain_may_have_four_authorities_in_between() {
    for kind in ["new", "old"] {
        let leaf = format!("{kind}-by-middles");
        assert!(accepts("top", &leaf, &["middles"]), "{kind}");
        // Others that have nothing to do with it, and the same ones twice, count for nothing.
        let many = ["maze", "maze-longer", "maze-wider", "middles", "middles"];
        assert!(accepts("top", &leaf, &many), "{kind}");
        assert!(!accepts("ca", &leaf, &["middles"]), "{kind}");
    }
}

/// A stranger's certificates are judged before its signature, in the midst of the event loop: one handshake could cost
/// hundreds of signature checks, or hundreds of thousands of attempts.
#[test]
fn a_chain_that_costs_much_is_refused() {
    let old = costs("top", "old-by-maze", &["maze"]);
    assert!(old.is_some_and(|why| why.contains(&format!("more than {CHECKS_MAX} signatures"))));
    // rustls checks the signatures of a way from the authority on.
    assert_eq!(costs("top", "new-by-maze", &["maze"]), None);
    for kind in ["new", "old"] {
        let leaf = format!("{kind}-by-maze");
        let long = costs("top", &leaf, &["maze", "maze-longer"]);
        assert!(long.is_some_and(|why| why.contains(&format!("more than {OTHERS_MAX} certificates"))));
        let wide = costs("top", &leaf, &["maze", "maze-wider"]);
        assert!(wide.is_some_and(|why| why.contains(&format!("more than {ALIKE_MAX} certificates"))));
    }
}

/// OpenSSL refuses them too, whether the extension is critical or not.
#[test]
fn an_authority_for_servers_does_not_sign_for_clients() {
    for kind in ["new", "old"] {
        let [of_client, of_server] = verdicts("top", &format!("{kind}-by-servers"), &["servers"]);
        assert!(of_client.is_err() && of_server.is_ok(), "{kind} {of_server:?}");
    }
}

#[test]
fn clients_are_told_the_names_of_all_certificates() {
    let both = Trust::new(vec![certificate("pinned"), certificate("ca")]).unwrap();
    let verifier = ClientVerifier::new(both, true, &Arc::new(ring::default_provider())).unwrap();
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
