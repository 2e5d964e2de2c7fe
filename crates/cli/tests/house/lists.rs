//! Lists that are as long as a shape, a file or a request says end the process where there is not so much memory. Clippy sees some
//! ways to make them (`clippy.toml` of the crates); these it does not see.

use super::{assert_none, sources};

/// The crates that read shapes, files and requests of others. The host has a lint of its own.
const CRATES: [&str; 3] = [
    "crates/tensor/src/",
    "crates/model/src/",
    "crates/batch/src/",
];

/// How long a list may be that is made of one value or of the numbers of a range: as long as a shape has axes, or another list
/// elements.
const BOUNDED: [&str; 4] = ["rank", "len()", "value_count()", "MOST_STREAMS"];

/// Other lengths, and what bounds them.
const REASONS: [(&str, &str); 16] = [
    ("&run.stream, &ready", "runs a program again, no list"),
    ("options.direction.count()", "one or two"),
    ("ends", "the axes of an array"),
    ("axis + 1", "the axes of an array"),
    ("missing", "axes that a shape lacks"),
    ("parts(LENGTH, whole)?", "a million at most: `MOST_PARTS`"),
    ("outputs", "those of an expression"),
    ("call.input_count()", "what a node lists"),
    (
        "parts",
        "the outputs of a node, or `MOST_PARTS` of a request",
    ),
    ("8 / self.bits", "eight at most"),
    ("count", "a million at most, or the names of a list"),
    ("nodes", "those of a graph"),
    ("self.inputs()", "those of a request"),
    ("lanes", "what the builder of a queue is told"),
    ("class(most)", "the bits of a number"),
    ("=nodes", "one more than a graph has"),
];

/// How often a line says that something is repeated.
fn lengths(code: &str) -> Vec<&str> {
    let mut lengths = Vec::new();
    for (opening, separator, closing) in [
        ("vec![", "; ", ']'),
        ("repeat_n(", ", ", ')'),
        (".repeat(", "", ')'),
        (".cycle().take(", "", ')'),
    ] {
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
            match separator {
                "" => lengths.push(inside),
                _ => lengths.extend(inside.rsplit_once(separator).map(|(_, length)| length)),
            }
        }
    }
    lengths
}

/// The ends of ranges whose numbers are collected into a list, and at which byte of the code that is.
fn collected(code: &str) -> Vec<(usize, &str)> {
    let collects = code.match_indices(".collect").map(|(at, _)| at);
    let ends =
        collects.filter_map(|at| Some((at, range_end(&code[chain_start(&code[..at])..at])?)));
    ends.collect()
}

/// Where the chain of calls begins that ends here.
pub fn chain_start(code: &str) -> usize {
    let (mut start, mut depth) = (code.len(), 0);
    for (at, c) in code.char_indices().rev() {
        match c {
            ')' | ']' | '}' => depth += 1,
            '(' | '[' | '{' if depth == 0 => break,
            '(' | '[' | '{' => depth -= 1,
            // Between two calls of a chain.
            ' ' | '\n' => match code[at..].trim_start().chars().next() {
                None | Some('.') => continue,
                _ if depth > 0 => continue,
                _ => break,
            },
            _ if depth > 0 || c.is_alphanumeric() || "_.:?&".contains(c) => {}
            _ => break,
        }
        start = at;
    }
    start
}

/// Where the range ends that a chain begins with.
fn range_end(chain: &str) -> Option<&str> {
    let inside = chain.trim_start().strip_prefix('(')?;
    let mut depth = 0;
    let end = inside.find(|c: char| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' if depth == 0 => return true,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        false
    })?;
    let (_, end) = inside[..end].split_once("..")?;
    Some(end.trim())
}

/// Slices that are copied to lists, at which byte of the code each is. A tensor's and an array's `to_vec` may fail, and says so.
fn copied(code: &str) -> Vec<(usize, &str)> {
    let copies = code.match_indices(".to_vec()").filter(|(at, copy)| {
        let next = code[at + copy.len()..].trim_start();
        !next.starts_with('?') && !next.starts_with(".ok()") && !next.starts_with(".unwrap()")
    });
    let of = |(at, _)| (at, code[chain_start(&code[..at])..at].trim());
    copies.map(of).collect()
}

/// What is copied to lists besides shapes, and what bounds it.
const COPIED: [(&str, &str); 18] = [
    ("reader.outputs", "those of a step"),
    ("kernel", "the axes of a window"),
    ("stride", "the axes of a window"),
    ("padding", "the axes of a window"),
    ("dilation", "the axes of a window"),
    ("ints", "attributes that this program writes"),
    ("floats", "attributes that this program writes"),
    ("shape", "a shape"),
    ("first.shape", "a shape"),
    ("inner", "the nodes of a fusion"),
    ("nodes", "the nodes of a fusion"),
    ("self.live(node)", "the values of a graph"),
    ("given", "the inputs of a run, or of a recurrent layer"),
    ("got", "a shape in a message"),
    ("layout.strides()[..outer + 1]", "the axes of a layout"),
    ("layout.strides()", "the axes of a layout"),
    ("inputs", "the names of a queue's inputs"),
    ("outputs", "the names of a queue's outputs"),
];

fn is_bounded(length: &str) -> bool {
    let is_number = length.bytes().all(|c| c.is_ascii_digit() || c == b'_');
    is_number
        || BOUNDED.iter().any(|end| length.contains(end))
        || REASONS.iter().any(|(known, _)| *known == length)
}

#[test]
fn lists_are_only_as_long_as_something_bounds() {
    let mut violations = Vec::new();
    for source in sources("src") {
        let is_test = source.path.contains("/tests/");
        if is_test || !CRATES.iter().any(|folder| source.path.starts_with(folder)) {
            continue;
        }
        let shipped = source.shipped();
        for (number, line) in &shipped {
            let long = lengths(&line.code).into_iter();
            for length in long.filter(|length| !is_bounded(length)) {
                violations.push(format!("{}:{number}: {length}", source.path));
            }
        }
        let code: Vec<&str> = shipped.iter().map(|(_, line)| &*line.code).collect();
        let code = code.join("\n");
        for (at, length) in collected(&code) {
            if !is_bounded(length) {
                let (number, _) = shipped[code[..at].matches('\n').count()];
                violations.push(format!("{}:{number}: {length}", source.path));
            }
        }
        for (at, slice) in copied(&code) {
            if !slice.contains("shape()") && !COPIED.iter().any(|(known, _)| *known == slice) {
                let (number, _) = shipped[code[..at].matches('\n').count()];
                violations.push(format!("{}:{number}: a copy of {slice}", source.path));
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
    assert_eq!(
        lengths("values.iter().cycle().take(count).chain(once.repeat(f(n)))"),
        ["f(n)", "count"]
    );
    assert_eq!(lengths("vec![a, b]"), [""; 0]);
    assert!(!is_bounded("length as usize") && is_bounded("x.rank() - 1"));
}

#[test]
fn what_is_copied_is_seen() {
    let of = |code| {
        let copied = copied(code).into_iter();
        copied.map(|(_, slice)| slice).collect::<Vec<_>>()
    };
    assert_eq!(of("let a = self.bytes[1..].to_vec();"), ["self.bytes[1..]"]);
    assert_eq!(of("f(x.to_vec()?, y.to_vec().ok())"), [""; 0]);
}

#[test]
fn what_collects_a_range_is_seen() {
    let of = |code| {
        collected(code)
            .into_iter()
            .map(|(_, end)| end)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("let a: Vec<u8> = (0..size).map(|_| 0).collect();"),
        ["size"]
    );
    let chain =
        "Ok((1..=x.dim(0)?)\n    .map(|at| x.get(at))\n    .collect::<Result<Vec<_>, _>>()?)";
    assert_eq!(of(chain), ["=x.dim(0)?"]);
    assert_eq!(of("each(0..3, list.iter().map(f).collect())"), [""; 0]);
    assert_eq!(
        of("if (0..n).contains(&x) { list.iter().collect() }"),
        [""; 0]
    );
}
