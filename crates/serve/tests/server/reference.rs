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

#[test]
fn the_dashboard_of_grafana_asks_for_metrics_that_there_are() {
    let text = include_str!("../../../../deploy/grafana.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut asked = 0;
    for target in targets {
        let expression = target["expr"].as_str().unwrap();
        let words = expression.split(|c: char| !c.is_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("nv_") || word.starts_with("streampool_"))
        {
            let of_histogram = word.strip_suffix("_bucket");
            let known = METRICS.iter().any(|metric| match of_histogram {
                Some(name) => metric.kind == "histogram" && metric.name == name,
                None => metric.kind != "histogram" && metric.name == word,
            });
            assert!(known, "{word} in {expression}");
            asked += 1;
        }
    }
    assert!(asked > panels.len());
}
