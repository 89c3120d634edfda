//! A certificate for one run: of a throwaway server, or of the laboratory's pooler.

use crate::{Error, Result};

/// A certificate that signs itself, and its key, in PEM.
pub(crate) struct Certificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Certificate {
    /// For this machine, reached by TCP.
    pub(crate) fn make() -> Result<Self> {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names);
        let made = made.map_err(|e| Error::new(format!("could not make a certificate: {e}")))?;
        Ok(Certificate {
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        })
    }
}
