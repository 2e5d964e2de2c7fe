//! The kernels of a text in Metal's dialect, by their declarations.

use super::{Buffer, Entry, Parameter, Space};

const KERNEL: &str = "kernel";
const MOST_THREADS: &str = "max_total_threads_per_threadgroup";

/// All kernels of a text, in its order.
pub fn entries(text: &str) -> Result<Vec<Entry>, String> {
    let text = without_comments(text);
    let mut entries = Vec::new();
    for (at, _) in text.match_indices(KERNEL) {
        let (before, after) = (&text[..at], &text[at + KERNEL.len()..]);
        if before.ends_with(is_of_name) || after.starts_with(is_of_name) {
            continue;
        }
        let line = before.lines().count().max(1);
        let entry = entry(before, after).ok_or_else(|| {
            format!(
                "a kernel is declared as `kernel void NAME(PARAMETERS) {{`, not as in line {line}"
            )
        })?;
        entries.push(entry?);
    }
    Ok(entries)
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// The same bytes, with spaces in the place of comments.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        let comment = &rest[begin..];
        let length = match comment.starts_with("//") {
            true => comment.find('\n'),
            false => comment.find("*/").map(|end| end + 2),
        };
        let length = length.unwrap_or(comment.len());
        kept.push_str(&rest[..begin]);
        let blank = |byte| if byte == b'\n' { '\n' } else { ' ' };
        kept.extend(comment[..length].bytes().map(blank));
        rest = &comment[length..];
    }
    kept.push_str(rest);
    kept
}

/// The kernel that is declared after the word, if one is.
fn entry(before: &str, after: &str) -> Option<Result<Entry, String>> {
    let (name, rest) = after.trim_start().strip_prefix("void")?.split_once('(')?;
    let (parameters, rest) = enclosed(rest)?;
    let body = rest.trim_start().strip_prefix('{')?;
    let attribute = before.trim_end().strip_suffix("]]");
    let attribute = attribute.and_then(|before| Some(before.rsplit_once("[[")?.1));
    let name = name.trim();
    let parameters = separated(parameters).into_iter().map(|declared| {
        let told = |why| format!("kernel {name}, parameter `{}`: {why}", declared.trim());
        parameter(declared).map_err(told)
    });
    let parameters: Result<_, String> = parameters.collect();
    Some(parameters.map(|parameters| Entry {
        name: name.to_owned(),
        parameters,
        most_threads: attribute.and_then(|attribute| match numbered(attribute) {
            (MOST_THREADS, most) => most,
            _ => None,
        }),
        arrays: Vec::new(),
        brings: false,
        begins: before.len() + KERNEL.len() + after.len() - body.len(),
    }))
}

/// What stands before the closing parenthesis, and what behind it.
fn enclosed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    let end = text.find(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// The parts between the commas that nothing encloses.
fn separated(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = text.split(|character| {
        match character {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth -= 1,
            _ => {}
        }
        depth == 0 && character == ','
    });
    parts.filter(|part| !part.trim().is_empty()).collect()
}

/// The name of an attribute, and its number if it has one.
fn numbered(attribute: &str) -> (&str, Option<u32>) {
    match attribute.split_once('(') {
        Some((name, number)) => {
            let number = number.trim_end().strip_suffix(')');
            let number = number.and_then(|number| number.trim().parse().ok());
            (name.trim(), number)
        }
        None => (attribute.trim(), None),
    }
}

fn parameter(declared: &str) -> Result<Parameter, String> {
    let parts = declared.trim().strip_suffix("]]");
    let parts = parts.and_then(|declared| declared.rsplit_once("[["));
    let (declared, attribute) = parts.ok_or("it has no attribute")?;
    match numbered(attribute) {
        ("buffer", Some(index)) => buffer(index, declared).map(Parameter::Buffer),
        ("threadgroup", Some(index)) => Ok(Parameter::Array(index)),
        (place, None) => Ok(Parameter::Place(place.to_owned())),
        (other, Some(_)) => Err(format!("nothing is known of {other}")),
    }
}

fn buffer(index: u32, declared: &str) -> Result<Buffer, String> {
    let declared = declared.trim();
    let ty = declared.trim_end_matches(is_of_name);
    let name = &declared[ty.len()..];
    let pointed = |mark| ty.trim_end().strip_suffix(mark);
    let pointed = pointed('*')
        .map(|ty| (ty, false))
        .or(pointed('&').map(|ty| (ty, true)));
    let (ty, is_reference) = pointed.ok_or("a buffer is a pointer or a reference")?;
    let has = |word| ty.split_whitespace().any(|other| other == word);
    let space = match (has("device"), has("constant")) {
        (true, false) => Space::Device,
        (false, true) => Space::Constant,
        _ => return Err("a buffer is either device or constant".to_owned()),
    };
    let qualifiers = ["device", "constant", "const"];
    let words = ty
        .split_whitespace()
        .filter(|word| !qualifiers.contains(word));
    Ok(Buffer {
        index,
        name: name.to_owned(),
        space,
        written: space == Space::Device && !has("const"),
        ty: Some(words.collect::<Vec<_>>().join(" ")),
        is_reference,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_by_their_declarations() {
        let text = "// kernel void no(uint x) {\n/* kernel */ typedef float f32;\n\
            kernel void first(device const f32* from [[buffer(0)]], constant Params& p [[buffer(3)]],\n    \
            device vec<uint, 2> *to [[buffer(1)]], uint3 at [[thread_position_in_grid]]) {\n}\n\
            [[max_total_threads_per_threadgroup(96)]]\nkernel void second(threadgroup f32* tile [[threadgroup(2)]]) {}\n";
        let entries = entries(text).expect("it is right");
        let [first, second] = entries.as_slice() else {
            panic!("{entries:?}");
        };
        assert_eq!((first.name.as_str(), first.most_threads), ("first", None));
        let buffers: Vec<_> = first
            .buffers()
            .map(|it| {
                (
                    it.index,
                    it.name.as_str(),
                    it.space,
                    it.written,
                    it.ty.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            buffers,
            [
                (0, "from", Space::Device, false, Some("f32")),
                (3, "p", Space::Constant, false, Some("Params")),
                (1, "to", Space::Device, true, Some("vec<uint, 2>")),
            ]
        );
        assert_eq!(
            first.arguments(),
            [
                "Address{buffers[0]}",
                "*(Params*)buffers[1]",
                "Address{buffers[2]}",
                "attribute::thread_position_in_grid()",
            ]
        );
        assert_eq!(
            (second.name.as_str(), second.most_threads),
            ("second", Some(96))
        );
        assert_eq!(second.lengths().collect::<Vec<_>>(), [2]);
        assert!(text[second.begins..].starts_with("}\n"));
    }

    #[test]
    fn what_is_no_kernel_of_metal_is_refused() {
        for wrong in [
            "kernel int f() {}",
            "kernel void f(device float* x) {}",
            "kernel void f(float* x [[buffer(0)]]) {}",
            "kernel void f(device float x [[buffer(0)]]) {}",
            "kernel void f(device float* x [[texture(0)]]) {}",
        ] {
            assert!(entries(wrong).is_err(), "{wrong}");
        }
    }
}
