//! Plots as SVG.
//!
//! Text and lines of the axes have the colour that the image is given by the page around it, and in a file of its own
//! one that can be read on white and on black; so have the colours of the series.

use std::fmt::Write;

use super::lines::Plot;
use crate::text::escaped;

/// The image's width.
pub const WIDTH: f64 = 680.0;

const HEIGHT: f64 = 340.0;

/// About how wide a letter of 12 pixels is, and how high a line of them.
const LETTER: f64 = 6.8;
const LINE: f64 = 18.0;

/// One for each series, then again from the first.
const COLOURS: [&str; 6] = [
    "#3b82f6", "#e07b00", "#16a34a", "#c026d3", "#dc2626", "#0d9488",
];

/// The colour of the series of this number.
pub fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// An image of this height around `content`.
pub fn image(title: &str, height: f64, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" color=\"#7d7d7d\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <title>{}</title>\n{content}</svg>\n",
        escaped(title)
    )
}

/// About how wide a text is.
pub fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Where a text stands, seen from its place.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A text at a place.
pub fn text(x: f64, y: f64, anchor: Anchor, weight: u32, text: &str) -> String {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\" fill=\"currentColor\">{}</text>\n",
        escaped(text)
    )
}

/// The names of series beside their marks, in lines from `top`; also says where these end.
pub fn legend(names: &[&str], top: f64, mark: impl Fn(usize, f64, f64) -> String) -> (String, f64) {
    let (mut content, mut x, mut y) = (String::new(), 8.0, top);
    for (number, name) in names.iter().enumerate() {
        let width = 18.0 + width_of(name) + 14.0;
        if x > 8.0 && x + width > WIDTH {
            (x, y) = (8.0, y + LINE);
        }
        content += &mark(number, x + 6.0, y - 4.0);
        content += &text(x + 18.0, y, Anchor::Start, 400, name);
        x += width;
    }
    let end = if names.is_empty() {
        top
    } else {
        y + LINE + 4.0
    };
    (content, end)
}

impl Plot {
    /// It as an SVG image of its own, to be read on light and on dark.
    pub fn svg(&self) -> String {
        plot(self)
    }
}

fn plot(plot: &Plot) -> String {
    let (x, y, lines) = plot.placed();
    let mut content = text(8.0, 20.0, Anchor::Start, 600, &plot.title);
    let names: Vec<&str> = plot.series.iter().map(|series| &series.name[..]).collect();
    let (names, below) = legend(&names, 42.0, marker);
    content += &names;
    content += &text(8.0, below, Anchor::Start, 400, &plot.y.label);
    let y_ticks = y.ticks(7);
    let widest = y_ticks
        .iter()
        .map(|tick| width_of(&tick.label))
        .fold(0.0, f64::max);
    let (left, right) = (16.0 + widest, WIDTH - 20.0);
    let (top, bottom) = (below + LINE, HEIGHT - 46.0);
    let across = |place: f64| left + place * (right - left);
    let up = |place: f64| bottom - place * (bottom - top);
    for tick in &y_ticks {
        let height = up(tick.place);
        content += &rule(left, height, right, height, 0.2);
        content += &text(left - 8.0, height + 4.0, Anchor::End, 400, &tick.label);
    }
    let mut free_from = f64::NEG_INFINITY;
    for tick in x.ticks(12) {
        let (place, half) = (across(tick.place), width_of(&tick.label) / 2.0);
        content += &rule(place, bottom, place, bottom + 5.0, 0.6);
        if place - half < free_from {
            continue;
        }
        content += &text(place, bottom + 18.0, Anchor::Middle, 400, &tick.label);
        free_from = place + half + LETTER;
    }
    content += &rule(left, bottom, right, bottom, 0.6);
    content += &text(
        (left + right) / 2.0,
        bottom + 38.0,
        Anchor::Middle,
        400,
        &plot.x.label,
    );
    for (number, line) in lines.iter().enumerate() {
        let at: Vec<(f64, f64)> = line.iter().map(|&(x, y)| (across(x), up(y))).collect();
        let mut path = String::new();
        for (x, y) in &at {
            let _ = write!(path, "{x:.1},{y:.1} ");
        }
        let colour = colour(number);
        let _ = writeln!(
            content,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.trim_end()
        );
        content.extend(at.iter().map(|&(x, y)| marker(number, x, y)));
    }
    image(&plot.title, HEIGHT, &content)
}

fn rule(x1: f64, y1: f64, x2: f64, y2: f64, opacity: f64) -> String {
    format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"currentColor\" stroke-opacity=\"{opacity}\"/>\n"
    )
}

/// What stands for a point of a series: forms differ, too, for those who cannot tell the colours apart.
fn marker(number: usize, x: f64, y: f64) -> String {
    let colour = colour(number);
    let form = match number % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\""),
        1 => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\"",
            x - 3.5,
            y - 3.5
        ),
        2 => format!("<path d=\"M{x:.1} {:.1}l5 8.6h-10z\"", y - 5.3),
        _ => format!("<path d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\"", y - 5.0),
    };
    format!("{form} fill=\"{colour}\"/>\n")
}

#[cfg(test)]
mod tests {
    use crate::plot::{Axis, Plot, Scale, Series};

    fn of(series: Vec<Series>) -> Plot {
        Plot {
            title: "Rate <of> runs".to_owned(),
            x: Axis::new("threads", Scale::Log2),
            y: Axis::new("runs/s", Scale::Linear),
            series,
        }
    }

    #[test]
    fn it_shows_every_point_inside_the_image() {
        let points = [(1.0, 100.0), (2.0, 190.0), (31.0, 200.0)];
        let svg = of(vec![
            Series::new("ours & theirs", points),
            Series::new("ceiling", [(1.0, f64::NAN), (0.0, 5.0), (8.0, 210.0)]),
        ])
        .svg();
        // One for each point, and one in the legend.
        assert_eq!(svg.matches("<circle").count(), 4);
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("Rate &lt;of&gt; runs") && svg.contains("ours &amp; theirs"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        for name in ["cx", "cy", "x1", "y1", "x", "y"] {
            for value in svg.split(&format!(" {name}=\"")).skip(1) {
                let value: f64 = value.split('"').next().unwrap().parse().unwrap();
                assert!((0.0..=super::WIDTH).contains(&value), "{name} {value}");
            }
        }
    }

    #[test]
    fn a_long_legend_goes_on_below() {
        let many = (0..9).map(|i| Series::new(format!("a series of some length {i}"), []));
        let (content, end) = super::legend(&["one"], 40.0, |_, _, _| String::new());
        assert!(content.contains("one") && end < 70.0);
        let svg = of(many.collect()).svg();
        assert!(svg.contains("length 8"));
        let names = vec!["a series of some length"; 9];
        let (_, end) = super::legend(&names, 40.0, |_, _, _| String::new());
        assert!(end > 80.0, "{end}");
    }

    #[test]
    fn no_points_are_no_failure() {
        assert!(of(Vec::new()).svg().contains("</svg>"));
    }
}
