//! Drawings of figures, as SVG for files and pages, and in characters for a terminal.

mod bars;
mod range;
mod svg;
mod terminal;

pub use bars::{Bars, Group};

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

/// How values are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from 0.
    Linear,
    /// Each doubling takes the same room.
    Log2,
    /// Each power of ten takes the same room.
    Log10,
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
    /// It as an SVG image of its own, to be read on light and on dark.
    pub fn svg(&self) -> String {
        svg::plot(self)
    }

    /// It in so many columns and lines of characters, title and legend aside.
    pub fn terminal(&self, width: usize, height: usize) -> String {
        terminal::plot(self, width, height)
    }

    /// What the axes reach over, and each line in parts of their lengths.
    fn placed(&self) -> (range::Range, range::Range, Vec<Vec<(f64, f64)>>) {
        let shown = |&&(x, y): &&(f64, f64)| self.x.scale.shows(x) && self.y.scale.shows(y);
        let points = || {
            let all = self.series.iter().flat_map(|series| &series.points);
            all.filter(shown)
        };
        let x = range::Range::over(self.x.scale, points().map(|point| point.0));
        let y = range::Range::over(self.y.scale, points().map(|point| point.1));
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
