//! The settings whose value is one of a few words.

use crate::mismatch::Mismatch;
use crate::value::{Kind, SettingValue, parse_choice};

/// Declares an enum whose variants are words of the configuration file, in upper or lower case.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(pgweir_freeze::Freeze)]
        pub enum $name { $( $(#[$variant_meta])* $variant, )+ }

        impl $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word as PgBouncer prints it.
            pub fn word(self) -> &'static str {
                match self { $( $name::$variant => $word, )+ }
            }
        }

        impl SettingValue for $name {
            const KIND: Kind = Kind::Choice($name::WORDS);

            fn parse(text: &str) -> Result<$name, Mismatch> {
                parse_choice(text, $name::WORDS, &[$($name::$variant),+])
            }

            fn show(&self) -> Option<String> {
                Some(self.word().to_string())
            }
        }
    };
}

choice! {
    /// When a server connection goes back to its pool.
    PoolMode {
        /// When the client disconnects.
        Session = "session",
        /// When the transaction ends.
        Transaction = "transaction",
        /// When the query ends; transactions of several statements are refused.
        Statement = "statement",
    }
}

choice! {
    /// How clients prove who they are.
    AuthType {
        /// No check, and the user name is ignored: every database must name its user.
        Any = "any",
        /// No check, but the user must be known.
        Trust = "trust",
        /// The password in clear text.
        Plain = "plain",
        /// An MD5 challenge, or SCRAM for users whose stored secret is a SCRAM verifier.
        Md5 = "md5",
        /// A TLS client certificate.
        Cert = "cert",
        /// By the rules of `auth_hba_file`.
        Hba = "hba",
        /// SCRAM-SHA-256 only.
        ScramSha256 = "scram-sha-256",
        /// The operating system's PAM stack.
        Pam = "pam",
        /// An LDAP server.
        Ldap = "ldap",
    }
}

choice! {
    /// How much TLS to ask for, libpq's words. Ordered from none to most.
    SslMode {
        /// Never.
        Disable = "disable",
        /// If the other side wants it.
        Allow = "allow",
        /// If the other side can.
        Prefer = "prefer",
        /// Always, without checking certificates.
        Require = "require",
        /// Always, with a certificate from a known authority.
        VerifyCa = "verify-ca",
        /// Always, and the certificate must carry the right name.
        VerifyFull = "verify-full",
    }
}

choice! {
    /// How TLS begins on a connection, libpq's words.
    SslNegotiation {
        /// By an SSLRequest, which the other side answers.
        Postgres = "postgres",
        /// At once. The protocol is agreed on by ALPN. PostgreSQL 17 and later.
        Direct = "direct",
    }
}

choice! {
    /// Which of several hosts of a database new server connections go to.
    LoadBalanceHosts {
        /// Spread new server connections over them.
        RoundRobin = "round-robin",
        /// Stay with the first one that answers.
        Disable = "disable",
    }
}

choice! {
    /// Which servers are used. The words and their meaning are libpq's.
    TargetSessionAttrs {
        /// Every server.
        Any = "any",
        /// Servers on which transactions may write by default.
        ReadWrite = "read-write",
        /// Servers on which they may not: standbys, and those with `default_transaction_read_only`.
        ReadOnly = "read-only",
        /// Servers that are no standbys.
        Primary = "primary",
        /// Hot standbys.
        Standby = "standby",
        /// Hot standbys, and others while no standby can be reached.
        PreferStandby = "prefer-standby",
    }
}

choice! {
    /// How much of a client's session follows it from server to server.
    SessionState {
        /// Everything that can be restored; anything else pins the client to its server.
        Full = "full",
        /// What PgBouncer keeps: the reported parameters and protocol-level prepared statements.
        Pgbouncer = "pgbouncer",
    }
}

choice! {
    /// After which transactions a probe asks the server what became of the session.
    SessionStateProbe {
        /// After transactions whose text says that they may have changed the session.
        Suspected = "suspected",
        /// After all: for settings, temporary objects, cursors.
        Always = "always",
        /// After all, and for advisory locks too.
        AlwaysLocks = "always_locks",
    }
}

choice! {
    /// Whether pool sizes that are `auto` are looked for.
    SizingChoice {
        /// Other limits are tried, and the best is kept.
        Auto = "auto",
        /// The present limits stay.
        Hold = "hold",
    }
}

choice! {
    /// Whose use of servers is compared when clients wait for one.
    FairBy {
        /// Each client's.
        Client = "client",
        /// That of all clients with the same user and application_name, and inside that each client's.
        Application = "application",
        /// That of all clients of a user, and inside that each client's.
        User = "user",
        /// Nobody's: first come, first served.
        Off = "off",
    }
}

choice! {
    /// Which of several idle servers a client gets.
    LinkChoice {
        /// One whose settings already equal the client's, if there is one.
        Matching = "matching",
        /// The one whose settings differ most from the client's.
        Adversarial = "adversarial",
    }
}

choice! {
    /// Whether the output of a turn of the event loop goes to the kernel by io_uring.
    IoUringChoice {
        /// If the kernel allows it, and no seccomp filter restricts the process.
        Auto = "auto",
        /// If the kernel allows it.
        On = "on",
        /// Never.
        Off = "off",
    }
}

choice! {
    /// The syslog facility to log under.
    SyslogFacility {
        /// LOG_AUTH.
        Auth = "auth",
        /// LOG_AUTHPRIV.
        Authpriv = "authpriv",
        /// LOG_DAEMON.
        Daemon = "daemon",
        /// LOG_USER.
        User = "user",
        /// LOG_LOCAL0.
        Local0 = "local0",
        /// LOG_LOCAL1.
        Local1 = "local1",
        /// LOG_LOCAL2.
        Local2 = "local2",
        /// LOG_LOCAL3.
        Local3 = "local3",
        /// LOG_LOCAL4.
        Local4 = "local4",
        /// LOG_LOCAL5.
        Local5 = "local5",
        /// LOG_LOCAL6.
        Local6 = "local6",
        /// LOG_LOCAL7.
        Local7 = "local7",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_match_in_any_case_and_print_in_lower_case() {
        assert_eq!(PoolMode::parse("Transaction"), Ok(PoolMode::Transaction));
        assert_eq!(
            AuthType::parse("SCRAM-SHA-256").unwrap().show().as_deref(),
            Some("scram-sha-256")
        );
        assert_eq!(SslMode::parse("verify-full"), Ok(SslMode::VerifyFull));
        assert!(SslMode::Require > SslMode::Prefer);
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_choices() {
        let mismatch = PoolMode::parse("transation").unwrap_err();
        assert_eq!(mismatch.expected, "session, transaction or statement");
        assert_eq!(mismatch.hint.as_deref(), Some("did you mean \"transaction\"?"));
        assert_eq!(PoolMode::parse("").unwrap_err().hint, None);
    }
}
