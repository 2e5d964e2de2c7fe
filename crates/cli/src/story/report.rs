//! The story as a page in a folder, with each drawing as an image beside it.

use std::io;
use std::path::{Path, PathBuf};

use super::chapter::{Check, Told};
use super::setting::Scene;
use crate::html::{Page, Part, Section, Table};
use crate::{Failure, Result};

/// Makes the folder, before there is anything to lose.
pub fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))
}

/// Writes the page and the images; says where the page is.
pub fn write(folder: &Path, scene: &Scene, chapters: &[Told]) -> Result<PathBuf> {
    let write = |name: &str, text: String| -> Result<PathBuf> {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| failed(&path, &error))?;
        Ok(path)
    };
    for told in chapters {
        for (place, drawing) in told.found.drawings.iter().enumerate() {
            let name = format!("{}-{}-{}.svg", told.number, told.name, place + 1);
            write(&name, drawing.svg())?;
        }
    }
    write("story.html", page(scene, chapters).html())
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    format!("{} cannot be written: {error}", path.display()).into()
}

fn page(scene: &Scene, chapters: &[Told]) -> Page {
    let row = |told: &Told| {
        let word = if told.ok() { "holds" } else { "does not hold" };
        vec![told.title(), word.to_owned(), told.verdict()]
    };
    let named = |line: [&str; 2]| line.map(str::to_owned).to_vec();
    Page {
        title: "Streampool: the story".to_owned(),
        lead: vec![
            Part::Text(format!("Told on this machine: {}.", scene.machine())),
            Part::Table(Table {
                head: Vec::new(),
                rows: scene.lines().into_iter().map(named).collect(),
            }),
            Part::Table(Table {
                head: Vec::new(),
                rows: chapters.iter().map(row).collect(),
            }),
        ],
        sections: chapters.iter().map(section).collect(),
    }
}

fn section(told: &Told) -> Section {
    let mut parts = vec![
        Part::Named("Claim.", told.claim.clone()),
        Part::Named("How it is measured.", told.how.clone()),
    ];
    for (what, sheet) in &told.found.tables {
        parts.push(Part::Text(what.clone()));
        parts.push(Part::Table(sheet.table()));
    }
    let drawings = &told.found.drawings;
    parts.extend(drawings.iter().map(|drawing| Part::Svg(drawing.svg())));
    let row = |check: &Check| {
        let word = if check.ok { "ok" } else { "FAILED" };
        vec![word.to_owned(), check.what.clone(), check.figures.clone()]
    };
    parts.push(Part::Table(Table {
        head: Vec::new(),
        rows: told.found.checks.iter().map(row).collect(),
    }));
    parts.push(Part::Verdict(told.ok(), told.verdict()));
    Section {
        title: told.title(),
        parts,
    }
}
