//! A report: as text for a terminal, and as one HTML file that needs nothing from elsewhere.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::plot::{Bars, Plot};
use crate::table::{self, Align, width, wrap};
use crate::text::{self, escaped};

/// The report.
#[derive(Debug, Default)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// What it is about.
    pub about: Vec<Part>,
    /// What it comes to: in HTML before the sections, in a terminal behind them, where the last lines are seen.
    pub sum: Vec<Part>,
    /// The sections, in order.
    pub sections: Vec<Section>,
}

/// A section.
#[derive(Debug)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// What is in it, in order.
    pub parts: Vec<Part>,
}

/// A part of a section.
#[derive(Debug, Clone)]
pub enum Part {
    /// A paragraph.
    Text(String),
    /// A paragraph that begins with a word for what it is.
    Named(&'static str, String),
    /// Rows of cells.
    Table(Table),
    /// Lines over axes.
    Plot(Plot),
    /// Bars side by side.
    Bars(Bars),
    /// Whether something held, and in which words.
    Verdict(bool, String),
}

/// Rows of cells below a head. What looks like a number goes to the right.
#[derive(Debug, Clone)]
pub struct Table {
    /// The names of the columns; empty for a table without.
    pub head: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// A figure, as people read it and as programs do, or a word.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    value: Value,
}

impl<T: Into<String>> From<T> for Cell {
    /// A word.
    fn from(word: T) -> Cell {
        let text = word.into();
        let value = json!(text);
        Cell { text, value }
    }
}

impl Cell {
    /// How many there are.
    pub fn count(count: usize) -> Cell {
        Cell {
            text: text::count(count as u64),
            value: json!(count),
        }
    }

    /// So many a second.
    pub fn rate(rate: f64) -> Cell {
        Cell {
            text: text::compact(rate),
            value: json!(rate),
        }
    }

    /// A figure of a common size, such as one beside another.
    pub fn figure(figure: f64) -> Cell {
        Cell {
            text: text::figure(figure),
            value: json!(figure),
        }
    }

    /// A part that is small.
    pub fn small(part: f64, digits: usize) -> Cell {
        Cell {
            text: format!("{part:.digits$e}"),
            value: json!(part),
        }
    }

    /// Nothing is known.
    pub fn none() -> Cell {
        Cell {
            text: "-".to_owned(),
            value: Value::Null,
        }
    }
}

const STYLE: &str = "\
:root { color-scheme: light dark; --line: #8884; --good: #16a34a; --bad: #dc2626 }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
table { border-collapse: collapse; font-size: 0.9rem; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: 0.2rem 1rem 0.2rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
th { font-weight: 600 } td:first-child { white-space: nowrap } .number { text-align: right }
.wide { overflow-x: auto }
svg { color: inherit; max-width: 100%; height: auto; display: block; margin: 1rem 0 }
.verdict { border-left: 4px solid var(--good); padding-left: 0.8rem }
.verdict.bad { border-color: var(--bad) }";

impl Page {
    /// It as HTML.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{title}</title>\n<style>\n{STYLE}\n</style>\n<h1>{title}</h1>\n"
        );
        page.extend(self.about.iter().chain(&self.sum).map(Part::html));
        for section in &self.sections {
            let _ = writeln!(page, "<h2>{}</h2>", escaped(&section.title));
            page.extend(section.parts.iter().map(Part::html));
        }
        page + "</html>\n"
    }

    /// It for a terminal.
    pub fn text(&self) -> String {
        let mut page = wrap(&self.title, width()).join("\n") + "\n";
        page += &text_of(&self.about);
        for section in &self.sections {
            let _ = write!(page, "\n{}\n", section.title);
            page += &text_of(&section.parts);
        }
        page + &text_of(&self.sum)
    }
}

/// Parts for a terminal, with blank lines between those that do not belong together.
fn text_of(parts: &[Part]) -> String {
    let mut text = String::new();
    let mut before: Option<&Part> = None;
    for part in parts {
        let joined = matches!(
            (before, part),
            (Some(Part::Text(_)), Part::Table(_)) | (Some(Part::Named(..)), Part::Named(..))
        );
        if !joined {
            text.push('\n');
        }
        text += &part.text();
        before = Some(part);
    }
    text
}

impl Part {
    /// A table of names and what is said of them.
    pub fn pairs<'a>(rows: impl IntoIterator<Item = [&'a str; 2]>) -> Part {
        let row = |row: [&str; 2]| row.map(Cell::from).to_vec();
        Part::Table(Table {
            head: Vec::new(),
            rows: rows.into_iter().map(row).collect(),
        })
    }

    fn html(&self) -> String {
        match self {
            Part::Text(text) => format!("<p>{}</p>\n", escaped(text)),
            Part::Named(name, text) => {
                format!(
                    "<p><strong>{}</strong> {}</p>\n",
                    escaped(name),
                    escaped(text)
                )
            }
            Part::Table(table) => table.html(),
            Part::Plot(plot) => plot.svg(),
            Part::Bars(bars) => bars.svg(),
            Part::Verdict(good, text) => {
                let class = if *good { "verdict" } else { "verdict bad" };
                let (word, text) = (verdict(*good), escaped(text));
                format!("<p class=\"{class}\"><strong>{word}</strong> {text}</p>\n")
            }
        }
    }

    fn text(&self) -> String {
        let drawing = |drawing: String| {
            let lines = drawing.lines().map(|line| format!("  {line}"));
            lines
                .map(|line| line.trim_end().to_owned() + "\n")
                .collect()
        };
        match self {
            Part::Text(text) => wrap(text, width()).join("\n") + "\n",
            Part::Named(name, text) => {
                let mut table = table::Table::pairs(2);
                table.row([name, &text[..]]);
                table.render()
            }
            Part::Table(table) => table.text(),
            Part::Plot(plot) => drawing(plot.terminal(width() - 2, 12)),
            Part::Bars(bars) => drawing(bars.terminal(width() - 2)),
            Part::Verdict(good, text) => {
                wrap(&format!("{} {text}", verdict(*good)), width()).join("\n") + "\n"
            }
        }
    }

    /// The image, where it is one.
    pub fn svg(&self) -> Option<String> {
        match self {
            Part::Plot(plot) => Some(plot.svg()),
            Part::Bars(bars) => Some(bars.svg()),
            _ => None,
        }
    }
}

fn verdict(good: bool) -> &'static str {
    match good {
        true => "It holds.",
        false => "It does not hold.",
    }
}

impl Table {
    fn html(&self) -> String {
        let row = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
            let mut html = "<tr>".to_owned();
            for (column, cell) in cells.enumerate() {
                let class = match self.counts(column) {
                    true => " class=\"number\"",
                    false => "",
                };
                let _ = write!(html, "<{tag}{class}>{}</{tag}>", escaped(cell));
            }
            html + "</tr>\n"
        };
        let mut html = "<div class=\"wide\"><table>\n".to_owned();
        if !self.head.is_empty() {
            html += &row("th", &mut self.head.iter().copied());
        }
        for cells in &self.rows {
            html += &row("td", &mut cells.iter().map(|cell| &cell.text[..]));
        }
        html + "</table></div>\n"
    }

    fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let align = |column| match self.counts(column) {
            true => Align::Right,
            false => Align::Left,
        };
        let mut text = table::Table::new(2, &(0..columns).map(align).collect::<Vec<_>>());
        if !self.head.is_empty() {
            text.row(self.head.iter().copied());
        }
        for row in &self.rows {
            text.row(row.iter().map(|cell| &cell.text[..]));
        }
        text.render()
    }

    /// It for programs: figures as they are.
    pub fn json(&self, what: &str) -> Value {
        let values = |row: &Vec<Cell>| row.iter().map(|cell| cell.value.clone()).collect();
        let rows: Vec<Vec<Value>> = self.rows.iter().map(values).collect();
        json!({ "what": what, "head": self.head, "rows": rows })
    }

    /// Whether a column holds numbers; a dash stands for one that is not there.
    fn counts(&self, column: usize) -> bool {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let texts = cells.map(|cell| &cell.text[..]);
        let mut filled = texts.filter(|text| !text.is_empty()).peekable();
        filled.peek().is_some() && filled.all(|text| text == "-" || is_number(text))
    }
}

/// Whether it is a number, perhaps with a unit or a sign for more behind it.
fn is_number(text: &str) -> bool {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = number.trim_end_matches('+').replace(',', "");
    number.parse::<f64>().is_ok() && unit.len() <= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_words() {
        for number in [
            "31", "1,200", "0.93", "6.2e-7", "1.95 M", "99 %", "12 k/s", "7.1+",
        ] {
            assert!(is_number(number), "{number}");
        }
        for other in ["2 Scaling", "0.93, at least 0.7", "8 threads", "linear", ""] {
            assert!(!is_number(other), "{other}");
        }
    }

    fn table() -> Table {
        Table {
            head: vec!["model", "runs/s", "of the ceiling", "error"],
            rows: vec![
                vec![
                    "linear".into(),
                    Cell::rate(271_828.0),
                    Cell::figure(0.987_6),
                    Cell::small(6.2e-7, 1),
                ],
                vec![
                    "other".into(),
                    Cell::count(1_234),
                    Cell::none(),
                    Cell::small(1e-5, 0),
                ],
            ],
        }
    }

    #[test]
    fn people_and_programs_read_the_same_figures() {
        let text = table().text();
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(rows[1], ["linear", "272", "k", "0.99", "6.2e-7"]);
        assert_eq!(rows[2], ["other", "1,234", "-", "1e-5"]);
        let json = table().json("runs");
        assert_eq!(json["head"][1], "runs/s");
        let rows = json!([
            ["linear", 271_828.0, 0.987_6, 6.2e-7],
            ["other", 1_234, null, 1e-5]
        ]);
        assert_eq!(json["rows"], rows);
    }

    #[test]
    fn a_page_holds_all_of_it_and_nothing_from_elsewhere() {
        let page = Page {
            title: "A <report>".to_owned(),
            about: vec![Part::Text("first & foremost".to_owned())],
            sum: vec![Part::Text("that is it".to_owned())],
            sections: vec![Section {
                title: "One".to_owned(),
                parts: vec![
                    Part::Named("Claim.", "it holds".to_owned()),
                    Part::Table(table()),
                    Part::Verdict(false, "2 of 3".to_owned()),
                ],
            }],
        };
        let html = page.html();
        for part in [
            "<title>A &lt;report&gt;</title>",
            "<p>first &amp; foremost</p>\n<p>that is it</p>",
            "<p><strong>Claim.</strong> it holds</p>",
            "<tr><th>model</th><th class=\"number\">runs/s</th>",
            "<tr><td>other</td><td class=\"number\">1,234</td>",
            "It does not hold.</strong> 2 of 3",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert!(
            !html.contains("http") && !html.contains("<script"),
            "{html}"
        );
        let text = page.text();
        assert!(
            text.starts_with("A <report>\n\nfirst & foremost\n\nOne\n\n  Claim.  it holds\n\n")
        );
        assert!(
            text.ends_with("\n\nIt does not hold. 2 of 3\n\nthat is it\n"),
            "{text}"
        );
    }
}
