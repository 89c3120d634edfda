//! Text into HTML.

/// Appends `text`, so that nothing in it is taken for markup, in elements and in quoted attributes alike. Control
/// characters, which HTML does not allow, become U+FFFD.
pub(super) fn escape_into(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

/// As [`escape_into`].
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    escape_into(&mut out, text);
    out
}

/// Appends `text` with what stands between backticks as code. A backtick without its partner is a backtick.
pub(super) fn inline_into(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((code, behind)) = after.split_once('`') else {
            break;
        };
        escape_into(out, before);
        out.push_str("<code>");
        escape_into(out, code);
        out.push_str("</code>");
        rest = behind;
    }
    escape_into(out, rest);
}

/// `text` for a terminal: without backticks that stand in pairs, and without control characters.
pub(super) fn plain(text: &str) -> String {
    let pairs = text.matches('`').count() / 2 * 2;
    text.replacen('`', "", pairs)
        .chars()
        .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_for_markup() {
        assert_eq!(
            escaped(r#"<b a="x" b='y'>&"#),
            "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;"
        );
        assert_eq!(escaped("a\u{0}\u{1b}[31m\nb"), "a\u{fffd}\u{fffd}[31m\nb");
    }

    #[test]
    fn backticks_set_code() {
        let set = |text| {
            let mut out = String::new();
            inline_into(&mut out, text);
            out
        };
        assert_eq!(set("set `a < b` now"), "set <code>a &lt; b</code> now");
        assert_eq!(set("`a``b`"), "<code>a</code><code>b</code>");
        assert_eq!(set("one ` only"), "one ` only");
        assert_eq!(set("`a` and `"), "<code>a</code> and `");
    }

    #[test]
    fn a_terminal_gets_neither_backticks_nor_escapes() {
        assert_eq!(plain("set `work_mem`\u{1b}[2J"), "set work_mem\u{fffd}[2J");
        assert_eq!(plain("`a` and `"), "a and `");
    }
}
