//! Methods for encrypted connections. A test may simply claim that a connection is
//! encrypted.

use super::*;
use crate::base::pool_id::PoolKind;
use pgweir_config::load;

fn config(settings: &str, hba: &str, ident: &str) -> Config {
    let ini = format!("[databases]\ndb = host=h\n[pgbouncer]\nauth_file = users\n{settings}\n");
    let files = |name: &str| -> std::io::Result<Vec<u8>> {
        Ok(match name {
            "ini" => ini.as_bytes().to_vec(),
            "hba" => hba.as_bytes().to_vec(),
            "ident" => ident.as_bytes().to_vec(),
            _ => Vec::new(),
        })
    };
    load("ini", &files)
        .unwrap_or_else(|problems| panic!("{problems:?}"))
        .config
}

fn by_hba(hba: &str, ident: &str) -> Config {
    config(
        "auth_type = hba\nauth_hba_file = hba\nauth_ident_file = ident",
        hba,
        ident,
    )
}

fn certified(name: Option<&str>) -> Encryption<'_> {
    Encryption {
        is_tls: true,
        has_certificate: true,
        common_name: name,
    }
}

fn way_of(config: &Config, encryption: Encryption<'_>, user: &str) -> Way {
    let peer = Address::Tcp(([127, 0, 0, 1], 5000).into());
    let accepted = Accepted {
        peer,
        local: peer,
        peer_uid: None,
    };
    let wishes = Wishes {
        user: user.into(),
        database: "db".into(),
        settings: Vec::new(),
        kind: PoolKind::Clients,
    };
    way(config, &accepted, encryption, &wishes, &Membership::default())
}

fn refused_for(way: Way) -> String {
    match way {
        Way::Refused(why, log) => {
            assert_eq!(why, Rejection::certificate_refused());
            log
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}

const BY_CERT: Way = Way::Exchange(ClientAuthMethod::Cert, None);

#[test]
fn a_certificate_names_its_user() {
    let config = by_hba("hostssl all all all cert\n", "");
    assert_eq!(way_of(&config, certified(Some("alice")), "alice"), BY_CERT);
    for (name, words) in [
        (
            Some("bob"),
            "TLS certificate name mismatch: the certificate is of \"bob\"",
        ),
        (Some("ALICE"), "mismatch"),
        (Some("alice\0"), "\\u{0}"),
        (Some(""), "no common name"),
        (None, "no common name"),
    ] {
        let log = refused_for(way_of(&config, certified(name), "alice"));
        assert!(log.contains(words), "{log}");
    }
    let plain = Encryption {
        is_tls: true,
        ..Encryption::default()
    };
    assert_eq!(
        refused_for(way_of(&config, plain, "alice")),
        "TLS client certificate required"
    );
}

#[test]
fn a_map_takes_names_of_certificates_for_users() {
    let config = by_hba("hostssl all all all cert map=m\n", "m /^(.*)@example\\.com$ \\1\n");
    assert_eq!(way_of(&config, certified(Some("alice@example.com")), "alice"), BY_CERT);
    for name in ["alice", "bob@example.com"] {
        let log = refused_for(way_of(&config, certified(Some(name)), "alice"));
        assert!(log.starts_with("ident map: m does not have a match: "), "{log}");
    }
}

#[test]
fn a_certificate_may_be_wanted_beside_the_method() {
    let config = by_hba(
        "hostssl all alice all md5 clientcert=verify-full\nhostssl all bob all trust clientcert=verify-ca\n",
        "",
    );
    let md5 = Way::Exchange(ClientAuthMethod::Md5, None);
    assert_eq!(way_of(&config, certified(Some("alice")), "alice"), md5);
    assert!(refused_for(way_of(&config, certified(Some("bob")), "alice")).starts_with("hba:1: TLS certificate"));
    let trust = Way::Exchange(ClientAuthMethod::Trust, None);
    assert_eq!(way_of(&config, certified(Some("whoever")), "bob"), trust);
    let plain = Encryption {
        is_tls: true,
        ..Encryption::default()
    };
    refused_for(way_of(&config, plain, "bob"));
}

#[test]
fn rules_see_whether_a_connection_is_encrypted() {
    let config = by_hba("hostnossl all all all reject\nhostssl all all all scram-sha-256\n", "");
    let scram = Way::Exchange(ClientAuthMethod::ScramSha256, None);
    assert_eq!(way_of(&config, certified(None), "alice"), scram);
    assert!(matches!(
        way_of(&config, Encryption::default(), "alice"),
        Way::Refused(..)
    ));
}

/// Guards against open access when the file cannot be read: without rules every client is
/// refused.
#[test]
fn no_rules_let_nobody_in() {
    let mut config = by_hba("host all all all trust\n", "");
    config.login_rules.hba = None;
    assert!(matches!(
        way_of(&config, Encryption::default(), "alice"),
        Way::Refused(..)
    ));
    config.global.auth_type = AuthType::Ldap;
    assert!(matches!(
        way_of(&config, Encryption::default(), "alice"),
        Way::Refused(..)
    ));
}
