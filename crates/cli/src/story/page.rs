//! The story as text.

use std::fmt::Write;

use super::verdict::Told;
use crate::machine::Machine;
use crate::table::{Align, Table, WIDTH, wrap};

/// Every chapter: its question, what was shown, and the answer.
pub fn page(machine: &Machine, chapters: &[Told]) -> String {
    let mut page = format!("Streampool on this machine: {}\n", machine.line());
    for told in chapters {
        let _ = writeln!(page, "\n{}: {}\n", capitalised(told.name), told.question);
        let mut table = Table::new(2, &[Align::Left, Align::Left, Align::Left]);
        for step in &told.steps {
            let verdict = if step.verdict.ok { "ok" } else { "FAILED" };
            table.row([verdict, &step.what, &step.verdict.figures]);
        }
        page.push_str(&table.render());
        let answer = format!("{} ({:.1} s)", told.answer, told.seconds);
        page.push('\n');
        for line in wrap(&answer, WIDTH) {
            let _ = writeln!(page, "{line}");
        }
    }
    page
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
