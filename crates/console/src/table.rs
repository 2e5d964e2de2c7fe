//! Text in columns, for a terminal of 80, or a narrower one.

use std::fmt::Write;

/// How wide a line may be at most.
const WIDTH: usize = 80;

/// How narrow a terminal may be for text to fit.
const NARROWEST: usize = 40;

/// How wide a line of standard output may be.
pub fn width() -> usize {
    width_of(std::io::stdout())
}

/// How wide a line may be there: as wide as the terminal, if that is narrow.
pub fn width_of(stream: impl std::os::fd::AsFd) -> usize {
    let columns = terminal_size::terminal_size_of(stream);
    let columns = columns.map(|(columns, _)| usize::from(columns.0));
    columns.unwrap_or(WIDTH).clamp(NARROWEST, WIDTH)
}

/// The space between two columns.
const GAP: usize = 2;

/// To which side the cells of a column go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// To the left.
    Left,
    /// To the right.
    Right,
}

/// Rows of cells, as wide as they have to be. What is too long in the last column goes on below.
pub struct Table {
    indent: usize,
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table, this far from the margin.
    pub fn new(indent: usize, columns: &[Align]) -> Self {
        Table {
            indent,
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// A table of names and what is said of them.
    pub fn pairs(indent: usize) -> Self {
        Table::new(indent, &[Align::Left, Align::Left])
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Adds a row of a name and what is said of it.
    pub fn pair(&mut self, name: impl Into<String>, told: impl Into<String>) {
        self.rows.push(vec![name.into(), told.into()]);
    }

    /// The rows as text, each line ended.
    pub fn render(&self) -> String {
        self.within(width())
    }

    fn within(&self, most: usize) -> String {
        let last = self.columns.len().saturating_sub(1);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| self.width_of(column))
            .collect();
        let before_last = self.indent
            + widths[..last]
                .iter()
                .map(|width| width + GAP)
                .sum::<usize>();
        let room = most.saturating_sub(before_last).max(20);
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            for (column, cell) in row.iter().take(last).enumerate() {
                let padding = " ".repeat(widths[column] - length(cell));
                match self.columns[column] {
                    Align::Left => line.extend([cell.as_str(), &padding]),
                    Align::Right => line.extend([padding.as_str(), cell]),
                }
                line.push_str(&" ".repeat(GAP));
            }
            let mut pieces = wrap(row.get(last).map_or("", String::as_str), room).into_iter();
            let first = pieces.next().unwrap_or_default();
            if self.columns[last] == Align::Right {
                line.push_str(&" ".repeat(widths[last].min(room).saturating_sub(length(&first))));
            }
            line.push_str(&first);
            let _ = writeln!(text, "{}", line.trim_end());
            for piece in pieces {
                let _ = writeln!(text, "{}{piece}", " ".repeat(before_last));
            }
        }
        text
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| length(cell)).max().unwrap_or(0)
    }
}

/// `text` in lines of at most `width`, broken between words where it can be.
pub fn wrap(text: &str, width_of_line: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && length(&line) + 1 + length(word) > width_of_line {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(2, &[Align::Left, Align::Right, Align::Left]);
        table.row(["lookup", "4.2 ns", "ok"]);
        table.row(["a longer name", "150 ns", ""]);
        assert_eq!(
            table.render(),
            "  lookup         4.2 ns  ok\n  a longer name  150 ns\n"
        );
    }

    #[test]
    fn a_narrow_terminal_gets_narrow_lines() {
        let mut table = Table::pairs(4);
        table.row(["name", &"word ".repeat(30)]);
        let text = table.within(NARROWEST);
        assert!(text.lines().all(|line| line.len() <= NARROWEST), "{text}");
    }

    #[test]
    fn the_last_column_goes_on_below() {
        let mut table = Table::pairs(4);
        table.row(["name", &"word ".repeat(30)]);
        let text = table.render();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines.len() > 1 && lines.iter().all(|line| line.len() <= WIDTH),
            "{text}"
        );
        assert!(lines[1].starts_with("          word"), "{text}");
    }

    #[test]
    fn a_word_that_fits_nowhere_stays_whole() {
        assert_eq!(
            wrap("a incomprehensibilities b", 10),
            ["a", "incomprehensibilities", "b"]
        );
        assert_eq!(wrap("", 10), [""]);
    }
}
