//! A few values side by side, with whiskers for their spread.

use super::canvas::{Anchor, Canvas, named, text_width};
use super::chart::{LegendEntry, Swatch};
use super::palette;
use super::scale::Scale;
use super::{Axis, Table};

/// Height of a bar, of the text above a group, and of the space below one; pixels.
const BAR: f64 = 18.0;
const HEADING: f64 = 20.0;
const GAP: f64 = 12.0;

/// Horizontal bars in groups: a group is what is compared (*alone*, *with 1,000 idle*), a series is what it is measured
/// for (*direct*, *through pgweir*). On a logarithmic axis, where a bar's length means nothing, values are dots.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    pub(super) title: String,
    axis: Axis,
    series: Vec<String>,
    /// Name, and a value with its spread for each series that has one.
    groups: Vec<(String, Vec<Option<Value>>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Value {
    value: f64,
    low: f64,
    high: f64,
}

impl BarChart {
    /// An empty chart of these series; one without a name where there is nothing to tell apart.
    pub fn new<S: Into<String>>(title: impl Into<String>, axis: Axis, series: impl IntoIterator<Item = S>) -> Self {
        BarChart {
            title: title.into(),
            axis,
            series: series.into_iter().map(Into::into).collect(),
            groups: Vec::new(),
        }
    }

    /// Adds a group: for each series in order the median, the lowest and the highest value, or nothing.
    ///
    /// # Panics
    /// Where there are more values than series.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>, values: impl IntoIterator<Item = Option<[f64; 3]>>) -> Self {
        let finite = |bound: f64, value: f64| if bound.is_finite() { bound } else { value };
        let value = |[value, low, high]: [f64; 3]| Value {
            value,
            low: finite(low, value).min(value),
            high: finite(high, value).max(value),
        };
        let mut values: Vec<_> = values.into_iter().map(|v| v.map(value)).collect();
        assert!(values.len() <= self.series.len(), "more values than series");
        values.resize(self.series.len(), None);
        self.groups.push((name.into(), values));
        self
    }

    pub(super) fn legend(&self) -> Vec<LegendEntry> {
        let entry = |(i, name): (usize, &String)| LegendEntry {
            name: name.clone(),
            class: palette::class(i),
            swatch: Swatch::Square,
        };
        self.series.iter().enumerate().map(entry).collect()
    }

    pub(super) fn figures(&self) -> Table {
        let mut table = Table::new().text("");
        for name in &self.series {
            table = table.number(if name.is_empty() { &self.axis.label } else { name });
        }
        for (name, values) in &self.groups {
            let shown = values
                .iter()
                .map(|v| v.map_or_else(String::new, |v| self.show(&v, true)));
            table = table.row(std::iter::once(name.clone()).chain(shown));
        }
        table
    }

    fn show(&self, value: &Value, spread: bool) -> String {
        let unit = self.axis.unit;
        match spread && value.low < value.high {
            true => format!(
                "{} ({} to {})",
                unit.show(value.value),
                unit.show(value.low),
                unit.show(value.high)
            ),
            false => unit.show(value.value),
        }
    }

    pub(super) fn draw(&self, width: f64, class: &str) -> String {
        let rows: usize = self.groups.iter().map(|g| g.1.iter().flatten().count()).sum();
        let bottom = rows as f64 * (BAR + 2.0) + self.groups.len() as f64 * (HEADING + GAP);
        let mut canvas = Canvas::new(width, bottom + 42.0);
        let values = || self.groups.iter().flat_map(|g| g.1.iter().flatten());
        // The number behind the longest bar has to fit, too.
        let label = values().fold(0.0, |w: f64, v| w.max(text_width(&self.show(v, false))));
        let length = width - label - 14.0;
        let ticks = ((length / 64.0) as usize).clamp(3, 9);
        let scale = self.axis.scale(values().flat_map(|v| [v.value, v.low, v.high]), ticks);
        draw_axis(&mut canvas, &self.axis, &scale, length, bottom);
        let mut y = 0.0;
        for (name, values) in &self.groups {
            canvas.text(0.0, y + 14.0, Anchor::Start, "group", name);
            y += HEADING;
            for (i, value) in values.iter().enumerate() {
                if let Some(value) = value.filter(|v| self.axis.holds(v.value)) {
                    self.draw_bar(&mut canvas, &scale, (length, y), i, &value, name);
                }
                y += if value.is_some() { BAR + 2.0 } else { 0.0 };
            }
            y += GAP;
        }
        canvas.finish(class, &self.title)
    }

    fn draw_bar(
        &self,
        canvas: &mut Canvas,
        scale: &Scale,
        (length, y): (f64, f64),
        series: usize,
        value: &Value,
        group: &str,
    ) {
        let at = |v: f64| scale.share(v) * length;
        let color = palette::class(series);
        let middle = y + BAR / 2.0;
        let separator = if self.series[series].is_empty() { "" } else { ", " };
        let title = format!("{}{separator}{group}: {}", self.series[series], self.show(value, true));
        if self.axis.log {
            canvas.mark((at(value.value), middle), series, &color);
        } else {
            let size = (at(value.value).max(1.0), BAR);
            canvas.rectangle((0.0, y), size, &format!("bar {color}"), &title);
        }
        if value.low < value.high {
            let (low, high) = (at(value.low), at(value.high));
            canvas.line((low, middle), (high, middle), "whisker");
            for end in [low, high] {
                canvas.line((end, middle - 4.0), (end, middle + 4.0), "whisker");
            }
        }
        if self.axis.log {
            canvas.hover((at(value.value), middle), &title);
        }
        let behind = at(value.value).max(at(value.high)) + 6.0;
        canvas.text(behind, middle + 4.0, Anchor::Start, "value", &self.show(value, false));
    }
}

/// Vertical lines at the ticks, from the top to `bottom`, with their labels below.
pub(super) fn draw_axis(canvas: &mut Canvas, axis: &Axis, scale: &Scale, length: f64, bottom: f64) {
    for (i, tick) in scale.ticks.iter().enumerate() {
        let x = scale.share(*tick) * length;
        canvas.line((x, 0.0), (x, bottom), if i == 0 { "base" } else { "grid" });
        let anchor = if i == 0 { Anchor::Start } else { Anchor::Middle };
        canvas.text(x, bottom + 16.0, anchor, "tick", &axis.unit.tick(*tick));
    }
    canvas.text(length / 2.0, bottom + 34.0, Anchor::Middle, "axis", &named(axis));
}
