//! Tables, for the page and for the terminal.

use super::escape::{inline_into, plain};
use std::fmt::Write as _;

/// Rows of text under named columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    caption: String,
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    on_terminal: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    title: String,
    /// Set to the right, in figures of one width.
    numeric: bool,
}

impl Table {
    /// A table without columns yet.
    #[must_use]
    pub fn new() -> Self {
        Table::default()
    }

    /// Names and values, under no heading: settings, properties of a machine.
    pub fn pairs<N: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let rows = pairs.into_iter().map(|(name, value)| vec![name.into(), value.into()]);
        Table {
            rows: rows.collect(),
            ..Table::new().text("").text("")
        }
    }

    /// Adds a column of text.
    #[must_use]
    pub fn text(self, title: impl Into<String>) -> Self {
        self.column(title.into(), false)
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn number(self, title: impl Into<String>) -> Self {
        self.column(title.into(), true)
    }

    fn column(mut self, title: String, numeric: bool) -> Self {
        self.columns.push(Column { title, numeric });
        self
    }

    /// Adds a row, whose last cells may be left out.
    ///
    /// # Panics
    /// Where there are more cells than columns.
    #[must_use]
    pub fn row<S: Into<String>>(mut self, cells: impl IntoIterator<Item = S>) -> Self {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert!(cells.len() <= self.columns.len(), "more cells than columns: {cells:?}");
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
        self
    }

    /// What the table shows.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Has the table in [`Report::to_text`](super::Report::to_text), too.
    #[must_use]
    pub fn on_terminal(mut self) -> Self {
        self.on_terminal = true;
        self
    }

    pub(super) fn is_on_terminal(&self) -> bool {
        self.on_terminal
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn has_heading(&self) -> bool {
        self.columns.iter().any(|c| !c.title.is_empty())
    }

    pub(super) fn html_into(&self, out: &mut String) {
        out.push_str("<div class=\"scroll\"><table>");
        if !self.caption.is_empty() {
            out.push_str("<caption>");
            inline_into(out, &self.caption);
            out.push_str("</caption>");
        }
        if self.has_heading() {
            out.push_str("<thead><tr>");
            for column in &self.columns {
                let _ = write!(out, "<th{}>", class(column));
                inline_into(out, &column.title);
                out.push_str("</th>");
            }
            out.push_str("</tr></thead>");
        }
        out.push_str("<tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (column, cell) in self.columns.iter().zip(row) {
                let _ = write!(out, "<td{}>", class(column));
                inline_into(out, cell);
                out.push_str("</td>");
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
    }

    /// Columns set side by side with two spaces between; each line ends with a newline.
    #[must_use]
    pub fn to_text(&self) -> String {
        let title: Vec<String> = self.columns.iter().map(|c| plain(&c.title)).collect();
        let rows = self
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| plain(cell)).collect::<Vec<_>>());
        let mut lines: Vec<Vec<String>> = if self.has_heading() { vec![title] } else { Vec::new() };
        lines.extend(rows);
        let width = |i: usize| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        if self.has_heading() {
            lines.insert(1, widths.iter().map(|w| "-".repeat(*w)).collect());
        }
        let mut out = String::new();
        if !self.caption.is_empty() {
            let _ = writeln!(out, "{}", plain(&self.caption));
        }
        for line in lines {
            let mut text = String::new();
            for ((cell, column), width) in line.iter().zip(&self.columns).zip(&widths) {
                let width = *width;
                let _ = match column.numeric {
                    true => write!(text, "{cell:>width$}  "),
                    false => write!(text, "{cell:<width$}  "),
                };
            }
            let _ = writeln!(out, "{}", text.trim_end());
        }
        out
    }
}

fn class(column: &Column) -> &'static str {
    match column.numeric {
        true => " class=\"number\"",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right() {
        let table = Table::new()
            .text("clients")
            .number("TPS")
            .row(["1", "510"])
            .row(["`8`", "1,800"]);
        assert_eq!(
            table.to_text(),
            "clients    TPS\n-------  -----\n1          510\n8        1,800\n"
        );
    }

    #[test]
    fn pairs_have_no_heading() {
        let table = Table::pairs([("shared_buffers", "128MB"), ("fsync", "on")]).caption("Settings");
        assert_eq!(table.to_text(), "Settings\nshared_buffers  128MB\nfsync           on\n");
        let mut html = String::new();
        table.html_into(&mut html);
        assert!(!html.contains("<thead>"), "{html}");
    }

    #[test]
    fn cells_are_escaped() {
        let mut html = String::new();
        Table::new().text("<i>").row(["<script>"]).html_into(&mut html);
        assert!(
            html.contains("<th>&lt;i&gt;</th>") && html.contains("<td>&lt;script&gt;</td>"),
            "{html}"
        );
    }
}
