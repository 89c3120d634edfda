//! One drawing: SVG elements, and the frame of a chart with a horizontal and a vertical axis.

use super::escape::{escape_into, escaped};
use super::scale::{Axis, Scale};
use std::fmt::Write as _;

/// Widths at which every chart is drawn, pixels: for a desktop or paper, and for a telephone. The style sheet shows one
/// of the two drawings, so that letters have the same size everywhere.
pub(super) const WIDE: f64 = 880.0;
/// See [`WIDE`].
pub(super) const NARROW: f64 = 330.0;

/// A letter of the style sheet's 12 pixels, on average, in the widest of its fonts.
const LETTER: f64 = 7.2;

/// How wide a text is drawn at most, pixels.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Which end of a text its position is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// SVG in the making. Coordinates are pixels from the top left; colours come from classes of the style sheet.
pub(super) struct Canvas {
    pub(super) width: f64,
    height: f64,
    out: String,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Canvas {
            width,
            height,
            out: String::new(),
        }
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">"
        );
        escape_into(&mut self.out, text);
        self.out.push_str("</text>");
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            self.out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        );
    }

    /// A rectangle from its top left corner, with a hover text.
    pub(super) fn rectangle(&mut self, corner: (f64, f64), size: (f64, f64), class: &str, title: &str) {
        let ((x, y), (width, height)) = (corner, size);
        let _ = write!(
            self.out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{class}\">"
        );
        self.title(title);
        self.out.push_str("</rect>");
    }

    /// An open line through the points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let _ = write!(self.out, "<path d=\"{}\" class=\"{class}\"/>", route(points));
    }

    /// A closed shape with a hover text.
    pub(super) fn shape(&mut self, points: &[(f64, f64)], class: &str, title: &str) {
        let _ = write!(self.out, "<path d=\"{}Z\" class=\"{class}\">", route(points));
        self.title(title);
        self.out.push_str("</path>");
    }

    /// The mark of a measured point. Series differ by shape as well as by colour, for those who print in grey.
    pub(super) fn mark(&mut self, (x, y): (f64, f64), series: usize, class: &str) {
        let _ = write!(
            self.out,
            "<path d=\"{}\" class=\"mark {class}\"/>",
            mark_route(x, y, series)
        );
    }

    /// An invisible disc over a mark, and larger than it. It shows a text when the pointer is over it.
    pub(super) fn hover(&mut self, (x, y): (f64, f64), title: &str) {
        let _ = write!(
            self.out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"11\" class=\"hover\">"
        );
        self.title(title);
        self.out.push_str("</circle>");
    }

    fn title(&mut self, title: &str) {
        if !title.is_empty() {
            self.out.push_str("<title>");
            escape_into(&mut self.out, title);
            self.out.push_str("</title>");
        }
    }

    /// The finished element. `label` is what a screen reader says.
    pub(super) fn finish(self, class: &str, label: &str) -> String {
        format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {w:.0} {h:.0}\" width=\"{w:.0}\" height=\"{h:.0}\" role=\"img\" \
             aria-label=\"{label}\">{out}</svg>",
            w = self.width,
            h = self.height,
            label = escaped(label),
            out = self.out
        )
    }
}

fn route(points: &[(f64, f64)]) -> String {
    let mut out = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(out, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
    }
    out
}

/// Circle, square, diamond, triangle; and again.
pub(super) fn mark_route(x: f64, y: f64, series: usize) -> String {
    match series % 4 {
        0 => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", x - 4.0),
        1 => format!("M{:.1} {:.1}h7v7h-7Z", x - 3.5, y - 3.5),
        2 => format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5Z", y - 5.0),
        _ => format!("M{x:.1} {:.1}l5 8.5h-10Z", y - 5.0),
    }
}

/// The area between the axes, and where values lie in it.
pub(super) struct Plot {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

impl Plot {
    /// Room for the labels of the axes and for `rows_above` lines of text, and the axes drawn.
    pub(super) fn frame(
        canvas: &mut Canvas,
        (x_axis, x_values): (&Axis, &[f64]),
        (y_axis, y_values): (&Axis, &[f64]),
        rows_above: usize,
    ) -> Self {
        let y = y_axis.scale(y_values.iter().copied(), 6);
        let y_labels: Vec<String> = y.ticks.iter().map(|t| y_axis.unit.tick(*t)).collect();
        let left = y_labels.iter().map(|l| text_width(l)).fold(0.0, f64::max) + 10.0;
        let top = 26.0 + 16.0 * rows_above as f64;
        let width = canvas.width - left - 26.0;
        let height = canvas.height - top - 42.0;
        let x = if x_axis.log {
            x_axis.scale_at(x_values, width, text_width)
        } else {
            let label = x_values
                .iter()
                .fold(0.0, |w: f64, v| w.max(text_width(&x_axis.unit.tick(*v))));
            x_axis.scale(
                x_values.iter().copied(),
                ((width / (label + 24.0)) as usize).clamp(2, 11),
            )
        };
        let plot = Plot {
            left,
            top,
            width,
            height,
            x,
            y,
        };
        plot.draw_axes(canvas, x_axis, y_axis, &y_labels);
        plot
    }

    fn draw_axes(&self, canvas: &mut Canvas, x_axis: &Axis, y_axis: &Axis, y_labels: &[String]) {
        let (right, bottom) = (self.left + self.width, self.top + self.height);
        canvas.text(0.0, 12.0, Anchor::Start, "axis", &named(y_axis));
        for (tick, label) in self.y.ticks.iter().zip(y_labels) {
            let y = self.y(*tick);
            canvas.line(
                (self.left, y),
                (right, y),
                if y > bottom - 0.5 { "base" } else { "grid" },
            );
            canvas.text(self.left - 8.0, y + 4.0, Anchor::End, "tick", label);
        }
        for tick in &self.x.ticks {
            let x = self.x(*tick);
            canvas.line((x, bottom), (x, bottom + 4.0), "base");
            canvas.text(x, bottom + 18.0, Anchor::Middle, "tick", &x_axis.unit.tick(*tick));
        }
        let middle = self.left + self.width / 2.0;
        canvas.text(middle, bottom + 36.0, Anchor::Middle, "axis", &named(x_axis));
    }

    /// Marks places on the horizontal axis by vertical lines, each with its text in a row of its own above the plot.
    pub(super) fn draw_marks(&self, canvas: &mut Canvas, marks: &[(f64, String)]) {
        for (row, (value, label)) in marks.iter().enumerate() {
            let x = self.x(*value);
            let y = 26.0 + 16.0 * row as f64;
            canvas.line((x, y - 8.0), (x, self.top + self.height), "marker");
            let fits = x + 6.0 + text_width(label) <= canvas.width;
            let (x, anchor) = if fits {
                (x + 5.0, Anchor::Start)
            } else {
                (x - 5.0, Anchor::End)
            };
            canvas.text(x, y, anchor, "note", label);
        }
    }

    /// Where a value of the horizontal axis lies.
    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.x.share(value) * self.width
    }

    /// Where a value of the vertical axis lies.
    pub(super) fn y(&self, value: f64) -> f64 {
        self.top + (1.0 - self.y.share(value)) * self.height
    }
}

/// What an axis shows, and that it is logarithmic.
pub(super) fn named(axis: &Axis) -> String {
    match axis.log {
        true => format!("{} (log scale)", axis.label),
        false => axis.label.clone(),
    }
}
