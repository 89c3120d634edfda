//! Lines over an axis, with their spread as a band.

use super::canvas::{Canvas, Plot};
use super::chart::{LegendEntry, Swatch};
use super::palette;
use super::{Axis, Table, Unit};

/// A measured value, with the range that its rounds gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    x: f64,
    y: f64,
    low: f64,
    high: f64,
}

impl Point {
    /// A value without a spread.
    #[must_use]
    pub fn new(x: f64, y: f64) -> Self {
        Point::spread(x, y, y, y)
    }

    /// A median, and the lowest and highest value behind it.
    #[must_use]
    pub fn spread(x: f64, y: f64, low: f64, high: f64) -> Self {
        // What is no number does not count: both are between the value and itself at worst.
        let finite = |bound: f64| if bound.is_finite() { bound } else { y };
        Point {
            x,
            y,
            low: finite(low).min(y),
            high: finite(high).max(y),
        }
    }

    fn show(&self, unit: Unit) -> String {
        match self.low < self.high {
            true => format!(
                "{} ({} to {})",
                unit.show(self.y),
                unit.show(self.low),
                unit.show(self.high)
            ),
            false => unit.show(self.y),
        }
    }
}

/// One line of a [`LineChart`].
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    name: String,
    /// Ascending by x once it is part of a chart.
    points: Vec<Point>,
    /// A calculated curve: dashed, without marks.
    fit: bool,
    /// Number of the colour.
    color: usize,
}

impl Series {
    /// A line without points yet.
    pub fn new(name: impl Into<String>) -> Self {
        Series {
            name: name.into(),
            points: Vec::new(),
            fit: false,
            color: 0,
        }
    }

    /// Adds a point. The order does not matter.
    #[must_use]
    pub fn point(mut self, point: Point) -> Self {
        self.points.push(point);
        self
    }

    /// Adds points.
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = Point>) -> Self {
        self.points.extend(points);
        self
    }
}

/// Values over an axis. On a logarithmic x axis the ticks stand at the measured values.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    pub(super) title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    marks: Vec<(f64, String)>,
}

impl LineChart {
    /// An empty chart.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        LineChart {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Adds a line, in the next colour.
    #[must_use]
    pub fn series(mut self, mut series: Series) -> Self {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        series.color = self.series.iter().filter(|s| !s.fit).count();
        self.series.push(series);
        self
    }

    /// Adds the curve that was fitted to the line added last: in its colour, dashed.
    #[must_use]
    pub fn fit(self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let color = self.series.iter().rfind(|s| !s.fit).map_or(0, |s| s.color);
        let fit = Series::new(name).points(points.into_iter().map(|(x, y)| Point::new(x, y)));
        let mut chart = self.series(fit);
        if let Some(last) = chart.series.last_mut() {
            last.fit = true;
            last.color = color;
        }
        chart
    }

    /// Marks a place on the x axis by a vertical line with a text.
    #[must_use]
    pub fn mark(mut self, x: f64, label: impl Into<String>) -> Self {
        self.marks.push((x, label.into()));
        self
    }

    pub(super) fn legend(&self) -> Vec<LegendEntry> {
        let entry = |series: &Series| LegendEntry {
            name: series.name.clone(),
            class: palette::class(series.color),
            swatch: match series.fit {
                true => Swatch::Dashed,
                false => Swatch::Line(series.color),
            },
        };
        self.series.iter().map(entry).collect()
    }

    /// A row for every x of the measured lines.
    pub(super) fn figures(&self) -> Table {
        let measured: Vec<&Series> = self.series.iter().filter(|s| !s.fit).collect();
        let mut table = Table::new().number(&self.x.label);
        for series in &measured {
            table = table.number(&series.name);
        }
        let mut xs: Vec<f64> = measured.iter().flat_map(|s| s.points.iter().map(|p| p.x)).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        for x in xs {
            let mut row = vec![self.x.unit.show(x)];
            for series in &measured {
                let point = series.points.iter().find(|p| p.x == x);
                row.push(point.map_or_else(String::new, |p| p.show(self.y.unit)));
            }
            table = table.row(row);
        }
        table
    }

    pub(super) fn draw(&self, width: f64, class: &str) -> String {
        let height = 340.0_f64.min(150.0 + width * 0.4) + 16.0 * self.marks.len() as f64;
        let mut canvas = Canvas::new(width, height);
        let (x_values, y_values) = self.values();
        let plot = Plot::frame(
            &mut canvas,
            (&self.x, &x_values),
            (&self.y, &y_values),
            self.marks.len(),
        );
        plot.draw_marks(&mut canvas, &self.marks);
        for series in &self.series {
            self.draw_band(&mut canvas, &plot, series);
        }
        for series in &self.series {
            self.draw_line(&mut canvas, &plot, series);
        }
        // Above everything, so that it can be pointed at.
        for series in self.series.iter().filter(|s| !s.fit) {
            for point in self.drawn(series) {
                let title = format!(
                    "{}, {} {}: {}",
                    series.name,
                    self.x.label,
                    self.x.unit.show(point.x),
                    point.show(self.y.unit)
                );
                canvas.hover((plot.x(point.x), plot.y(point.y)), &title);
            }
        }
        canvas.finish(class, &self.title)
    }

    /// What the axes have to hold. Ticks stand at measured values and at marks' own, not at those of a fit.
    fn values(&self) -> (Vec<f64>, Vec<f64>) {
        let measured = self.series.iter().filter(|s| !s.fit);
        let x_values = measured.flat_map(|s| self.drawn(s).map(|p| p.x)).collect();
        let all = self.series.iter().flat_map(|s| self.drawn(s));
        let y_values = all.flat_map(|p| [p.y, p.low, p.high]).collect();
        (x_values, y_values)
    }

    /// The points that have a place on both axes.
    fn drawn<'s>(&'s self, series: &'s Series) -> impl Iterator<Item = &'s Point> {
        series.points.iter().filter(|p| self.x.holds(p.x) && self.y.holds(p.y))
    }

    fn draw_band(&self, canvas: &mut Canvas, plot: &Plot, series: &Series) {
        let upper = self.drawn(series).map(|p| (plot.x(p.x), plot.y(p.high)));
        let lower: Vec<_> = self.drawn(series).map(|p| (plot.x(p.x), plot.y(p.low))).collect();
        if self.drawn(series).any(|p| p.low < p.high) {
            let points: Vec<_> = upper.chain(lower.into_iter().rev()).collect();
            canvas.shape(&points, &format!("band {}", palette::class(series.color)), "");
        }
    }

    fn draw_line(&self, canvas: &mut Canvas, plot: &Plot, series: &Series) {
        let color = palette::class(series.color);
        let points: Vec<_> = self.drawn(series).map(|p| (plot.x(p.x), plot.y(p.y))).collect();
        canvas.path(&points, &format!("{} {color}", if series.fit { "fit" } else { "line" }));
        if !series.fit {
            for point in points {
                canvas.mark(point, series.color, &color);
            }
        }
    }
}
