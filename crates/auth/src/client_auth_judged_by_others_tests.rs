//! Exchanges that others decide: the operating system, a certificate, a directory, PAM.

use super::*;

/// A client whose identity others have proven may still be a user who does not exist.
#[test]
fn proven_by_others_and_unknown() {
    for (method, told) in [
        (ClientAuthMethod::Peer, "unix socket login rejected"),
        (ClientAuthMethod::Cert, "certificate authentication failed"),
    ] {
        assert!(matches!(start(method, Some(scram("x"))).1, ClientStep::Accepted(_)));
        let ClientStep::Refused(refused) = start(method, None).1 else {
            panic!("a user who does not exist was accepted")
        };
        assert_eq!((refused.reason, refused.told), (ClientAuthError::UnknownUser, told));
    }
}

#[test]
fn somebody_else_judges_the_password() {
    let mut cache = ScramKeyCache::new(0);
    for (method, told) in [
        (ClientAuthMethod::Ldap, "LDAP authentication failed"),
        (ClientAuthMethod::Pam, "PAM authentication failed"),
    ] {
        let asked = || {
            let (mut auth, step) = start(method, None);
            assert_eq!(step, ClientStep::Ask(AuthRequest::CleartextPassword));
            let step = hears(&mut auth, b"sesame\0", &mut ScramKeyCache::new(0));
            assert_eq!(step, ClientStep::Judge(Password::from("sesame")));
            auth
        };
        let right = asked().handle_verdict(Ok(()));
        let learned = Learned::Password(Password::from("sesame"));
        assert_eq!(right, ClientStep::Accepted(Accepted { closing: None, learned }));
        let ClientStep::Refused(wrong) = asked().handle_verdict(Err("no".into())) else {
            panic!("expected a refusal")
        };
        assert_eq!((wrong.reason.to_string().as_str(), wrong.told), ("no", told));
        // A second password while the first is being checked, and an answer that was not asked for.
        let mut twice = asked();
        assert!(matches!(
            twice.handle_message(b"other\0", &mut cache),
            ClientStep::Refused(_)
        ));
        assert!(matches!(twice.handle_verdict(Ok(())), ClientStep::Refused(_)));
        let (mut early, _) = start(method, None);
        assert!(matches!(early.handle_verdict(Ok(())), ClientStep::Refused(_)));
        // A directory takes an empty password for an anonymous bind, and says yes.
        let (mut empty, _) = start(method, None);
        let ClientStep::Refused(refused) = empty.handle_message(b"\0", &mut cache) else {
            panic!("an empty password was passed on")
        };
        assert_eq!(refused.reason, ClientAuthError::EmptyPassword);
        assert_eq!(refused.told, "empty password returned by client");
    }
}
