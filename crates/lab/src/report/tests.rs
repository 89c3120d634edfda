//! Reports as wholes: what every chart draws, and that nothing in them is taken for markup or fetched.

use super::*;

fn tps() -> Axis {
    Axis::linear("TPS", Unit::Number)
}

fn clients() -> Axis {
    Axis::log("clients", Unit::Number)
}

/// A report with each kind of chart, every name being `name`.
fn gallery(name: &str) -> Report {
    let mut report = Report::new(name, name);
    report.when(name).server(name).conclude(name).key_figure(name, name);
    let line = Series::new(name)
        .point(Point::spread(1.0, 5.0, 4.0, 6.0))
        .point(Point::new(2.0, 8.0));
    let lines = LineChart::new(name, Axis::log(name, Unit::Number), Axis::linear(name, Unit::Number))
        .series(line)
        .fit(name, [(1.0, 5.0), (2.0, 8.0)])
        .mark(2.0, name);
    let area = StackedArea::new(name, Axis::linear(name, Unit::Seconds), tps(), [0.0, 1.0])
        .layer(name, [1.0, 2.0])
        .layer("other", [1.0, 0.0]);
    let bars = BarChart::new(name, Axis::linear(name, Unit::Milliseconds), [name, "b"])
        .group(name, [Some([5.0, 4.0, 6.0]), None]);
    let dots = BarChart::new(name, Axis::log(name, Unit::Milliseconds), [name]).group(name, [Some([5.0, 4.0, 6.0])]);
    let stacks = StackedBars::new(name, Axis::linear(name, Unit::Percent), [name]).layer(name, [100.0]);
    let section = report.section(name);
    section
        .prose(name)
        .list([name])
        .code(name)
        .table(Table::new().text(name).row([name]).caption(name).on_terminal());
    section.chart(lines).chart(area).chart(bars).chart(dots).chart(stacks);
    report
}

/// How often `part` is in `text`.
fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn no_text_becomes_markup() {
    let hostile = "<script src=//example.org>alert(1)</script>\" onload=\"x' \u{1b}]0;t\u{7}";
    let page = gallery(hostile).to_html();
    assert!(count(&page, "example.org") > 40, "every text is on the page");
    assert_eq!(count(&page, "<script"), 0);
    assert_eq!(count(&page, "\" onload"), 0);
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
    assert!(!gallery(hostile).to_text().contains('\u{1b}'));
}

#[test]
fn elements_are_closed_in_order() {
    let page = gallery("a < b").to_html();
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(2).map(|t| t.split('>').next().unwrap()) {
        let name = tag.split([' ', '\n']).next().unwrap();
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') && !["meta", "link"].contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn the_page_names_no_other_place() {
    let page = gallery("x").to_html();
    for part in ["http:", "https:", "//", "url(", "@import", "src=\"", "<script"] {
        assert_eq!(count(&page, part), 0, "{part}");
    }
}

#[test]
fn a_line_chart_has_marks_bands_fits_and_hovers() {
    let direct = Series::new("direct").points([Point::spread(4.0, 900.0, 850.0, 950.0), Point::new(1.0, 300.0)]);
    let pooled = Series::new("pooled")
        .point(Point::new(1.0, 280.0))
        .point(Point::new(0.0, 10.0));
    let chart = LineChart::new("t", clients(), tps())
        .series(direct)
        .fit("fit", [(1.0, 310.0)])
        .series(pooled);
    let svg = chart.draw(880.0, "wide");
    // Zero clients have no place on a logarithmic axis.
    assert_eq!(count(&svg, "class=\"mark "), 3);
    assert_eq!(count(&svg, "class=\"hover\""), 3);
    assert_eq!(count(&svg, "class=\"band c0\""), 1);
    assert_eq!(count(&svg, "class=\"fit c0\""), 1);
    assert_eq!(count(&svg, "class=\"line c1\""), 1);
    assert!(
        svg.contains("<title>direct, clients 4: 900 (850 to 950)</title>"),
        "{svg}"
    );
    let figures = chart.figures().to_text();
    assert!(figures.contains("      1               300     280"), "{figures}");
}

#[test]
fn points_lie_where_their_values_say() {
    // The left end of the x axis, half of the y axis.
    let line = Series::new("s").points([Point::new(0.0, 500.0), Point::new(10.0, 1000.0)]);
    let svg = LineChart::new("t", Axis::linear("s", Unit::Seconds), tps())
        .series(line)
        .draw(880.0, "wide");
    let route = svg
        .split("class=\"line c0\"")
        .next()
        .unwrap()
        .rsplit("d=\"")
        .next()
        .unwrap();
    let numbers: Vec<f64> = route
        .split(['M', 'L', ' ', '"'])
        .filter_map(|n| n.parse().ok())
        .collect();
    let [x1, y1, x2, y2] = numbers[..] else {
        panic!("{route}");
    };
    let bottom: f64 = svg
        .split("class=\"base\"")
        .next()
        .unwrap()
        .rsplit("y2=\"")
        .next()
        .unwrap()
        .trim_end_matches(['"', ' '])
        .parse()
        .unwrap();
    assert!(x1 < 60.0 && x2 > 840.0, "{x1} {x2}");
    assert!(((bottom - y1) * 2.0 - (bottom - y2)).abs() < 0.5, "{bottom} {y1} {y2}");
}

#[test]
fn nothing_measured_is_said_so() {
    let mut report = Report::new("c", "t");
    report.section("s").chart(LineChart::new("empty", clients(), tps()));
    let page = report.to_html();
    assert!(page.contains("Nothing was measured here."));
    assert_eq!(count(&page, "<svg"), 0);
}

#[test]
fn numbers_that_are_none_break_no_drawing() {
    let line = Series::new("s").points([
        Point::spread(1.0, f64::NAN, f64::NAN, f64::NAN),
        Point::spread(2.0, 5.0, f64::NAN, f64::INFINITY),
        Point::spread(3.0, 5.0, 4.0, 6.0),
        Point::new(f64::INFINITY, 3.0),
    ]);
    let chart = LineChart::new("t", clients(), Axis::log("ms", Unit::Milliseconds)).series(line);
    let area = StackedArea::new("t", clients(), tps(), [f64::NAN, 1.0]).layer("l", [f64::NAN, -1.0]);
    let bars = BarChart::new("t", tps(), [""])
        .group("g", [Some([f64::NAN; 3])])
        .group("h", [Some([0.0; 3])]);
    let mut report = Report::new("c", "t");
    report.section("s").chart(chart).chart(area).chart(bars);
    let page = report.to_html();
    for part in ["NaN", "inf\"", "inf "] {
        assert_eq!(count(&page, part), 0, "{part}");
    }
}

#[test]
fn the_terminal_gets_the_verdict_tables_and_the_other_conclusions() {
    let mut report = Report::new("pgweir lab idle", "t");
    report.conclude("Idle connections cost `18 %`.");
    report.conclude("They took `4 GB` of memory. ".repeat(5));
    report
        .section("Throughput")
        .table(Table::new().text("a").row(["1"]).on_terminal());
    report.section("Settings").table(Table::pairs([("fsync", "on")]));
    let text = report.to_text();
    assert!(
        text.starts_with("\nIdle connections cost 18 %.\n\nThroughput\n\na\n-\n1\n\nThey took 4 GB"),
        "{text}"
    );
    assert!(!text.contains("fsync"));
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
}
