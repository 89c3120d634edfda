//! The page that a run of the lab leaves behind: one file of HTML with its charts inside, and the same in plain text.
//!
//! Pure: a [`Report`] is filled with text and numbers, and gives a string back. It knows no clock, file or server; the
//! page asks nothing of the network (its own Content-Security-Policy forbids it), runs no script, follows the reader's
//! light or dark setting, prints, and is drawn for a desktop and for a telephone. All text is escaped here: give it as
//! it is. In prose, conclusions and table cells, `backticks` set names of settings and commands apart.
//!
//! ```
//! use pgweir_lab::report::{Axis, Chart, LineChart, Point, Report, Series, Table, Unit};
//!
//! let mut report = Report::new("pgweir lab connections", "Where throughput peaks");
//! report.when("2026-11-21 14:05 UTC").server("PostgreSQL 15.14, 2 CPUs");
//! report.conclude("Throughput peaks at 12 connections; set `default_pool_size = 12`.");
//! report.key_figure("12", "connections at the peak");
//!
//! let direct = Series::new("direct").point(Point::new(1.0, 510.0)).point(Point::spread(8.0, 1800.0, 1750.0, 1840.0));
//! let chart = LineChart::new("Throughput", Axis::log("clients", Unit::Number), Axis::linear("TPS", Unit::Number))
//!     .series(direct)
//!     .mark(12.0, "peak");
//! let table = Table::new().text("clients").number("TPS").row(["1", "510"]).row(["8", "1,800"]);
//! let section = report.section("Throughput");
//! section.prose("The line is the median of three rounds, the band reaches from the slowest to the fastest.");
//! section.chart(chart);
//! section.table(table.caption("TPS").on_terminal());
//! section.code("pgbench -c 8 -T 10 pgweir_lab");
//! let page: String = report.to_html();
//! let terminal: String = report.to_text();
//! # assert!(page.contains("<svg") && terminal.contains("1,800"));
//! ```
//!
//! | chart | for |
//! |---|---|
//! | [`LineChart`] | TPS or latency over clients or sizes: median, spread as a band, marks at the knee and the peak |
//! | [`StackedArea`] | what changes over time in parts: wait events, memory |
//! | [`BarChart`] | a few things side by side, with whiskers for the spread |
//! | [`StackedBars`] | shares of a whole for a few things: where the time goes |
//!
//! Series take the palette's colours in the order in which they come, so that *direct* comes first and *through pgweir*
//! second everywhere. Every chart has its figures in a table below it, folded.

mod bars;
mod canvas;
mod chart;
mod document;
mod escape;
mod html;
mod lines;
mod palette;
mod scale;
mod stacked;
mod table;
mod unit;

pub use bars::BarChart;
pub use chart::Chart;
pub use document::{Block, Report, Section};
pub use lines::{LineChart, Point, Series};
pub use scale::Axis;
pub use stacked::{StackedArea, StackedBars};
pub use table::Table;
pub use unit::Unit;

#[cfg(test)]
mod tests;
