//! A report as one HTML file that needs nothing from elsewhere.

use std::fmt::Write;

/// The report.
#[derive(Debug)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// What is said before the first section.
    pub lead: Vec<Part>,
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
#[derive(Debug)]
pub enum Part {
    /// A paragraph.
    Text(String),
    /// A paragraph that begins with a word for what it is.
    Named(&'static str, String),
    /// Rows of cells.
    Table(Table),
    /// An image, as `plot` makes it.
    Svg(String),
    /// Whether something held, and in which words.
    Verdict(bool, String),
}

/// Rows of cells below a head. What looks like a number goes to the right.
#[derive(Debug, Clone)]
pub struct Table {
    /// The names of the columns; empty for a table without.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
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
        page.extend(self.lead.iter().map(Part::html));
        for section in &self.sections {
            let _ = writeln!(page, "<h2>{}</h2>", escaped(&section.title));
            page.extend(section.parts.iter().map(Part::html));
        }
        page.push_str("</html>\n");
        page
    }
}

impl Part {
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
            Part::Svg(image) => image.clone(),
            Part::Verdict(good, text) => {
                let (class, word) = match good {
                    true => ("verdict", "It holds."),
                    false => ("verdict bad", "It does not hold."),
                };
                format!(
                    "<p class=\"{class}\"><strong>{word}</strong> {}</p>\n",
                    escaped(text)
                )
            }
        }
    }
}

impl Table {
    fn html(&self) -> String {
        let mut html = "<div class=\"wide\"><table>\n".to_owned();
        if !self.head.is_empty() {
            html += &self.row("th", &self.head);
        }
        html.extend(self.rows.iter().map(|row| self.row("td", row)));
        html + "</table></div>\n"
    }

    fn row(&self, tag: &str, cells: &[String]) -> String {
        let mut html = "<tr>".to_owned();
        for (column, cell) in cells.iter().enumerate() {
            let class = match self.counts(column) {
                true => " class=\"number\"",
                false => "",
            };
            let _ = write!(html, "<{tag}{class}>{}</{tag}>", escaped(cell));
        }
        html + "</tr>\n"
    }

    /// Whether a column holds numbers; a dash stands for one that is not there.
    pub fn counts(&self, column: usize) -> bool {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let mut filled = cells.filter(|cell| !cell.is_empty()).peekable();
        filled.peek().is_some() && filled.all(|cell| cell == "-" || is_number(cell))
    }
}

/// Whether it is a number, perhaps with a unit behind it.
fn is_number(text: &str) -> bool {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    number.replace(',', "").parse::<f64>().is_ok() && unit.len() <= 3
}

/// Text as it stands in HTML and SVG.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_words() {
        for number in ["31", "1,200", "0.93", "6.2e-7", "1.95 M", "99 %", "12 k/s"] {
            assert!(is_number(number), "{number}");
        }
        for other in ["2 Scaling", "0.93, at least 0.7", "8 threads", "linear", ""] {
            assert!(!is_number(other), "{other}");
        }
    }

    #[test]
    fn a_page_holds_all_of_it_and_nothing_from_elsewhere() {
        let strings = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect();
        let page = Page {
            title: "A <report>".to_owned(),
            lead: vec![Part::Text("first & foremost".to_owned())],
            sections: vec![Section {
                title: "One".to_owned(),
                parts: vec![
                    Part::Named("Claim", "it holds".to_owned()),
                    Part::Table(Table {
                        head: strings(&["what", "how often"]),
                        rows: vec![strings(&["runs", "1,200"]), strings(&["faults", "0"])],
                    }),
                    Part::Svg("<svg></svg>".to_owned()),
                    Part::Verdict(false, "2 of 3".to_owned()),
                ],
            }],
        };
        let html = page.html();
        for part in [
            "<title>A &lt;report&gt;</title>",
            "<p>first &amp; foremost</p>",
            "<p><strong>Claim</strong> it holds</p>",
            "<tr><th>what</th><th class=\"number\">how often</th></tr>",
            "<tr><td>runs</td><td class=\"number\">1,200</td></tr>",
            "<svg></svg>",
            "It does not hold.</strong> 2 of 3",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert!(
            !html.contains("http") && !html.contains("<script"),
            "{html}"
        );
    }
}
