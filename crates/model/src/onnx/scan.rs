//! How a file is read before it is parsed, and its messages are counted: one of two bytes becomes a structure of hundreds,
//! so a small file of nothing but such would take the memory of a large one.

use std::io::Read;
use std::path::Path;

use super::adopt::LARGE;
use super::file;
use super::pieces::Pieces;
use crate::error::{Error, Result};

/// The messages that there may be many of.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Function,
    Sparse,
    Tensor,
    /// One that holds no other that counts.
    Leaf,
}

impl Message {
    /// What a field of it is, if it is a message that counts.
    fn field(self, tag: u64) -> Option<Message> {
        Some(match (self, tag) {
            (Message::Model, 7) | (Message::Attribute, 6) => Message::Graph,
            (Message::Model, 25) => Message::Function,
            (Message::Graph, 1) | (Message::Function, 7) => Message::Node,
            (Message::Graph, 15) => Message::Sparse,
            (Message::Node, 5) | (Message::Function, 11) => Message::Attribute,
            (Message::Graph, 5) | (Message::Attribute, 5) | (Message::Sparse, 1 | 2) => {
                Message::Tensor
            }
            (Message::Graph, 11..=13) => Message::Leaf,
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
    /// It could not be read.
    Unread(std::io::Error),
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Broken {
        Broken::Unread(error)
    }
}

/// Reads so many bytes, and checks that they hold no more messages than they can give a meaning.
pub fn read(path: &Path, from: impl Read, length: usize) -> Result<Pieces> {
    let name = path.display();
    let most = SLACK + length / LEAST_BYTES;
    let mut reader = Reader {
        from,
        at: 0,
        small: Vec::new(),
        pieces: Pieces::default(),
        left: most,
    };
    let counted = reader.message(length, Message::Model, DEEPEST);
    counted.map_err(|broken| match broken {
        Broken::At(0, _) if reader.begins_with(POINTER) => {
            let got = "a pointer of Git LFS, not the file it stands for";
            Error::file(name, got, "the file: `git lfs pull` gets it")
        }
        Broken::Crowded => Error::file(
            name,
            format!("more than {most} messages in {length} bytes"),
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
        Broken::Unread(error) => Error::io(path, error),
    })?;
    reader.flush();
    Ok(reader.pieces)
}

/// What is being read.
struct Reader<R> {
    from: R,
    /// So many bytes were read.
    at: usize,
    /// What was read since the last large field.
    small: Vec<u8>,
    pieces: Pieces,
    /// So many messages may follow.
    left: usize,
}

impl<R: Read> Reader<R> {
    /// Reads a message, which ends at byte `end`.
    fn message(&mut self, end: usize, kind: Message, depth: usize) -> Result<(), Broken> {
        while self.at < end {
            let place = self.at;
            let broken = |why: String| Broken::At(place, why);
            let cut = || broken("begins a number that does not end".to_owned());
            let key = self.varint(end)?.ok_or_else(cut)?;
            let length = match key & 7 {
                0 => {
                    self.varint(end)?.ok_or_else(cut)?;
                    continue;
                }
                1 => 8,
                2 => self.varint(end)?.ok_or_else(cut)?,
                5 => 4,
                _ => return Err(broken("begins no field of a message".to_owned())),
            };
            let has = end - self.at;
            let fits = usize::try_from(length).ok().filter(|&length| length <= has);
            let length = fits.ok_or_else(|| {
                broken(format!(
                    "begins a field of {length} bytes, of which {has} are there"
                ))
            })?;
            let kind = kind.field(key >> 3).filter(|_| key & 7 == 2);
            if kind.is_some() {
                self.left = self.left.checked_sub(1).ok_or(Broken::Crowded)?;
            }
            match kind {
                None | Some(Message::Leaf) => self.field(length)?,
                Some(kind) => {
                    let depth = depth.checked_sub(1).ok_or(Broken::Deep)?;
                    self.message(self.at + length, kind, depth)?;
                }
            }
        }
        Ok(())
    }

    /// The number that comes next; `None` if it does not end before byte `end`.
    fn varint(&mut self, end: usize) -> Result<Option<u64>, Broken> {
        let mut value = 0;
        for place in 0..10.min(end - self.at) {
            let mut byte = [0];
            self.from.read_exact(&mut byte)?;
            self.small.try_reserve(1).map_err(std::io::Error::from)?;
            self.small.extend(byte);
            self.at += 1;
            let [byte] = byte;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Reads so many bytes that hold no messages.
    fn field(&mut self, length: usize) -> Result<(), Broken> {
        if length < LARGE {
            file::append(&mut self.from, length, &mut self.small)?;
        } else {
            self.flush();
            self.pieces.push(file::aligned(&mut self.from, length)?);
        }
        self.at += length;
        Ok(())
    }

    /// Whether all of it begins so, where nothing large was read yet.
    fn begins_with(&mut self, beginning: &[u8]) -> bool {
        let missing = beginning.len().saturating_sub(self.small.len());
        let more = file::append(&mut self.from, missing, &mut self.small);
        more.is_ok() && self.small.starts_with(beginning)
    }

    fn flush(&mut self) {
        self.pieces.push(std::mem::take(&mut self.small).into());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Buf;

    use super::*;

    fn check(name: &str, file: &[u8]) -> Result<()> {
        let mut read = read(Path::new(name), file, file.len())?;
        assert_eq!(read.copy_to_bytes(read.remaining()), file);
        Ok(())
    }

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
