//! Prints a page with every kind of chart, for looking at after a change of the charts or of the style sheet:
//! `cargo run -p pgweir-lab --example report_gallery > /tmp/gallery.html`. Its numbers are those of the articles where
//! they are round, and made up where the page says so.

use pgweir_lab::report::{Axis, BarChart, LineChart, Point, Report, Section, Series, StackedArea, StackedBars};
use pgweir_lab::report::{Table, Unit};

fn main() {
    let mut report = Report::new("report_gallery", "Every kind of chart, with numbers that mean nothing");
    report
        .server("PostgreSQL 15.14, 2 CPUs, 8 GB")
        .when("2026-11-21 14:05 UTC");
    report.conclude(
        "This page shows what reports are made of. A name of a setting, such as `default_pool_size`, is set apart.",
    );
    report.conclude("Its numbers are no measurements.");
    report.key_figure("46 %", "fewer transactions with 1,000 idle connections");
    report.key_figure("4.79 GB", "memory taken by 1,000 idle backends");
    report.key_figure("12", "connections at the peak");
    lines(report.section("Lines"));
    bars(report.section("Bars"));
    stacks(report.section("Stacks"));
    let commands = report.section("Text");
    commands
        .prose("A paragraph, then points, a table and code.")
        .list(["one", "two, with `code`"]);
    commands.table(Table::pairs([("shared_buffers", "128MB"), ("max_connections", "100")]).caption("Settings"));
    commands.code("pgbench -h 127.0.0.1 -p 5432 -M prepared -c 64 -j 2 -T 60 -P 1 -n pgweir_lab\npgbench -S -c 64");
    print!("{}", report.to_html());
}

fn clients() -> Axis {
    Axis::log("clients", Unit::Number)
}

/// The Universal Scalability Law with a peak near 12.
fn law(clients: f64) -> f64 {
    520.0 * clients / (1.0 + 0.05 * (clients - 1.0) + 0.006 * clients * (clients - 1.0))
}

fn lines(section: &mut Section) {
    let xs = [1.0, 2.0, 4.0, 8.0, 11.0, 16.0, 32.0, 64.0, 128.0, 256.0];
    let wobble = |i: usize| 1.0 + 0.03 * ((i * 7) % 5) as f64 / 4.0;
    let direct = |(i, x): (usize, &f64)| Point::spread(*x, law(*x) * wobble(i), law(*x) * 0.93, law(*x) * 1.09);
    let pooled = |(i, x): (usize, &f64)| {
        let y = law(x.min(11.0)) * 0.97 * wobble(i + 1);
        Point::spread(*x, y, y * 0.97, y * 1.02)
    };
    let curve = (0..60)
        .map(|i| 256.0_f64.powf(f64::from(i) / 59.0))
        .map(|x| (x, law(x)));
    let chart = LineChart::new("Throughput", clients(), Axis::linear("TPS", Unit::Number))
        .series(Series::new("direct").points(xs.iter().enumerate().map(direct)))
        .fit("fit of the scalability law, direct", curve)
        .series(Series::new("through pgweir, pool of 11").points(xs.iter().enumerate().map(pooled)))
        .mark(6.0, "knee: 6")
        .mark(12.0, "peak: 12");
    section.chart(chart);
    let mut latency = LineChart::new("Latency", clients(), Axis::log("latency", Unit::Milliseconds));
    for (name, factor) in [("p50", 1.0), ("p95", 2.4), ("p99", 6.0)] {
        let points = xs.iter().map(|x| Point::new(*x, x / law(*x) * 1000.0 * factor));
        latency = latency.series(Series::new(name).points(points));
    }
    section.chart(latency);
    let size = |mb: f64| mb * 1024.0 * 1024.0;
    let axis = Axis::log("shared_buffers", Unit::Bytes);
    let cold = [(128.0, 173.0), (4096.0, 362.0), (8192.0, 380.0), (24576.0, 381.0)];
    let warm = [(128.0, 204.0), (4096.0, 1278.0), (8192.0, 1203.0), (24576.0, 1281.0)];
    let series = |name: &str, values: [(f64, f64); 4]| {
        Series::new(name).points(values.map(|(mb, tps)| Point::new(size(mb), tps)))
    };
    let chart = LineChart::new("shared_buffers", axis, Axis::linear("TPS", Unit::Number));
    section.chart(chart.series(series("cold", cold)).series(series("prewarmed", warm)));
}

fn bars(section: &mut Section) {
    let spread = |value: f64| Some([value, value * 0.96, value * 1.03]);
    let chart = BarChart::new("TPS", Axis::linear("TPS", Unit::Number), ["direct", "through pgweir"])
        .group("standard, alone", [spread(1249.0), spread(1241.0)])
        .group(
            "standard, beside 1,000 idle connections",
            [spread(1140.0), spread(1239.0)],
        )
        .group("scan, alone", [spread(378.6), spread(377.9)])
        .group("scan, beside 1,000 idle connections", [spread(206.4), None]);
    section.chart(chart);
    let chart = BarChart::new("A lone client", Axis::log("latency", Unit::Milliseconds), [""])
        .group("in the saturated pool", [spread(500.0)])
        .group("in a pool of its own", [spread(0.6)]);
    section.chart(chart);
}

const EVENTS: [&str; 9] = [
    "running",
    "IO: DataFileRead",
    "LWLock: BufferMapping",
    "Lock: transactionid",
    "LWLock: WALWrite",
    "Client: ClientRead",
    "IO: WALSync",
    "LWLock: ProcArray",
    "IPC: ProcarrayGroupUpdate",
];

fn stacks(section: &mut Section) {
    let mut chart = StackedArea::new(
        "Wait events while the clients ran",
        Axis::linear("time", Unit::Seconds),
        Axis::linear("connections", Unit::Number),
        (0..60).map(f64::from),
    );
    let mut shares = StackedBars::new(
        "Where the time goes",
        Axis::linear("share of the time", Unit::Percent),
        ["alone", "with idle"],
    );
    for (i, event) in EVENTS.iter().enumerate() {
        let size = 8.0 / (i + 1) as f64;
        chart = chart.layer(
            *event,
            (0..60).map(|t| size * (1.5 + (f64::from(t) * 0.2 + i as f64).sin())),
        );
        shares = shares.layer(*event, [size / 22.7 * 100.0, (i + 1) as f64 / 45.0 * 100.0]);
    }
    section.chart(chart).chart(shares);
}
