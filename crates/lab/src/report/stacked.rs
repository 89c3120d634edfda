//! Parts of a whole, over time or side by side.

use super::bars::draw_axis;
use super::canvas::{Anchor, Canvas, Plot};
use super::chart::{LegendEntry, Swatch};
use super::palette::{self, OTHER};
use super::{Axis, Table, Unit};

/// Layers told apart in one chart; of more, the smaller ones are one layer, *other*.
const LAYERS_MAX: usize = 8;

/// One part: its name, and a value for each time or row.
type Layer = (String, Vec<f64>);

/// Parts over time, one upon the other.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedArea {
    pub(super) title: String,
    x: Axis,
    y: Axis,
    times: Vec<f64>,
    layers: Vec<Layer>,
    marks: Vec<(f64, String)>,
}

impl StackedArea {
    /// An empty chart with samples at these places of the x axis, ascending.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, times: impl IntoIterator<Item = f64>) -> Self {
        StackedArea {
            title: title.into(),
            x,
            y,
            times: times.into_iter().collect(),
            layers: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Marks a place on the x axis by a vertical line with a text.
    #[must_use]
    pub fn mark(mut self, x: f64, label: impl Into<String>) -> Self {
        self.marks.push((x, label.into()));
        self
    }

    /// Adds a part on top: a value for each sample. The name *other* is for the rest, always grey and topmost.
    ///
    /// # Panics
    /// Where there are not as many values as samples.
    #[must_use]
    pub fn layer(mut self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        self.layers.push(layer(name.into(), values, self.times.len()));
        self
    }

    pub(super) fn legend(&self) -> Vec<LegendEntry> {
        legend(&folded(&self.layers))
    }

    /// Mean and maximum of each part: the samples themselves would be a long table.
    pub(super) fn figures(&self) -> Table {
        let mut table = Table::new().text("").number("mean").number("share").number("maximum");
        if self.times.is_empty() {
            return table;
        }
        let unit = self.y.unit;
        for (name, values) in folded(&self.layers) {
            let maximum = values.iter().copied().fold(0.0, f64::max);
            let row = [name, unit.show(mean(&values)), self.share(&values), unit.show(maximum)];
            table = table.row(row);
        }
        table
    }

    /// Of the sum of all parts.
    fn share(&self, values: &[f64]) -> String {
        let all: f64 = self.layers.iter().flat_map(|l| &l.1).sum();
        let share = if all > 0.0 {
            values.iter().sum::<f64>() / all * 100.0
        } else {
            0.0
        };
        Unit::Percent.show(share)
    }

    pub(super) fn draw(&self, width: f64, class: &str) -> String {
        let mut canvas = Canvas::new(
            width,
            320.0_f64.min(150.0 + width * 0.4) + 16.0 * self.marks.len() as f64,
        );
        let layers = folded(&self.layers);
        let tops: Vec<f64> = (0..self.times.len())
            .map(|i| layers.iter().map(|l| l.1[i]).sum())
            .collect();
        let plot = Plot::frame(&mut canvas, (&self.x, &self.times), (&self.y, &tops), self.marks.len());
        let classes = palette::layer_classes(layers.iter().map(|l| l.0.as_str()));
        let mut floor = vec![0.0; self.times.len()];
        for ((name, values), color) in layers.iter().zip(classes) {
            let ceiling: Vec<f64> = floor.iter().zip(values).map(|(f, v)| f + v).collect();
            let title = format!(
                "{name}: {} on average, {}",
                self.y.unit.show(mean(values)),
                self.share(values)
            );
            let mut outline = self.edge(&plot, &ceiling);
            outline.extend(self.edge(&plot, &floor).into_iter().rev());
            canvas.shape(&outline, &format!("area {color}"), &title);
            floor = ceiling;
        }
        plot.draw_marks(&mut canvas, &self.marks);
        canvas.finish(class, &self.title)
    }

    /// The upper edge of a layer; a single sample is drawn as wide as the chart.
    fn edge(&self, plot: &Plot, values: &[f64]) -> Vec<(f64, f64)> {
        match values {
            [value] => vec![(plot.left, plot.y(*value)), (plot.left + plot.width, plot.y(*value))],
            _ => self
                .times
                .iter()
                .zip(values)
                .map(|(t, v)| (plot.x(*t), plot.y(*v)))
                .collect(),
        }
    }
}

/// Horizontal bars made of parts: where the time of a few workloads goes, say.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedBars {
    pub(super) title: String,
    axis: Axis,
    rows: Vec<String>,
    layers: Vec<Layer>,
}

/// Height of a bar, of the text above it, and of the space below; pixels.
const BAR: f64 = 24.0;
const HEADING: f64 = 20.0;
const GAP: f64 = 12.0;

impl StackedBars {
    /// An empty chart with a bar for each of these names.
    pub fn new<S: Into<String>>(title: impl Into<String>, axis: Axis, rows: impl IntoIterator<Item = S>) -> Self {
        StackedBars {
            title: title.into(),
            axis,
            rows: rows.into_iter().map(Into::into).collect(),
            layers: Vec::new(),
        }
    }

    /// Adds a part: a value for each bar. The name *other* is for the rest, always grey and last.
    ///
    /// # Panics
    /// Where there are not as many values as bars.
    #[must_use]
    pub fn layer(mut self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        self.layers.push(layer(name.into(), values, self.rows.len()));
        self
    }

    pub(super) fn legend(&self) -> Vec<LegendEntry> {
        legend(&folded(&self.layers))
    }

    pub(super) fn figures(&self) -> Table {
        let layers = folded(&self.layers);
        let mut table = Table::new().text("");
        for (name, _) in &layers {
            table = table.number(name);
        }
        for (i, row) in self.rows.iter().enumerate() {
            let values = layers.iter().map(|l| self.axis.unit.show(l.1[i]));
            table = table.row(std::iter::once(row.clone()).chain(values));
        }
        table
    }

    pub(super) fn draw(&self, width: f64, class: &str) -> String {
        let bottom = self.rows.len() as f64 * (HEADING + BAR + GAP);
        let mut canvas = Canvas::new(width, bottom + 42.0);
        let layers = folded(&self.layers);
        let whole = |row: usize| layers.iter().map(|l| l.1[row]).sum::<f64>();
        let length = width - 30.0;
        let ticks = ((length / 64.0) as usize).clamp(3, 11);
        let scale = self.axis.scale((0..self.rows.len()).map(whole), ticks);
        draw_axis(&mut canvas, &self.axis, &scale, length, bottom);
        let classes = palette::layer_classes(layers.iter().map(|l| l.0.as_str()));
        for (i, row) in self.rows.iter().enumerate() {
            let y = i as f64 * (HEADING + BAR + GAP);
            canvas.text(0.0, y + 14.0, Anchor::Start, "group", row);
            let mut from = 0.0;
            for ((name, values), color) in layers.iter().zip(&classes) {
                let (left, right) = (scale.share(from) * length, scale.share(from + values[i]) * length);
                // Two pixels of ground between parts; what is thinner than that is not drawn.
                if right - left > 2.0 {
                    let title = format!("{row}, {name}: {}", self.axis.unit.show(values[i]));
                    let class = format!("bar {color}");
                    canvas.rectangle((left, y + HEADING), (right - left - 2.0, BAR), &class, &title);
                }
                from += values[i];
            }
        }
        canvas.finish(class, &self.title)
    }
}

fn layer(name: String, values: impl IntoIterator<Item = f64>, expected: usize) -> Layer {
    // A part cannot be less than nothing.
    let values: Vec<f64> = values
        .into_iter()
        .map(|v| if v > 0.0 && v.is_finite() { v } else { 0.0 })
        .collect();
    assert_eq!(values.len(), expected, "layer {name} has not one value for each place");
    (name, values)
}

/// At most [`LAYERS_MAX`] layers: the largest in their order, and the others as one, last.
fn folded(layers: &[Layer]) -> Vec<Layer> {
    let total = |layer: &Layer| layer.1.iter().sum::<f64>();
    let mut by_size: Vec<&Layer> = layers.iter().filter(|l| l.0 != OTHER).collect();
    by_size.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let kept = match layers.len() > LAYERS_MAX {
        true => LAYERS_MAX - 1,
        false => LAYERS_MAX,
    };
    by_size.truncate(kept);
    let is_kept = |layer: &Layer| by_size.iter().any(|l| std::ptr::eq(*l, layer));
    let mut out: Vec<Layer> = layers.iter().filter(|l| is_kept(l)).cloned().collect();
    let rest: Vec<&Layer> = layers.iter().filter(|l| !is_kept(l)).collect();
    if !rest.is_empty() {
        let sums = (0..rest[0].1.len()).map(|i| rest.iter().map(|l| l.1[i]).sum());
        out.push((OTHER.to_owned(), sums.collect()));
    }
    out
}

fn legend(layers: &[Layer]) -> Vec<LegendEntry> {
    let classes = palette::layer_classes(layers.iter().map(|l| l.0.as_str()));
    let entry = |((name, _), class): (&Layer, String)| LegendEntry {
        name: name.clone(),
        class,
        swatch: Swatch::Square,
    };
    layers.iter().zip(classes).map(entry).collect()
}

fn mean(values: &[f64]) -> f64 {
    match values.len() {
        0 => 0.0,
        n => values.iter().sum::<f64>() / n as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_layers_are_one() {
        let layers: Vec<Layer> = (0..10)
            .map(|i| (format!("l{i}"), vec![f64::from(i % 7), 1.0]))
            .collect();
        let folded = folded(&layers);
        let names: Vec<&str> = folded.iter().map(|l| l.0.as_str()).collect();
        // l0, l7 and l1 (or l8, of the same size) are the smallest.
        assert_eq!(names, ["l1", "l2", "l3", "l4", "l5", "l6", "l9", OTHER]);
        assert_eq!(folded[7].1, [0.0 + 0.0 + 1.0, 3.0]);
        let sum = |layers: &[Layer]| layers.iter().flat_map(|l| &l.1).sum::<f64>();
        assert_eq!(sum(&folded), sum(&layers));
    }

    #[test]
    fn other_is_last_and_grey() {
        let layers = vec![(OTHER.to_owned(), vec![9.0]), ("IO".to_owned(), vec![1.0])];
        let legend = legend(&folded(&layers));
        let entries: Vec<_> = legend.iter().map(|e| (e.name.as_str(), e.class.as_str())).collect();
        assert_eq!(entries, [("IO", "c0"), (OTHER, "grey")]);
    }

    #[test]
    #[should_panic(expected = "layer IO has not one value for each place")]
    fn a_layer_has_a_value_for_each_sample() {
        let axis = || Axis::linear("", Unit::Number);
        let _ = StackedArea::new("", axis(), axis(), [1.0, 2.0]).layer("IO", [1.0]);
    }
}
