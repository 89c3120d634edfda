//! The report as a page and as text.

use super::canvas::mark_route;
use super::chart::{LegendEntry, Swatch};
use super::document::{Block, Report, Section};
use super::escape::{escape_into, escaped, inline_into, plain};
use super::{Chart, Table};
use std::fmt::Write as _;

/// Colours, letters and what changes for the dark, for a telephone and for paper.
const STYLE: &str = include_str!("style.css");

/// Forbids the page to ask for anything: whatever a server's names contain, it stays on this page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// Columns of a line on the terminal.
const LINE_COLUMNS: usize = 100;

impl Report {
    /// The page: complete in itself.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut out = String::with_capacity(64 * 1024);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"generator\" content=\"pgweir {}\">\n<link rel=\"icon\" href=\"data:,\">\n\
             <title>{} – {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
            env!("CARGO_PKG_VERSION"),
            escaped(&self.title),
            escaped(&self.command),
        );
        self.head_into(&mut out);
        for section in &self.sections {
            section_into(&mut out, section);
        }
        let _ = write!(
            out,
            "<footer>Written by {} of pgweir {}. Raw output and result.json are beside this page.</footer>\n\
             </main>\n</body>\n</html>\n",
            escaped(&self.command),
            env!("CARGO_PKG_VERSION")
        );
        out
    }

    fn head_into(&self, out: &mut String) {
        let _ = write!(
            out,
            "<header>\n<p class=\"command\">{}</p>\n<h1>{}</h1>\n",
            escaped(&self.command),
            escaped(&self.title)
        );
        let facts: Vec<String> = [&self.server, &self.when]
            .into_iter()
            .filter(|fact| !fact.is_empty())
            .map(|fact| escaped(fact))
            .collect();
        let _ = writeln!(out, "<p class=\"facts\">{}</p>\n</header>", facts.join(" · "));
        if !self.conclusions.is_empty() {
            out.push_str("<section class=\"conclusion\">\n");
            for text in &self.conclusions {
                paragraph_into(out, text);
            }
            out.push_str("</section>\n");
        }
        if !self.key_figures.is_empty() {
            out.push_str("<dl class=\"figures\">\n");
            for (value, meaning) in &self.key_figures {
                out.push_str("<div><dt>");
                inline_into(out, meaning);
                out.push_str("</dt><dd>");
                inline_into(out, value);
                out.push_str("</dd></div>\n");
            }
            out.push_str("</dl>\n");
        }
    }

    /// For the terminal: the verdict, which is the first conclusion, then the tables meant for it and the other conclusions.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let (verdict, others) = self.conclusions.split_at(self.conclusions.len().min(1));
        for text in verdict {
            let _ = write!(out, "\n{}", wrapped(&plain(text)));
        }
        for section in &self.sections {
            let tables = section.blocks.iter().filter_map(|block| match block {
                Block::Table(table) if table.is_on_terminal() => Some(table.to_text()),
                _ => None,
            });
            let tables: Vec<String> = tables.collect();
            if !tables.is_empty() {
                let _ = writeln!(out, "\n{}\n\n{}", plain(&section.title), tables.join("\n").trim_end());
            }
        }
        for text in others {
            let _ = write!(out, "\n{}", wrapped(&plain(text)));
        }
        out
    }
}

fn section_into(out: &mut String, section: &Section) {
    out.push_str("<section>\n<h2>");
    inline_into(out, &section.title);
    out.push_str("</h2>\n");
    for block in &section.blocks {
        match block {
            Block::Prose(text) => paragraph_into(out, text),
            Block::List(points) => {
                out.push_str("<ul>\n");
                for point in points {
                    out.push_str("<li>");
                    inline_into(out, point);
                    out.push_str("</li>\n");
                }
                out.push_str("</ul>\n");
            }
            Block::Chart(chart) => chart_into(out, chart),
            Block::Table(table) => table.html_into(out),
            Block::Code(text) => {
                out.push_str("<pre>");
                escape_into(out, text.trim_end());
                out.push_str("</pre>\n");
            }
        }
    }
    out.push_str("</section>\n");
}

fn paragraph_into(out: &mut String, text: &str) {
    out.push_str("<p>");
    inline_into(out, text);
    out.push_str("</p>\n");
}

fn chart_into(out: &mut String, chart: &Chart) {
    out.push_str("<figure>\n<figcaption>");
    inline_into(out, chart.title());
    out.push_str("</figcaption>\n");
    let Some(drawings) = chart.drawings() else {
        out.push_str("<p class=\"nothing\">Nothing was measured here.</p>\n</figure>\n");
        return;
    };
    let legend = chart.legend();
    if !legend.is_empty() {
        out.push_str("<ul class=\"legend\">\n");
        for entry in &legend {
            legend_into(out, entry);
        }
        out.push_str("</ul>\n");
    }
    for drawing in drawings {
        out.push_str(&drawing);
        out.push('\n');
    }
    figures_into(out, &chart.figures());
    out.push_str("</figure>\n");
}

fn legend_into(out: &mut String, entry: &LegendEntry) {
    let class = &entry.class;
    let sign = match entry.swatch {
        Swatch::Square => format!("<rect x=\"4\" y=\"1\" width=\"14\" height=\"12\" class=\"bar {class}\"/>"),
        Swatch::Dashed => format!("<path d=\"M0 7H22\" class=\"fit {class}\"/>"),
        Swatch::Line(series) => format!(
            "<path d=\"M0 7H22\" class=\"line {class}\"/><path d=\"{}\" class=\"mark {class}\"/>",
            mark_route(11.0, 7.0, series)
        ),
    };
    let _ = write!(
        out,
        "<li><svg width=\"22\" height=\"14\" viewBox=\"0 0 22 14\" aria-hidden=\"true\">{sign}</svg>"
    );
    inline_into(out, &entry.name);
    out.push_str("</li>\n");
}

fn figures_into(out: &mut String, table: &Table) {
    out.push_str("<details><summary>Figures</summary>\n");
    table.html_into(out);
    out.push_str("</details>\n");
}

/// Broken between words, each line ending with a newline.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > LINE_COLUMNS {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}
