//! Lists that are as long as a shape, a file or a request says end the process where there is not so much memory. Clippy sees some
//! ways to make them (`clippy.toml` of the crates); these it does not see.

use super::{assert_none, sources};

/// The crates that read shapes, files and requests of others. The host has a lint of its own.
const CRATES: [&str; 3] = [
    "crates/tensor/src/",
    "crates/model/src/",
    "crates/batch/src/",
];

/// How long a list may be that is made of one value: as long as a shape has axes, or another list elements.
const BOUNDED: [&str; 3] = ["rank", "len()", "value_count()"];

/// Other lengths, and what bounds them.
const REASONS: [(&str, &str); 2] = [
    ("missing", "axes that a shape lacks"),
    ("parts(LENGTH, whole)?", "a million at most: `MOST_PARTS`"),
];

/// How often a line says that something is repeated.
fn lengths(code: &str) -> Vec<&str> {
    let mut lengths = Vec::new();
    for (opening, separator, closing) in [("vec![", "; ", ']'), ("repeat_n(", ", ", ')')] {
        for (start, _) in code.match_indices(opening) {
            let inside = &code[start + opening.len()..];
            let mut depth = 0;
            let end = inside.find(|c: char| {
                match c {
                    '[' | '(' => depth += 1,
                    ']' | ')' if depth == 0 => return c == closing,
                    ']' | ')' => depth -= 1,
                    _ => {}
                }
                false
            });
            let inside = &inside[..end.unwrap_or(inside.len())];
            lengths.extend(inside.rsplit_once(separator).map(|(_, length)| length));
        }
    }
    lengths
}

fn is_bounded(length: &str) -> bool {
    let is_number = length.bytes().all(|c| c.is_ascii_digit() || c == b'_');
    is_number
        || BOUNDED.iter().any(|end| length.contains(end))
        || REASONS.iter().any(|(known, _)| *known == length)
}

#[test]
fn one_value_is_repeated_only_as_often_as_something_bounds() {
    let mut violations = Vec::new();
    for source in sources("src") {
        let is_test = source.path.contains("/tests/");
        if is_test || !CRATES.iter().any(|folder| source.path.starts_with(folder)) {
            continue;
        }
        for (number, line) in source.shipped() {
            for length in lengths(&line.code)
                .into_iter()
                .filter(|length| !is_bounded(length))
            {
                violations.push(format!("{}:{number}: {length}", source.path));
            }
        }
    }
    assert_none(
        "Ask for as many through `tensor::room`, which may be refused, or say in REASONS of this test what bounds them:",
        &violations,
    );
}

#[test]
fn what_repeats_a_value_is_seen() {
    assert_eq!(lengths("let a = vec![0; size];"), ["size"]);
    assert_eq!(
        lengths("&vec![(0, 0); self.rank()], vec![1; 3]"),
        ["self.rank()", "3"]
    );
    assert_eq!(
        lengths("text.extend(repeat_n(' ', padded - text.len() - 1))"),
        ["padded - text.len() - 1"]
    );
    assert_eq!(lengths("vec![a, b]"), [""; 0]);
    assert!(!is_bounded("length as usize") && is_bounded("x.rank() - 1"));
}
