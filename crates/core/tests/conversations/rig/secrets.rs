//! The secret parts of internal names, which tests do not compare.

/// The number of digits after `pgweir_10_` in the names of statements, and after `pgweir_portal_` in other names.
const SECRET_DIGITS: [usize; 2] = [22, 32];

/// Shortens `pgweir_10_0a1B2c3D4e5F6g7H8i9JkL` to `pgweir_10`, because the secret part differs in each test.
pub fn without_secrets(text: &str) -> String {
    let mut rest = text;
    let mut out = String::new();
    while let Some(at) = rest.find("pgweir_") {
        let (before, name) = rest.split_at(at + "pgweir_".len());
        out.push_str(before);
        let word = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
        out.push_str(&name[..word]);
        let behind = name[word..].strip_prefix('_').unwrap_or_default();
        let digits = behind
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(behind.len());
        rest = if SECRET_DIGITS.contains(&digits) {
            &behind[digits..]
        } else {
            &name[word..]
        };
    }
    out + rest
}
