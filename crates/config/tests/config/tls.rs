//! Warnings about settings of TLS.

use crate::support::{assert_one, errors, sound, warnings};

#[test]
fn what_a_list_names_in_vain_is_warned_about() {
    for (name, value, left_out) in [
        ("client_tls_ecdhcurve", "secp521r1:X25519", "secp521r1"),
        (
            "client_tls13_ciphers",
            "TLS_AES_128_CCM_SHA256:TLS_AES_128_GCM_SHA256",
            "TLS_AES_128_CCM_SHA256",
        ),
        (
            "server_tls13_ciphers",
            "TLS_A:TLS_AES_128_GCM_SHA256:TLS_B",
            "TLS_A, TLS_B",
        ),
    ] {
        let expected =
            format!("pgbouncer.ini:5: warning: {name}: left out, because pgweir does not have it: {left_out}");
        assert_one(&warnings(&sound(&format!("{name} = {value}"))), &[&expected]);
        let alone = value.split(':').next().unwrap();
        assert_one(
            &errors(&sound(&format!("{name} = {alone}"))),
            &["pgbouncer.ini:5:", "expected ", alone],
        );
    }
    assert_eq!(warnings(&sound("client_tls_ecdhcurve = P-256:x25519")), [""; 0]);
}
