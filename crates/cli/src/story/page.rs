//! The story as text.

use std::fmt::Write;
use std::path::Path;

use super::chapter::{Check, Told};
use super::setting::Scene;
use crate::html;
use crate::table::{Align, Table, width, wrap};

/// Every chapter: what it claims, how that was measured, the figures, and whether it holds.
pub fn page(scene: &Scene, chapters: &[Told], written: Option<&Path>) -> String {
    let mut names = Table::pairs(2);
    scene.lines().into_iter().for_each(|line| names.row(line));
    let names = names.render();
    let mut page = format!("Streampool on this machine: {}\n\n{names}", scene.machine());
    for told in chapters {
        let _ = writeln!(page, "\n{}\n", told.title().to_uppercase());
        let mut words = Table::pairs(2);
        words.row(["claim", &told.claim]);
        words.row(["how", &told.how]);
        page.push_str(&words.render());
        for (what, sheet) in &told.found.tables {
            let _ = write!(page, "\n  {what}\n{}", figures(&sheet.table()));
        }
        for drawing in &told.found.drawings {
            page.push('\n');
            for line in drawing.terminal(width() - 2).lines() {
                let _ = writeln!(page, "{}", format!("  {line}").trim_end());
            }
        }
        let _ = write!(page, "\n{}\n", checks(&told.found.checks));
        let answer = match told.ok() {
            true => "It holds.",
            false => "It does not hold.",
        };
        let answer = format!("{answer} {} ({:.1} s)", told.verdict(), told.seconds);
        for line in wrap(&answer, width() - 2) {
            let _ = writeln!(page, "  {line}");
        }
    }
    let held = chapters.iter().filter(|told| told.ok()).count();
    let seconds: f64 = chapters.iter().map(|told| told.seconds).sum();
    let _ = writeln!(
        page,
        "\n{held} of {} claims hold ({seconds:.0} s).",
        chapters.len()
    );
    if let Some(path) = written {
        let _ = writeln!(page, "The page with all drawings is {}", path.display());
    }
    page
}

fn checks(checks: &[Check]) -> String {
    let mut table = Table::new(2, &[Align::Left, Align::Left, Align::Left]);
    for check in checks {
        let verdict = if check.ok { "ok" } else { "FAILED" };
        table.row([verdict, &check.what, &check.figures]);
    }
    table.render()
}

fn figures(table: &html::Table) -> String {
    let align = |column| match table.counts(column) {
        true => Align::Right,
        false => Align::Left,
    };
    let columns: Vec<Align> = (0..table.head.len()).map(align).collect();
    let mut text = Table::new(4, &columns);
    for row in std::iter::once(&table.head).chain(&table.rows) {
        text.row(row.iter().map(String::as_str));
    }
    text.render()
}
