//! Values written so that PostgreSQL reads them back.

/// Writes an array of text: `{"a","b"}`.
pub fn array_literal(elements: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut array = vec![b'{'];
    for element in elements {
        if array.len() > 1 {
            array.push(b',');
        }
        array.push(b'"');
        for &byte in element.as_ref() {
            if matches!(byte, b'"' | b'\\') {
                array.push(b'\\');
            }
            array.push(byte);
        }
        array.push(b'"');
    }
    array.push(b'}');
    array
}

#[cfg(test)]
mod tests {
    use super::array_literal;

    #[test]
    fn quotes_and_backslashes_are_escaped() {
        assert_eq!(array_literal(&[""; 0]), b"{}");
        assert_eq!(array_literal(&["a", "", r#"b"c\d"#]), br#"{"a","","b\"c\\d"}"#);
    }
}
