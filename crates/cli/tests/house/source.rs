//! Rust source as the laws read it: each line split into its code and its comment.

use std::path::{Path, PathBuf};

/// A source file of the workspace.
pub struct Source {
    /// Its path from the root of the workspace, with forward slashes.
    pub path: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A line of source.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// What the compiler sees, with the contents of literals left out.
    pub code: String,
    /// The text of its comments.
    pub comment: String,
    /// The contents of its string literals.
    pub text: String,
}

impl Source {
    /// Reads a file below the root of the workspace.
    pub fn read(root: &Path, file: &Path) -> Source {
        let path = file.strip_prefix(root).expect("a file of the workspace");
        let path = path.to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{path}: {e}"));
        Source {
            path,
            lines: split(&text),
        }
    }

    /// The lines, numbered from 1, that are compiled outside tests: those of no test module.
    pub fn shipped(&self) -> Vec<(usize, &Line)> {
        let mut shipped = Vec::new();
        if self.path.ends_with("/tests.rs") || self.path.contains("/src/tests/") {
            return shipped;
        }
        let (mut marked, mut inside) = (false, false);
        for (index, line) in self.lines.iter().enumerate() {
            let opens = line.code.starts_with("mod ") && line.code.ends_with('{');
            inside |= marked && opens;
            if inside {
                inside = !line.code.starts_with('}');
            } else {
                shipped.push((index + 1, line));
            }
            marked = line.code.starts_with("#[cfg(") && has_word(&line.code, "test");
        }
        shipped
    }
}

/// All files below `folder` whose names end so, sorted.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return found;
    };
    for entry in entries {
        let path = entry.expect("a folder that can be read").path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Whether `word` stands in `code` by itself, not as a part of a longer name.
pub fn has_word(code: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(part_of_name) && !code[at + word.len()..].starts_with(part_of_name)
    })
}

/// Where the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text { hashes: Option<usize> },
}

/// Splits a file into lines of code and comment.
pub fn split(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        if rest[0] == '\n' {
            if state == State::LineComment {
                state = State::Code;
            }
            lines.push(Line::default());
            at += 1;
            continue;
        }
        let line = lines.last_mut().expect("a first line");
        let (next, taken) = match state {
            State::Code => code(rest, chars[..at].last().copied(), line),
            State::LineComment => {
                line.comment.push(rest[0]);
                (state, 1)
            }
            State::BlockComment { depth } => block_comment(rest, depth, line),
            State::Text { hashes } => literal(rest, hashes, line),
        };
        state = next;
        at += taken;
    }
    if text.ends_with('\n') {
        lines.pop();
    }
    lines
}

fn code(rest: &[char], before: Option<char>, line: &mut Line) -> (State, usize) {
    if rest.starts_with(&['/', '/']) {
        return (State::LineComment, 2);
    }
    if rest.starts_with(&['/', '*']) {
        return (State::BlockComment { depth: 1 }, 2);
    }
    if rest[0] == '"' {
        line.code.push('"');
        return (State::Text { hashes: None }, 1);
    }
    let in_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if let Some(taken) = (!in_name).then(|| raw_literal_opening(rest)).flatten() {
        line.code.push('"');
        let hashes = rest[..taken].iter().filter(|&&c| c == '#').count();
        return (
            State::Text {
                hashes: Some(hashes),
            },
            taken,
        );
    }
    if let Some(taken) = char_literal(rest) {
        line.code.push_str("' '");
        return (State::Code, taken);
    }
    line.code.push(rest[0]);
    (State::Code, 1)
}

/// The length of `r"`, `r#"`, `br"`, `cr"` and so on at the start.
fn raw_literal_opening(rest: &[char]) -> Option<usize> {
    let prefix = usize::from(matches!(rest[0], 'b' | 'c'));
    if rest.get(prefix) != Some(&'r') {
        return None;
    }
    let hashes = rest[prefix + 1..].iter().take_while(|&&c| c == '#').count();
    let quote = prefix + 1 + hashes;
    (rest.get(quote) == Some(&'"')).then_some(quote + 1)
}

/// The length of a character literal at the start; a lifetime is none.
fn char_literal(rest: &[char]) -> Option<usize> {
    match rest {
        ['\'', '\\', _, tail @ ..] => tail.iter().position(|&c| c == '\'').map(|end| end + 4),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

fn block_comment(rest: &[char], depth: usize, line: &mut Line) -> (State, usize) {
    if rest.starts_with(&['/', '*']) {
        return (State::BlockComment { depth: depth + 1 }, 2);
    }
    if rest.starts_with(&['*', '/']) {
        return match depth {
            1 => (State::Code, 2),
            _ => (State::BlockComment { depth: depth - 1 }, 2),
        };
    }
    line.comment.push(rest[0]);
    (State::BlockComment { depth }, 1)
}

fn literal(rest: &[char], hashes: Option<usize>, line: &mut Line) -> (State, usize) {
    let inside = State::Text { hashes };
    if hashes.is_none() && rest[0] == '\\' && rest.get(1).is_some_and(|&c| c != '\n') {
        line.text.extend(&rest[..2]);
        return (inside, 2);
    }
    let closing = hashes.unwrap_or(0);
    let closed =
        rest[0] == '"' && rest.len() > closing && rest[1..=closing].iter().all(|&c| c == '#');
    if closed {
        line.code.push('"');
        line.text.push(' ');
        return (State::Code, 1 + closing);
    }
    line.text.push(rest[0]);
    (inside, 1)
}
