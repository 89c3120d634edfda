use super::*;

fn search(options: &LdapOptions) -> (&str, LdapScope, &SearchFilter) {
    match &options.bind {
        LdapBind::Search {
            base_dn, scope, filter, ..
        } => (base_dn, *scope, filter),
        simple => panic!("expected a search, got {simple:?}"),
    }
}

#[test]
fn a_simple_bind_has_prefix_or_suffix() {
    let options =
        LdapOptions::parse("ldapserver=\"a b:1389\" ldapport=390 ldapprefix=\"uid=\" ldapsuffix=\", ou=x\"").unwrap();
    assert_eq!(options.servers, [("a".to_string(), 390), ("b".to_string(), 1389)]);
    let (prefix, suffix) = ("uid=".to_string(), ", ou=x".to_string());
    assert_eq!(options.bind, LdapBind::Simple { prefix, suffix });
    assert_eq!(
        LdapOptions::parse("ldapserver=[::1]:99 ldapprefix=").unwrap().servers,
        [("::1".to_string(), 99)]
    );
    assert_eq!(
        LdapOptions::parse("ldapserver=::1 ldapprefix=").unwrap().servers,
        [("::1".to_string(), 389)]
    );
}

#[test]
fn a_search_has_a_base_and_what_to_look_for() {
    let options = LdapOptions::parse("ldapserver=a, ldapscheme=ldaps ldapbasedn=\"dc=x, dc=y\"").unwrap();
    assert_eq!(options.servers, [("a".to_string(), 636)]);
    assert_eq!(
        search(&options),
        ("dc=x, dc=y", LdapScope::Sub, &SearchFilter::Attribute("uid".into()))
    );
    let options = LdapOptions::parse("ldapserver=a ldapbasedn=dc=x ldapsearchfilter=(&(uid=$username)(a=b))").unwrap();
    assert_eq!(
        search(&options).2,
        &SearchFilter::Template("(&(uid=$username)(a=b))".into())
    );
}

#[test]
fn a_url_says_the_same() {
    let url = "ldapurl=\"ldaps://dir.example:1636/dc=example%2Cdc=net?cn?one?(&(objectClass=person)(cn=$username))\"";
    let wrong = LdapOptions::parse(url).unwrap_err();
    assert_eq!(wrong, "cannot use ldapsearchattribute together with ldapsearchfilter");
    let options = LdapOptions::parse("ldapurl=ldaps://dir.example:1636/dc=example%2Cdc=net?cn?one").unwrap();
    assert_eq!(options.servers, [("dir.example".to_string(), 1636)]);
    assert_eq!(
        search(&options),
        (
            "dc=example,dc=net",
            LdapScope::One,
            &SearchFilter::Attribute("cn".into())
        )
    );
    let options = LdapOptions::parse("ldapurl=ldap://a/dc=x???(cn=$username)").unwrap();
    assert_eq!(
        search(&options),
        (
            "dc=x",
            LdapScope::Base,
            &SearchFilter::Template("(cn=$username)".into())
        )
    );
}

#[test]
fn what_does_not_fit_together_is_refused() {
    for (text, why) in [
        ("ldapprefix=x", "requires argument \"ldapserver\""),
        ("ldapserver=a", "requires argument \"ldapbasedn\""),
        ("ldapserver=a ldapprefix=x ldapbasedn=y", "together with ldapprefix"),
        (
            "ldapserver=a ldapbasedn=x ldapsearchattribute=a ldapsearchfilter=$username",
            "cannot use ldapsearchattribute",
        ),
        (
            "ldapserver=a ldapbasedn=x ldapsearchfilter=(uid=admin)",
            "does not contain $username",
        ),
        (
            "ldapserver=a ldapbasedn=x ldapsearchattribute=a)(b",
            "invalid attribute",
        ),
        ("ldapserver=a ldapbasedn=x ldapbinddn=cn=admin", "anonymous bind"),
        ("ldapserver=a ldapbasedn=x ldapport=0", "invalid LDAP port"),
        ("ldapserver=a ldapbasedn=x ldapport=+1", "invalid LDAP port"),
        ("ldapserver=a ldapbasedn=x ldaptls=yes", "invalid ldaptls"),
        (
            "ldapserver=a ldapbasedn=x ldapscheme=ldaps ldaptls=1",
            "cannot use ldaptls",
        ),
        ("ldapserver=a ldapserver=b ldapprefix=x", "given twice"),
        ("ldapserver=a ldapprefix=x ldapfoo=1", "unrecognized"),
        ("ldapserver=a ldapprefix", "name=value"),
        ("ldapurl=http://a/dc=x", "expected ldap"),
        ("ldapurl=ldap://a/dc=%zz", "percent"),
        ("ldapurl=ldap:///dc=x", "requires argument \"ldapserver\""),
    ] {
        let got = LdapOptions::parse(text).unwrap_err();
        assert!(got.contains(why), "{text}: {got}");
    }
}

#[test]
fn debug_output_never_shows_the_password() {
    let options = LdapOptions::parse("ldapserver=a ldapbasedn=x ldapbinddn=cn=a ldapbindpasswd=sesame").unwrap();
    assert!(!format!("{options:?}").contains("sesame"));
}
