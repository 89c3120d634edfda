//! What all charts have in common: a title, a legend, two drawings and their figures.

use super::canvas::{NARROW, WIDE};
use super::{BarChart, LineChart, StackedArea, StackedBars, Table};

/// A chart of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    /// Values over an axis.
    Lines(LineChart),
    /// Parts over time.
    Area(StackedArea),
    /// Values side by side.
    Bars(BarChart),
    /// Parts side by side.
    Stacks(StackedBars),
}

/// How the legend shows a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LegendEntry {
    pub(super) name: String,
    /// Colour, of the style sheet.
    pub(super) class: String,
    pub(super) swatch: Swatch,
}

/// The sign in front of a name in the legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Swatch {
    /// A line with the mark of this series.
    Line(usize),
    Dashed,
    Square,
}

impl Chart {
    pub(super) fn title(&self) -> &str {
        match self {
            Chart::Lines(chart) => &chart.title,
            Chart::Area(chart) => &chart.title,
            Chart::Bars(chart) => &chart.title,
            Chart::Stacks(chart) => &chart.title,
        }
    }

    /// Empty where there is nothing to tell apart.
    pub(super) fn legend(&self) -> Vec<LegendEntry> {
        let entries = match self {
            Chart::Lines(chart) => chart.legend(),
            Chart::Area(chart) => chart.legend(),
            Chart::Bars(chart) => chart.legend(),
            Chart::Stacks(chart) => chart.legend(),
        };
        if entries.len() > 1 { entries } else { Vec::new() }
    }

    /// The SVG for wide pages and the one for narrow pages; nothing where there is nothing to draw.
    pub(super) fn drawings(&self) -> Option<[String; 2]> {
        if self.figures().is_empty() {
            return None;
        }
        Some([(WIDE, "wide"), (NARROW, "narrow")].map(|(width, class)| match self {
            Chart::Lines(chart) => chart.draw(width, class),
            Chart::Area(chart) => chart.draw(width, class),
            Chart::Bars(chart) => chart.draw(width, class),
            Chart::Stacks(chart) => chart.draw(width, class),
        }))
    }

    /// The same in numbers.
    pub(super) fn figures(&self) -> Table {
        match self {
            Chart::Lines(chart) => chart.figures(),
            Chart::Area(chart) => chart.figures(),
            Chart::Bars(chart) => chart.figures(),
            Chart::Stacks(chart) => chart.figures(),
        }
    }
}

impl From<LineChart> for Chart {
    fn from(chart: LineChart) -> Self {
        Chart::Lines(chart)
    }
}

impl From<StackedArea> for Chart {
    fn from(chart: StackedArea) -> Self {
        Chart::Area(chart)
    }
}

impl From<BarChart> for Chart {
    fn from(chart: BarChart) -> Self {
        Chart::Bars(chart)
    }
}

impl From<StackedBars> for Chart {
    fn from(chart: StackedBars) -> Self {
        Chart::Stacks(chart)
    }
}
