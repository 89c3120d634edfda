use super::*;

const KEY_TEXT: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

#[test]
fn client_first_in_all_its_shapes() {
    let parse = |text: &'static str| ClientFirst::parse(text.as_bytes());
    assert_eq!(
        parse("n,,n=,r=abc"),
        Ok(ClientFirst {
            gs2: Gs2::NotSupported,
            bare: b"n=,r=abc",
            nonce: b"abc"
        })
    );
    assert_eq!(
        parse("y,,n=*,r=abc,x=1,z=2"),
        Ok(ClientFirst {
            gs2: Gs2::NotOffered,
            bare: b"n=*,r=abc,x=1,z=2",
            nonce: b"abc"
        })
    );
    assert_eq!(
        parse("p=tls-unique,,n=,r=abc"),
        Err(ScramFault::ChannelBindingType {
            got: "tls-unique".into()
        })
    );
    assert_eq!(parse("n,a=root,n=,r=abc"), Err(ScramFault::AuthorizationIdentity));
    assert_eq!(parse("n,,m=x,n=,r=abc"), Err(ScramFault::MandatoryExtension));
    assert_eq!(parse("n,,n=,r=abc,m=x"), Err(ScramFault::MandatoryExtension));
    assert_eq!(parse("n,,n=,r="), Err(ScramFault::Nonce));
    assert_eq!(parse("n,,n=,r=a\x7fb"), Err(ScramFault::Nonce));
    assert_eq!(parse("n,,n=,r=a b"), Err(ScramFault::Nonce));
    assert_eq!(parse("n,,n=\0,r=abc"), Err(ScramFault::ZeroByte));
    for text in [
        "q,,n=,r=abc",
        "N,,n=,r=abc",
        ",,n=,r=abc",
        "nn,,n=,r=abc",
        "p,,n=,r=abc",
    ] {
        assert!(
            matches!(parse(text), Err(ScramFault::ChannelBindingFlag { .. })),
            "{text}"
        );
    }
    for text in [
        "n",
        "n,",
        "n,,",
        "n,n=,r=abc",
        "n,,r=abc,n=",
        "n,,n=",
        "n,,n=,",
        "n,,n=,r=abc,",
        "n,,n=,r=abc,x",
    ] {
        assert!(matches!(parse(text), Err(ScramFault::Attribute { .. })), "{text}");
    }
}

#[test]
fn server_first_in_all_its_shapes() {
    let parse = |text: &'static str| ServerFirst::parse(text.as_bytes());
    assert_eq!(
        parse("r=abc,s=AA==,i=4096"),
        Ok(ServerFirst {
            nonce: b"abc",
            salt: vec![0],
            iterations: 4096
        })
    );
    assert!(matches!(
        parse("m=x,r=abc,s=AA==,i=4096"),
        Err(ScramFault::Attribute { expected: 'r', .. })
    ));
    assert_eq!(parse("r=abc,s=AA,i=4096"), Err(ScramFault::Base64 { attribute: 's' }));
    assert!(matches!(
        parse("r=abc,s=,i=4096"),
        Err(ScramFault::DecodedLength { attribute: 's', .. })
    ));
    assert_eq!(
        parse("r=abc,s=AA==,i=4096,x=1"),
        Err(ScramFault::Trailing {
            place: "end of server-first-message"
        })
    );
    for text in [
        "",
        "r",
        "r=abc",
        "s=AA==,r=abc,i=1",
        "r=abc,i=1,s=AA==",
        "r=abc,s=AA==",
        "e=other-error",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

/// A huge iteration count would block the pooler for minutes; one that overflows a number crashed other poolers
/// (PgBouncer CVE-2026-6664).
#[test]
fn iteration_counts_are_bounded() {
    let parse = |count: &str| ServerFirst::parse(format!("r=abc,s=AA==,i={count}").as_bytes()).map(|m| m.iterations);
    assert_eq!(parse("1"), Ok(1));
    assert_eq!(parse(&ITERATIONS_MAX.to_string()), Ok(ITERATIONS_MAX));
    for count in [
        "",
        "0",
        "-1",
        "+1",
        "01",
        " 1",
        "1 ",
        "0x1",
        "1000001",
        "4294967297",
        "18446744073709551617",
    ] {
        assert_eq!(
            parse(count),
            Err(ScramFault::Iterations { max: ITERATIONS_MAX }),
            "{count}"
        );
    }
}

#[test]
fn client_final_in_all_its_shapes() {
    let parse = |text: &str| {
        ClientFinal::parse(text.as_bytes()).map(|m| (m.channel_binding.clone(), m.without_proof.to_vec(), m.proof))
    };
    assert_eq!(
        parse(&format!("c=biws,r=abc,p={KEY_TEXT}")),
        Ok((b"n,,".to_vec(), b"c=biws,r=abc".to_vec(), [0; 32]))
    );
    assert_eq!(
        parse(&format!("c=biws,r=abc,x=p=1,p={KEY_TEXT}")),
        Ok((b"n,,".to_vec(), b"c=biws,r=abc,x=p=1".to_vec(), [0; 32]))
    );
    assert_eq!(
        parse(&format!("c=biws,r=abc,p={KEY_TEXT},x=1")),
        Err(ScramFault::Trailing {
            place: "the end of client-final-message"
        })
    );
    assert_eq!(
        parse(&format!("c=biws,r=abc,m=1,p={KEY_TEXT}")),
        Err(ScramFault::MandatoryExtension)
    );
    assert_eq!(
        parse(&format!("c=biw,r=abc,p={KEY_TEXT}")),
        Err(ScramFault::Base64 { attribute: 'c' })
    );
    assert_eq!(parse("c=biws,r=abc,p=AAA"), Err(ScramFault::Base64 { attribute: 'p' }));
    assert_eq!(
        parse("c=biws,r=abc,p=AAAA"),
        Err(ScramFault::DecodedLength {
            attribute: 'p',
            got: 3,
            expected: "32"
        })
    );
    for text in [
        "c=biws",
        "c=biws,r=abc",
        "c=biws,r=abc,",
        "r=abc,c=biws",
        "c=biws,p=AAAA",
        "p=AAAA",
    ] {
        assert!(matches!(parse(text), Err(ScramFault::Attribute { .. })), "{text}");
    }
}

#[test]
fn server_final_is_a_signature_or_an_error() {
    assert_eq!(
        ServerFinal::parse(format!("v={KEY_TEXT}").as_bytes()),
        Ok(ServerFinal::Signature([0; 32]))
    );
    assert_eq!(
        ServerFinal::parse(b"e=invalid-proof"),
        Ok(ServerFinal::Error(b"invalid-proof"))
    );
    assert_eq!(
        ServerFinal::parse(format!("v={KEY_TEXT},x=1").as_bytes()),
        Err(ScramFault::Trailing {
            place: "end of server-final-message"
        })
    );
    assert!(matches!(
        ServerFinal::parse(b"v=AAAA"),
        Err(ScramFault::DecodedLength { .. })
    ));
    assert!(matches!(
        ServerFinal::parse(b"x=AAAA"),
        Err(ScramFault::Attribute { .. })
    ));
}

#[test]
fn messages_are_bounded() {
    let message = |bytes: usize| format!("{:x<bytes$}", "n,,n=,r=").into_bytes();
    assert!(ClientFirst::parse(&message(SCRAM_MESSAGE_BYTES_MAX)).is_ok());
    for bad in [message(SCRAM_MESSAGE_BYTES_MAX + 1), vec![]] {
        let fault = ScramFault::Length {
            got: bad.len(),
            max: SCRAM_MESSAGE_BYTES_MAX,
        };
        assert_eq!(ClientFirst::parse(&bad), Err(fault));
    }
}

/// A fault is logged; text in a wrong place may be a proof.
#[test]
fn faults_show_no_values() {
    let fault = ClientFirst::parse(b"n,,p=c2VjcmV0").unwrap_err().to_string();
    assert_eq!(fault, "malformed SCRAM message (attribute \"n\" expected): got \"p\"");
}
