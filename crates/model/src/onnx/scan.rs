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

/// Checks that a file has no more messages than its bytes can give a meaning. What is broken is left to the parser.
pub fn check(file: &[u8]) -> Result<()> {
    let most = SLACK + file.len() / LEAST_BYTES;
    let mut left = most;
    match count(file, Kind::Model, DEEPEST, &mut left) {
        Some(()) => Ok(()),
        None if left == 0 => {
            let got = format!("more than {most} messages in {} bytes", file.len());
            Err(Error::file(
                "the model",
                got,
                "of nodes and tensors that say something",
            ))
        }
        None => Err(Error::file(
            "the model",
            "broken or cut off",
            "as ONNX writes it",
        )),
    }
}

/// Takes the messages in `message` off those that are `left`; `None` if there are too many, or it is broken.
fn count(mut message: &[u8], kind: Kind, depth: usize, left: &mut usize) -> Option<()> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let length = match key & 7 {
            0 => {
                varint(&mut message)?;
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut message)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (field, rest) = message.split_at_checked(length)?;
        message = rest;
        if let Some(kind) = kind.field(key >> 3).filter(|_| key & 7 == 2) {
            *left = left.checked_sub(1)?;
            if !matches!(kind, Kind::Leaf) {
                count(field, kind, depth.checked_sub(1)?, left)?;
            }
        }
    }
    Some(())
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
            assert!(check(&empty(tag, 1000)).is_ok());
            let error = check(&empty(tag, 1 << 20))
                .err()
                .map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains("messages")));
        }
        assert!(
            check(&empty(2, 1 << 20)).is_ok(),
            "nothing is made of these"
        );
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let file = empty(1, 100);
        assert!(check(&file[..file.len() - 1]).is_err());
        assert!(check(&[0xff; 20]).is_err());
        assert!(check(&[]).is_ok());
    }
}
