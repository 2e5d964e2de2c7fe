//! Figures in rows and columns: as people read them, and as programs do.

use serde_json::{Value, json};

use crate::html::Table;
use crate::text;

/// Figures in rows and columns.
pub struct Sheet {
    /// The names of the columns.
    pub head: &'static [&'static str],
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// A figure, or a word.
pub struct Cell {
    text: String,
    value: Value,
}

impl Cell {
    /// A word.
    pub fn word(word: impl Into<String>) -> Cell {
        let text = word.into();
        let value = json!(text);
        Cell { text, value }
    }

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

impl Sheet {
    /// It for people.
    pub fn table(&self) -> Table {
        let texts = |row: &Vec<Cell>| row.iter().map(|cell| cell.text.clone()).collect();
        Table {
            head: self.head.iter().map(|&name| name.to_owned()).collect(),
            rows: self.rows.iter().map(texts).collect(),
        }
    }

    /// It for programs: figures as they are.
    pub fn json(&self, what: &str) -> Value {
        let values = |row: &Vec<Cell>| row.iter().map(|cell| cell.value.clone()).collect();
        let rows: Vec<Vec<Value>> = self.rows.iter().map(values).collect();
        json!({ "what": what, "head": self.head, "rows": rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_programs_read_the_same_figures() {
        let sheet = Sheet {
            head: &["model", "runs/s", "of the ceiling", "error"],
            rows: vec![
                vec![
                    Cell::word("linear"),
                    Cell::rate(271_828.0),
                    Cell::figure(0.987_6),
                    Cell::small(6.2e-7, 1),
                ],
                vec![
                    Cell::word("other"),
                    Cell::count(1_234),
                    Cell::none(),
                    Cell::small(1e-5, 0),
                ],
            ],
        };
        let rows = sheet.table().rows;
        assert_eq!(rows[0], ["linear", "272 k", "0.99", "6.2e-7"]);
        assert_eq!(rows[1], ["other", "1,234", "-", "1e-5"]);
        let json = sheet.json("runs");
        assert_eq!(json["head"][1], "runs/s");
        assert_eq!(
            json["rows"],
            json!([
                ["linear", 271_828.0, 0.987_6, 6.2e-7],
                ["other", 1_234, null, 1e-5]
            ])
        );
    }
}
