//! A table as wide as the terminal: where it is too narrow, names are shortened and then columns left out, the least
//! important first. No line is ever wrapped.

/// The width of a name where there is not room for all of it.
const NAME_WIDTH: usize = 16;

/// What stands in place of the rest of a name.
const CUT: char = '~';

/// Between two columns.
const GAP: &str = "  ";

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    title: &'static str,
    /// The columns with the highest stay longest.
    importance: u8,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Text that may be shortened.
    Name,
    Number,
}

impl Column {
    /// A column of names.
    pub(super) const fn name(title: &'static str, importance: u8) -> Self {
        let kind = Kind::Name;
        Column {
            title,
            importance,
            kind,
        }
    }

    /// A column of numbers, which end below each other.
    pub(super) const fn number(title: &'static str, importance: u8) -> Self {
        let kind = Kind::Number;
        Column {
            title,
            importance,
            kind,
        }
    }
}

/// The heading and the rows as lines; `width` None is as wide as they are.
pub(super) fn lines(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let mut widths: Vec<Option<usize>> = (0..columns.len()).map(|i| Some(natural(columns, rows, i))).collect();
    if let Some(width) = width {
        narrow(columns, &mut widths, width);
    }
    let heading: Vec<String> = columns.iter().map(|column| column.title.to_owned()).collect();
    std::iter::once(&heading)
        .chain(rows)
        .map(|cells| {
            let line = line(columns, cells, &widths);
            cut(&line, width.unwrap_or(usize::MAX))
        })
        .collect()
}

/// Of the widest cell.
fn natural(columns: &[Column], rows: &[Vec<String>], i: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(i));
    let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
    widest.max(columns[i].title.len())
}

fn narrow(columns: &[Column], widths: &mut [Option<usize>], width: usize) {
    if total(widths) > width {
        for (column, its) in columns.iter().zip(widths.iter_mut()) {
            if column.kind == Kind::Name {
                *its = its.map(|its| its.min(NAME_WIDTH));
            }
        }
    }
    while total(widths) > width && widths.iter().flatten().count() > 1 {
        let shown = (0..columns.len()).filter(|i| widths[*i].is_some());
        if let Some(least) = shown.min_by_key(|i| columns[*i].importance) {
            widths[least] = None;
        }
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    let gaps = widths.iter().flatten().count().saturating_sub(1) * GAP.len();
    widths.iter().flatten().sum::<usize>() + gaps
}

fn line(columns: &[Column], cells: &[String], widths: &[Option<usize>]) -> String {
    let mut line = String::new();
    let shown = columns.iter().zip(cells).zip(widths);
    for ((column, cell), width) in shown.filter_map(|(shown, width)| Some((shown, (*width)?))) {
        if !line.is_empty() {
            line.push_str(GAP);
        }
        let cell = cut(cell, width);
        match column.kind {
            Kind::Name => line.push_str(&format!("{cell:<width$}")),
            Kind::Number => line.push_str(&format!("{cell:>width$}")),
        }
    }
    line.trim_end().to_owned()
}

/// At most this many characters.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain((width > 0).then_some(CUT)).collect()
}

/// A text that others chose, such as the name of an application: it cannot move the cursor, nor change the terminal.
pub(super) fn harmless(text: &str) -> String {
    // The directional marks of Unicode would show the rest of the line in another order.
    let is_mark = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| if c.is_control() || is_mark(c) { '?' } else { c };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::name("NAME", 9),
        Column::number("COUNT", 5),
        Column::number("RATE", 7),
        Column::name("MODE", 1),
    ];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["a name of more than sixteen characters", "1", "12,345", "session"]),
            row(["b", "23", "1", "transaction"]),
        ]
    }

    #[test]
    fn everything_where_there_is_room() {
        let lines = lines(&COLUMNS, &rows(), None);
        assert_eq!(lines[0], "NAME                                    COUNT    RATE  MODE");
        assert_eq!(
            lines[1],
            "a name of more than sixteen characters      1  12,345  session"
        );
        assert_eq!(
            lines[2],
            "b                                          23       1  transaction"
        );
    }

    #[test]
    fn names_become_shorter_first_and_then_columns_go() {
        assert_eq!(
            lines(&COLUMNS, &rows(), Some(50))[1],
            "a name of more ~      1  12,345  session"
        );
        assert_eq!(lines(&COLUMNS, &rows(), Some(40))[1], "a name of more ~      1  12,345");
        assert_eq!(lines(&COLUMNS, &rows(), Some(25))[1], "a name of more ~  12,345");
        assert_eq!(lines(&COLUMNS, &rows(), Some(10))[1], "a name of~");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 0..80 {
            for line in lines(&COLUMNS, &rows(), Some(width)) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn names_cannot_reach_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\r\n\u{9b}c\u{202e}"), "a?[2Jb???c?");
        assert_eq!(harmless("Zürich 東京"), "Zürich 東京");
    }
}
