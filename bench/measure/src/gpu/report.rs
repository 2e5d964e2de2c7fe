//! The figures as a page and as JSON.

use std::fmt::Write;

use serde::{Serialize, Serializer};

use super::point::Group;
use super::sharing::Sharing;
use super::stage::Stage;
use crate::machine;
use crate::table::{Align, Table, width, wrap};
use crate::text::count;

/// What was measured, where.
///
/// As JSON it is one object, whose `figures` is a flat list of [points](super::point::Point):
///
/// ```json
/// {"device": "cuda", "hardware": "NVIDIA H200", "features": ["compute 9.0", "driver 13.0"],
///  "host_cores": 16, "quick": false, "slice_ms": 400, "left_out": null,
///  "figures": [{"name": "launch_sync", "threads": 1, "ours": 128000.0, "raw": 130000.0, "ratio": 0.98}],
///  "sharing": {"threads": 31, "ops_each": 1000, "checked": 31000, "wrong": 0, "faults": 0,
///              "memory_restored": true, "met": true, "seconds": 1.5}}
/// ```
///
/// The names of figures: `launch_sync`, `pipelined_1` to `pipelined_32` and `pipelining_gain`, `linear` and
/// `linear_scaling`, `mlp`, `alloc_free`, `raw_launches`, `raw_graph_pipelined`, `raw_event_records`,
/// `plain_chunk_2MiB`, `plain_chunk_20MiB`, `mapped_chunk_2MiB`, `mapped_chunk_20MiB`, `matmul`, `copy_f32`,
/// `add_f32`.
#[derive(Serialize)]
pub struct Report {
    device: String,
    hardware: String,
    features: Vec<String>,
    host_cores: usize,
    quick: bool,
    slice_ms: u64,
    left_out: Option<&'static str>,
    #[serde(serialize_with = "flat")]
    figures: Vec<Group>,
    /// Whether threads that share everything disturb one another.
    pub sharing: Sharing,
}

fn flat<S: Serializer>(groups: &[Group], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(groups.iter().flat_map(|group| &group.points))
}

impl Report {
    /// The report of what was measured on `stage`.
    pub fn new(
        stage: &Stage,
        quick: bool,
        roomy: bool,
        figures: Vec<Group>,
        sharing: Sharing,
    ) -> Report {
        let properties = stage.properties();
        Report {
            device: properties.name.clone(),
            hardware: properties.hardware.clone(),
            features: properties.features.clone(),
            host_cores: machine::processors(),
            quick,
            slice_ms: stage.slice.as_millis() as u64,
            left_out: (!roomy).then_some("the large figures: they need 8 GiB of GPU memory"),
            figures,
            sharing,
        }
    }

    /// Tables for a terminal.
    pub fn page(&self) -> String {
        let mut page = format!(
            "The runtime on {}, beside the bare driver in the same process\n",
            self.device
        );
        let about = format!(
            "{}, {}, {} host cores",
            self.hardware,
            self.features.join(", "),
            self.host_cores
        );
        for line in wrap(&about, width()) {
            let _ = writeln!(page, "{line}");
        }
        for group in &self.figures {
            let _ = writeln!(page, "\n{}", group.title);
            page.push_str(&table(group));
        }
        let _ = writeln!(page, "\n{}", self.sharing.lines());
        if let Some(left_out) = self.left_out {
            let _ = writeln!(page, "\nLeft out: {left_out}.");
        }
        let _ = writeln!(
            page,
            "\nMedians of rounds taken in turn, {} ms in all for each side of a figure.",
            count(self.slice_ms)
        );
        page
    }
}

fn table(group: &Group) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(2, &[Left, Right, Right, Right, Left, Left]);
    table.row(["", "ours", "driver", "ratio", "goal", ""]);
    for point in &group.points {
        table.row(point.row());
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::point::{Against, Point, Unit};

    fn report() -> Report {
        let rate =
            |name: &str, threads, rates| Point::beside(name, threads, Unit::PerSecond, rates);
        let one = rate("linear", 1, (61_700.0, 130_000.0));
        let many = rate("linear", 8, (298_000.0, 583_000.0));
        let gain = many.gain("linear_scaling", Against::OneThread, &one);
        let deepest = rate("pipelined_32", 31, (41.6e6, 42.0e6));
        let deep = deepest.gain("pipelining_gain", Against::DepthOne, &one);
        let points = [one, many, deepest].into_iter();
        let gains = [gain.unwrap().goal(4.0), deep.unwrap()];
        Report {
            device: "cuda".into(),
            hardware: "NVIDIA H200".into(),
            features: vec!["compute 9.0".into(), "driver 13.0".into()],
            host_cores: 16,
            quick: false,
            slice_ms: 400,
            left_out: None,
            figures: vec![
                Group {
                    title: "Linear",
                    points: points.chain(gains).collect(),
                },
                Group {
                    title: "Large",
                    points: vec![
                        Point::ours("matmul", 1, Unit::Teraflops, 790.4),
                        Point::beside("add_f32", 1, Unit::Gigabytes, (4100.0, 4300.0)),
                        Point::raw("raw_graph_pipelined", 31, 538e3),
                    ],
                },
            ],
            sharing: Sharing::of_a_good_run(),
        }
    }

    #[test]
    fn the_page_fits_a_terminal() {
        let page = report().page();
        for line in page.lines() {
            assert!(line.chars().count() <= width(), "too wide: {line}");
        }
        for part in [
            "linear scaling, 8 threads",
            "4.83 x one",
            "ok",
            "790 TFLOP/s",
            "31,000 checked, 0 wrong, 0 faults",
        ] {
            assert!(page.contains(part), "{part} is not in:\n{page}");
        }
    }

    #[test]
    fn figures_are_one_list() {
        let value = serde_json::to_value(report()).unwrap();
        assert_eq!(value["figures"].as_array().unwrap().len(), 8);
        assert_eq!(value["figures"][1]["name"], "linear");
        assert_eq!(value["figures"][3]["met"], true);
        assert_eq!(value["sharing"]["met"], true);
    }
}
