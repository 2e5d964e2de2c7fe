//! Lines through points over two axes.

use super::range::{Range, Scale};

/// Lines through points over two axes.
#[derive(Debug, Clone)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// What an axis counts.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What is counted, with its unit.
    pub label: String,
    /// How values are spread along it.
    pub scale: Scale,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Series {
    /// What it is called in the legend.
    pub name: String,
    /// Where it goes. Points that the axes cannot show are left out.
    pub points: Vec<(f64, f64)>,
}

impl Axis {
    /// An axis of this scale.
    pub fn new(label: impl Into<String>, scale: Scale) -> Axis {
        Axis {
            label: label.into(),
            scale,
        }
    }
}

impl Series {
    /// A line through these points.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series {
            name: name.into(),
            points: points.into_iter().collect(),
        }
    }
}

impl Plot {
    /// What the axes reach over, and each line in parts of their lengths.
    pub fn placed(&self) -> (Range, Range, Vec<Vec<(f64, f64)>>) {
        let shown = |&&(x, y): &&(f64, f64)| self.x.scale.shows(x) && self.y.scale.shows(y);
        let points = || {
            let all = self.series.iter().flat_map(|series| &series.points);
            all.filter(shown)
        };
        let x = Range::over(self.x.scale, points().map(|point| point.0));
        let y = Range::over(self.y.scale, points().map(|point| point.1));
        let line = |series: &Series| {
            let shown = series.points.iter().filter(shown);
            shown
                .map(|point| (x.place(point.0), y.place(point.1)))
                .collect()
        };
        let lines = self.series.iter().map(line).collect();
        (x, y, lines)
    }
}
