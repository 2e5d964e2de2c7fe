//! Bars side by side, for what has names instead of a place on an axis.

use std::fmt::Write;

use super::svg;
use crate::text::{compact, count};

/// Groups of bars, one for each series.
#[derive(Debug, Clone)]
pub struct Bars {
    /// What is shown.
    pub title: String,
    /// What the bars count, with its unit.
    pub label: String,
    /// What the bars of each group stand for, in order.
    pub series: Vec<String>,
    /// The groups, from top to bottom.
    pub groups: Vec<Group>,
}

/// Bars that belong together.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Not below 0, one for each series.
    pub values: Vec<f64>,
}

/// Eighths of a character, from the left.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

const BAR: f64 = 14.0;
const GAP: f64 = 12.0;

/// The room for a number behind its bar, in characters.
const ROOM: usize = 9;

impl Bars {
    /// It as an SVG image of its own, to be read on light and on dark.
    pub fn svg(&self) -> String {
        use svg::Anchor::{End, Start};
        let mut content = svg::text(8.0, 20.0, Start, 600, &self.title);
        let square = |number, x, y| bar(number, x - 4.0, y - 4.0, 9.0, 9.0);
        let names: Vec<&str> = self.series.iter().map(String::as_str).collect();
        let (names, below) = svg::legend(&names, 42.0, square);
        content += &names;
        content += &svg::text(8.0, below, Start, 400, &self.label);
        let widths = self.groups.iter().map(|group| svg::width_of(&group.name));
        let left = 16.0 + widths.fold(0.0, f64::max);
        let right = svg::WIDTH - 8.0 - ROOM as f64 * svg::width_of("0");
        let mut top = below + GAP;
        for group in &self.groups {
            let height = BAR * group.values.len() as f64;
            let middle = top + height / 2.0 + 4.0;
            content += &svg::text(left - 8.0, middle, End, 400, &group.name);
            for (number, &value) in group.values.iter().enumerate() {
                let y = top + BAR * number as f64;
                let width = self.part(value) * (right - left);
                content += &bar(number, left, y + 1.0, width, BAR - 2.0);
                content += &svg::text(left + width + 6.0, y + BAR - 3.0, Start, 400, &told(value));
            }
            top += height + GAP;
        }
        svg::image(&self.title, top, &content)
    }

    /// It in lines of at most so many characters.
    pub fn terminal(&self, width: usize) -> String {
        let chars = |text: &String| text.chars().count();
        let names = self.groups.iter().map(|group| chars(&group.name)).max();
        let series = self.series.iter().map(chars).max();
        let (names, series) = (names.unwrap_or(0), series.unwrap_or(0));
        let room = width.saturating_sub(names + series + 4 + ROOM).max(8);
        let mut text = format!("{}\n{}\n", self.title, self.label);
        for group in &self.groups {
            let mut name = &group.name[..];
            for (&value, of) in group.values.iter().zip(&self.series) {
                let eighths = (self.part(value) * 8.0 * room as f64).round() as usize;
                let mut bar = EIGHTHS[7].to_string().repeat(eighths / 8);
                bar.extend((eighths % 8).checked_sub(1).map(|rest| EIGHTHS[rest]));
                let space = if bar.is_empty() { "" } else { " " };
                let told = told(value);
                let _ = writeln!(text, "{name:names$}  {of:series$}  {bar}{space}{told}");
                name = "";
            }
        }
        text
    }

    /// A value as a part of the largest.
    fn part(&self, value: f64) -> f64 {
        let values = self.groups.iter().flat_map(|group| &group.values);
        let most = values.copied().fold(f64::MIN_POSITIVE, f64::max);
        (value / most).clamp(0.0, 1.0)
    }
}

fn told(value: f64) -> String {
    match value.fract() == 0.0 && value.abs() < 1e6 {
        true => count(value as u64),
        false => compact(value),
    }
}

fn bar(number: usize, x: f64, y: f64, width: f64, height: f64) -> String {
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"/>\n",
        svg::colour(number)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars() -> Bars {
        let group = |name: &str, values: [f64; 2]| Group {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        Bars {
            title: "Bugs".to_owned(),
            label: "seen".to_owned(),
            series: vec!["without".to_owned(), "with".to_owned()],
            groups: vec![
                group("a race", [4000.0, 0.0]),
                group("another", [1000.0, 1.0]),
            ],
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let text = bars().terminal(60);
        let lines: Vec<&str> = text.lines().collect();
        let blocks = |line: &str| line.chars().filter(|&c| c == '█').count();
        let room = 60 - 7 - 7 - 4 - ROOM;
        assert_eq!(blocks(lines[2]), room, "{text}");
        assert_eq!(blocks(lines[4]), room / 4, "{text}");
        assert!(lines[2].starts_with("a race   without  █") && lines[2].ends_with(" 4,000"));
        assert_eq!(lines[3], "         with     0", "{text}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 60),
            "{text}"
        );
    }

    #[test]
    fn the_image_has_a_bar_for_each() {
        let svg = bars().svg();
        // One for each value, and one for each series in the legend.
        assert_eq!(svg.matches("<rect").count(), 6);
        assert!(svg.contains(">4,000<") && svg.contains(">another<"));
    }
}
