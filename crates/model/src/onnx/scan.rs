//! A look at a file before it is parsed: a message of two bytes becomes a structure of hundreds, so a small file of
//! nothing but such would take the memory of a large one.

use crate::error::{Error, Result};

/// The messages that there may be many of.
#[derive(Clone, Copy)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Function,
    Sparse,
    /// One that holds no other that counts.
    Leaf,
}

impl Kind {
    /// What a field of it is, if it is a message that counts.
    fn field(self, tag: u64) -> Option<Kind> {
        Some(match (self, tag) {
            (Kind::Model, 7) | (Kind::Attribute, 6) => Kind::Graph,
            (Kind::Model, 25) => Kind::Function,
            (Kind::Graph, 1) | (Kind::Function, 7) => Kind::Node,
            (Kind::Graph, 15) => Kind::Sparse,
            (Kind::Node, 5) | (Kind::Function, 11) => Kind::Attribute,
            (Kind::Graph, 5 | 11..=13) | (Kind::Attribute, 5) | (Kind::Sparse, 1) => Kind::Leaf,
            _ => return None,
        })
    }
}

/// As deep as the parser goes.
const DEEPEST: usize = 100;

/// So many messages may be short.
const SLACK: usize = 1 << 18;

/// A node, a tensor, an attribute or a declaration that says anything takes more bytes.
const LEAST_BYTES: usize = 8;

/// What the pointers begin with that Git LFS leaves where a file should be.
const POINTER: &[u8] = b"version https://git-lfs";

/// Why a file cannot be a model.
enum Broken {
    /// It has too many messages.
    Crowded,
    /// They are too deep inside each other.
    Deep,
    /// At this place of it begins what is no field of a message, for this reason.
    At(usize, String),
}

/// Checks that a file, of this name, has no more messages than its bytes can give a meaning.
pub fn check(name: &str, file: &[u8]) -> Result<()> {
    if file.starts_with(POINTER) {
        let got = "a pointer of Git LFS, not the file it stands for";
        return Err(Error::file(name, got, "the file: `git lfs pull` gets it"));
    }
    let most = SLACK + file.len() / LEAST_BYTES;
    let mut left = most;
    count(file, 0, Kind::Model, DEEPEST, &mut left).map_err(|broken| match broken {
        Broken::Crowded => Error::file(
            name,
            format!("more than {most} messages in {} bytes", file.len()),
            "nodes and tensors that say something",
        ),
        Broken::Deep => Error::file(
            name,
            format!("nested more than {DEEPEST} messages deep"),
            "fewer graphs inside nodes of each other",
        ),
        Broken::At(place, why) => Error::file(
            name,
            format!("not an ONNX model, or is cut off: byte {place} {why}"),
            "a file as ONNX writes it",
        ),
    })
}

/// Takes the messages in `message`, which begins at byte `begin` of the file, off those that are `left`.
fn count(
    mut message: &[u8],
    begin: usize,
    kind: Kind,
    depth: usize,
    left: &mut usize,
) -> Result<(), Broken> {
    let end = begin + message.len();
    while !message.is_empty() {
        let place = end - message.len();
        let broken = |why: String| Broken::At(place, why);
        let cut = || broken("begins a number that does not end".to_owned());
        let key = varint(&mut message).ok_or_else(cut)?;
        let length = match key & 7 {
            0 => {
                varint(&mut message).ok_or_else(cut)?;
                continue;
            }
            1 => 8,
            2 => varint(&mut message).ok_or_else(cut)?,
            5 => 4,
            _ => return Err(broken("begins no field of a message".to_owned())),
        };
        let has = message.len();
        let parts = usize::try_from(length).ok();
        let parts = parts.and_then(|length| message.split_at_checked(length));
        let (field, rest) = parts.ok_or_else(|| {
            broken(format!(
                "begins a field of {length} bytes, of which {has} are there"
            ))
        })?;
        message = rest;
        if let Some(kind) = kind.field(key >> 3).filter(|_| key & 7 == 2) {
            *left = left.checked_sub(1).ok_or(Broken::Crowded)?;
            if !matches!(kind, Kind::Leaf) {
                let depth = depth.checked_sub(1).ok_or(Broken::Deep)?;
                count(field, end - rest.len() - field.len(), kind, depth, left)?;
            }
        }
    }
    Ok(())
}

/// The number at the beginning of `bytes`, which it is taken off.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..10 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of a graph that holds `count` empty messages in field `tag`.
    fn empty(tag: u8, count: usize) -> Vec<u8> {
        let graph = [tag << 3 | 2, 0].repeat(count);
        let mut file = vec![7 << 3 | 2];
        let mut length = graph.len();
        while length >= 0x80 {
            file.push(length as u8 | 0x80);
            length >>= 7;
        }
        file.push(length as u8);
        file.extend(graph);
        file
    }

    #[test]
    fn a_file_of_empty_messages_is_refused() {
        for tag in [1, 5, 11, 15] {
            assert!(check("x.onnx", &empty(tag, 1000)).is_ok());
            let error = check("x.onnx", &empty(tag, 1 << 20))
                .err()
                .map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains("messages")));
        }
        assert!(
            check("x.onnx", &empty(2, 1 << 20)).is_ok(),
            "nothing is made of these"
        );
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let file = empty(1, 100);
        let said = |file: &[u8]| check("x.onnx", file).unwrap_err().to_string();
        let cut = said(&file[..file.len() - 1]);
        assert!(cut.starts_with("x.onnx is not an ONNX model, or is cut off: byte 0 "));
        assert!(cut.contains("field of 200 bytes, of which 199 are there"));
        // Of the last message in a graph the length is left out.
        let inside = [&[7 << 3 | 2, 3][..], &[1 << 3 | 2, 0, 1 << 3 | 2]].concat();
        assert!(said(&inside).contains("byte 4 begins a number that does not end"));
        assert!(said(&[0xff; 20]).contains("byte 0 "));
        assert!(said(b"version https://git-lfs.github.com/spec/v1").contains("git lfs pull"));
        assert!(check("x.onnx", &[]).is_ok());
    }
}
