//! The guide tells the metrics that there are, and no others.

use std::collections::BTreeMap;

use streampool_serve::metrics::METRICS;

#[test]
fn the_guide_tells_every_metric() {
    let guide = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/src/guides/server.md"
    );
    let guide = std::fs::read_to_string(guide).unwrap();
    let section = guide.split("## Watch it").nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: BTreeMap<&str, &str> = rows
        .filter_map(|row| {
            let (name, rest) = row.split_once("` | ")?;
            Some((name, rest.split(' ').next()?))
        })
        .collect();
    let there: BTreeMap<&str, &str> = METRICS
        .iter()
        .map(|metric| (metric.name, metric.kind))
        .collect();
    assert_eq!(told, there);
}
