//! Plots in characters: lines of dots, eight to a character, and a mark on each point.

use std::fmt::Write;

use super::lines::Plot;
use super::range::Tick;

/// What stands for the points of a series.
const MARKS: [char; 6] = ['●', '■', '▲', '◆', '○', '□'];

/// The character with no dots; each bit above it is a dot.
const BLANK: u32 = 0x2800;

/// The bits of the dots of a character, from left to right in rows from the top.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// The mark of the series of this number.
fn mark(number: usize) -> char {
    MARKS[number % MARKS.len()]
}

impl Plot {
    /// It in so many columns and lines of characters, title and legend aside.
    pub fn terminal(&self, width: usize, height: usize) -> String {
        plot(self, width, height)
    }
}

fn plot(plot: &Plot, width: usize, height: usize) -> String {
    let (x, y, lines) = plot.placed();
    let y_ticks = y.ticks(height.div_ceil(2).min(7));
    let margin = y_ticks
        .iter()
        .map(|tick| tick.label.chars().count())
        .max()
        .unwrap_or(0);
    let mut canvas = Canvas::new(width.saturating_sub(margin + 2).max(8), height.max(2));
    for line in &lines {
        for ends in line.windows(2) {
            canvas.line(ends[0], ends[1]);
        }
    }
    // Marks go over all lines, those of the first series over the others'.
    for (number, line) in lines.iter().enumerate().rev() {
        for &point in line {
            canvas.mark(point, mark(number));
        }
    }
    let mut text = format!("{}\n{}\n", plot.title, plot.y.label);
    let label_of_row = |row: usize| {
        let tick = y_ticks.iter().find(|tick| canvas.row(tick.place) == row);
        tick.map(|tick| &tick.label[..])
    };
    for row in 0..canvas.rows() {
        let label = label_of_row(row).unwrap_or("");
        let edge = if label.is_empty() { '│' } else { '┤' };
        let line = format!("{label:>margin$} {edge}{}", canvas.text(row));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let indent = " ".repeat(margin + 1);
    let x_ticks = x.ticks((canvas.columns() / 8).max(2));
    let _ = writeln!(text, "{indent}└{}", "─".repeat(canvas.columns()));
    let labels = spread(&x_ticks, &canvas);
    let _ = writeln!(text, "{indent} {labels}");
    let middle = canvas
        .columns()
        .saturating_sub(plot.x.label.chars().count())
        / 2;
    let _ = writeln!(text, "{indent} {}{}", " ".repeat(middle), plot.x.label);
    text.push_str(&legend(plot, width));
    text
}

/// The numbers below an axis, each around its place as far as there is room.
fn spread(ticks: &[Tick], canvas: &Canvas) -> String {
    let mut line = String::new();
    let mut end = 0;
    for tick in ticks {
        let width = tick.label.chars().count();
        let middle = canvas.column(tick.place);
        let begin = middle.saturating_sub(width / 2);
        let begin = begin.min(canvas.columns().saturating_sub(width));
        if end > 0 && begin <= end {
            continue;
        }
        let _ = write!(line, "{}{}", " ".repeat(begin - end), tick.label);
        end = begin + width;
    }
    line
}

/// The names beside their marks, in lines that fit.
fn legend(plot: &Plot, width: usize) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for (number, series) in plot.series.iter().enumerate() {
        let entry = format!("{} {}", mark(number), series.name);
        let more = entry.chars().count();
        if used > 0 && used + 3 + more > width {
            text.push('\n');
            used = 0;
        }
        if used > 0 {
            text.push_str("   ");
            used += 3;
        }
        text.push_str(&entry);
        used += more;
    }
    if used > 0 {
        text.push('\n');
    }
    text
}

/// Rows of characters, made of dots and of marks.
struct Canvas {
    columns: usize,
    cells: Vec<Vec<char>>,
}

impl Canvas {
    fn new(columns: usize, rows: usize) -> Canvas {
        let blank = char::from_u32(BLANK).unwrap_or(' ');
        Canvas {
            columns,
            cells: vec![vec![blank; columns]; rows],
        }
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn rows(&self) -> usize {
        self.cells.len()
    }

    /// The column of a place, in parts of the width.
    fn column(&self, place: f64) -> usize {
        dot(place, 2 * self.columns) / 2
    }

    /// The row of a place, in parts of the height.
    fn row(&self, place: f64) -> usize {
        dot(1.0 - place, 4 * self.rows()) / 4
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let (wide, high) = (2 * self.columns, 4 * self.rows());
        let steps = ((to.0 - from.0).abs() * wide as f64)
            .max((to.1 - from.1).abs() * high as f64)
            .ceil() as usize;
        for step in 0..=steps {
            let part = step as f64 / steps.max(1) as f64;
            let x = from.0 + part * (to.0 - from.0);
            let y = from.1 + part * (to.1 - from.1);
            let (x, y) = (dot(x, wide), dot(1.0 - y, high));
            let cell = &mut self.cells[y / 4][x / 2];
            *cell = char::from_u32(*cell as u32 | DOTS[y % 4][x % 2]).unwrap_or(*cell);
        }
    }

    fn mark(&mut self, (x, y): (f64, f64), mark: char) {
        let (row, column) = (self.row(y), self.column(x));
        self.cells[row][column] = mark;
    }

    fn text(&self, row: usize) -> String {
        let line: String = self.cells[row].iter().collect();
        line.replace(char::from_u32(BLANK).unwrap_or(' '), " ")
    }
}

/// Which of so many dots a part of them all is.
fn dot(part: f64, dots: usize) -> usize {
    ((part * (dots - 1) as f64).round().max(0.0) as usize).min(dots - 1)
}

#[cfg(test)]
mod tests {
    use crate::plot::{Axis, Plot, Scale, Series};

    #[test]
    fn it_is_drawn_where_it_belongs() {
        let plot = Plot {
            title: "Rate".to_owned(),
            x: Axis::new("threads", Scale::Log2),
            y: Axis::new("runs/s", Scale::Linear),
            series: vec![
                Series::new("ours", [(1.0, 0.0), (4.0, 50.0), (16.0, 100.0)]),
                Series::new("ceiling", [(1.0, 100.0), (16.0, 100.0)]),
            ],
        };
        let text = plot.terminal(40, 9);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(&lines[..2], ["Rate", "runs/s"]);
        assert!(
            lines[2].starts_with("100 ┤■") && lines[2].ends_with('●'),
            "{text}"
        );
        assert!(lines[10].starts_with("  0 ┤●"), "{text}");
        // The middle one stands in the middle of both.
        let middle: Vec<char> = lines[6].chars().collect();
        assert_eq!(middle[5 + 17], '●', "{text}");
        assert_eq!(
            lines[12].split_whitespace().collect::<Vec<_>>(),
            ["1", "4", "16"]
        );
        assert_eq!(lines[13].trim(), "threads");
        assert_eq!(lines[14], "● ours   ■ ceiling");
        for line in lines {
            assert!(
                line.chars().count() <= 40 && line == line.trim_end(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_long_legend_goes_on_below() {
        let plot = Plot {
            title: String::new(),
            x: Axis::new("x", Scale::Linear),
            y: Axis::new("y", Scale::Log10),
            series: (0..5)
                .map(|number| Series::new(format!("number {number}"), [(1.0, 1.0)]))
                .collect(),
        };
        let text = plot.terminal(30, 4);
        assert!(
            text.ends_with("● number 0   ■ number 1\n▲ number 2   ◆ number 3\n○ number 4\n"),
            "{text}"
        );
    }
}
