//! `.npy`: one array, as NumPy writes it; versions 1, 2 and 3, either order of axes and of bytes.
//!
//! The crate `npyz` is not used: it makes room for as long a header as a file claims to have, reads nested lists by recursion, and
//! multiplies sizes unchecked, so that a few bytes end the process. `ndarray-npy` is for one known type, and for `ndarray`.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

use streampool_device::{DType, MAX_RANK};
use streampool_runtime::Pool;

use super::header::{Flaw, Header};
use super::names;
use crate::room::{filled, room};
use crate::{Error, Layout, Result, Tensor};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The data begins at a multiple of this, so that a map of the file is aligned.
const ALIGNMENT: usize = 64;

/// No header is as long as this.
const LONGEST_HEADER: usize = 1 << 20;

impl Tensor {
    /// The array in a `.npy` file.
    pub fn read_npy(pool: &Pool, path: impl AsRef<Path>) -> Result<Tensor> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| Error::io(path, &error))?;
        let bytes = file
            .metadata()
            .map_err(|error| Error::io(path, &error))?
            .len();
        Source {
            path,
            entry: None,
            bytes,
        }
        .read(pool, BufReader::new(file))
    }

    /// Writes its values to a `.npy` file, which is overwritten.
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let array = render("write_npy", self)?;
        let write = || {
            let mut file = BufWriter::new(File::create(path)?);
            array.iter().try_for_each(|part| file.write_all(part))?;
            file.flush()
        };
        write().map_err(|error| Error::io(path, &error))
    }
}

/// A tensor as the parts of a `.npy` file: what is before the data, and the data.
pub(super) fn render(op: &'static str, tensor: &Tensor) -> Result<[Vec<u8>; 2]> {
    let Some(code) = names::to_npy(tensor.dtype()) else {
        let expected = "a type that NumPy has: convert it with `to_dtype`";
        return Err(Error::dtype(op, "tensor", tensor.dtype(), expected));
    };
    let order = if tensor.dtype().size() == 1 { '|' } else { '<' };
    let header = Header {
        descr: format!("{order}{code}"),
        fortran: false,
        shape: tensor.shape().to_vec(),
    };
    let mut text = header.render();
    let start = MAGIC.len() + 4;
    let padded = (start + text.len() + 1).next_multiple_of(ALIGNMENT) - start;
    text.extend(std::iter::repeat_n(' ', padded - text.len() - 1));
    text.push('\n');
    // Eight sizes are far from the 64 KiB of version 1.
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes();
    let head = [&MAGIC[..], &[1, 0], &length, text.as_bytes()].concat();
    Ok([head, tensor.to_bytes()?])
}

/// Where an array is read from, for errors.
pub(super) struct Source<'s> {
    pub path: &'s Path,
    /// Its name in an archive.
    pub entry: Option<&'s str>,
    /// How long it is said to be, all in all.
    pub bytes: u64,
}

impl Source<'_> {
    /// Reads the array.
    pub fn read(&self, pool: &Pool, mut from: impl Read) -> Result<Tensor> {
        let mut start = [0; 8];
        self.fill(&mut from, &mut start, "the magic number")?;
        if start[..6] != *MAGIC {
            let got = format!("`{}`", start[..6].escape_ascii());
            return Err(self.error("byte 0", got, "`\\x93NUMPY`, as every .npy file begins"));
        }
        let wide = match start[6] {
            1 => false,
            2 | 3 => true,
            other => {
                let got = format!("version {other}");
                return Err(self.error("byte 6", got, "version 1, 2 or 3"));
            }
        };
        let mut length = [0; 4];
        let width = if wide { 4 } else { 2 };
        self.fill(&mut from, &mut length[..width], "the length of the header")?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST_HEADER {
            let expected = format!("at most {LONGEST_HEADER} bytes");
            return Err(self.error("the length of the header", length, expected));
        }
        let mut text = filled(0, length)?;
        self.fill(&mut from, &mut text, "the header")?;
        let header_at = 8 + width;
        let text = String::from_utf8(text).map_err(|error| {
            let at = header_at + error.utf8_error().valid_up_to();
            self.error(format_args!("byte {at} of the header"), "no UTF-8", "text")
        })?;
        let header = Header::parse(&text).map_err(|Flaw { at, got, expected }| {
            self.error(format_args!("byte {}", header_at + at), got, expected)
        })?;
        let data_at = (header_at + length) as u64;
        self.data(pool, from, &header, data_at)
    }

    fn data(
        &self,
        pool: &Pool,
        mut from: impl Read,
        header: &Header,
        data_at: u64,
    ) -> Result<Tensor> {
        let (dtype, swapped) = self.dtype(&header.descr)?;
        let refused = |expected: String| {
            let got = format!("{:?}", header.shape);
            self.error("`shape` of the header", got, expected)
        };
        let fits = Layout::contiguous(&header.shape)
            .ok()
            .and_then(|layout| layout.elements().checked_mul(dtype.size()));
        let Some(bytes) = fits else {
            return Err(refused(format!(
                "at most {MAX_RANK} axes and {} bytes",
                isize::MAX
            )));
        };
        if data_at.checked_add(bytes as u64) != Some(self.bytes) {
            let there = self.bytes.saturating_sub(data_at);
            let expected = format!("as many {dtype} as the {there} bytes behind the header are");
            return Err(refused(expected));
        }
        // What an archive says of its length may be wrong; a file is as long as the system says.
        let there = if self.entry.is_none() { bytes } else { 0 };
        let mut data = room(there)?;
        // A read past the end, too, has an archive compare its checksum.
        let read = from.by_ref().take(bytes as u64).read_to_end(&mut data);
        let beyond = read.and_then(|_| from.read(&mut [0]));
        if beyond.map_err(|error| self.failed("the data", &error))? > 0 || data.len() != bytes {
            let got = format!("{} bytes, or more", data.len());
            return Err(self.error("the data", got, format_args!("{bytes} bytes")));
        }
        if swapped {
            data.chunks_exact_mut(dtype.size())
                .for_each(<[u8]>::reverse);
        }
        if dtype == DType::Bool
            && let Some(at) = data.iter().position(|&byte| byte > 1)
        {
            let place = format!("byte {}", data_at + at as u64);
            return Err(self.error(place, data[at], "0 or 1 for a bool"));
        }
        if !header.fortran {
            return Tensor::from_bytes(pool, dtype, &data, &header.shape);
        }
        let reversed: Vec<usize> = header.shape.iter().rev().copied().collect();
        let order: Vec<isize> = (0..reversed.len() as isize).rev().collect();
        Tensor::from_bytes(pool, dtype, &data, &reversed)?.permute(&order)
    }

    /// The type, and whether its bytes are in the other order.
    fn dtype(&self, descr: &str) -> Result<(DType, bool)> {
        let code = descr.strip_prefix(['<', '>', '|', '=']).unwrap_or(descr);
        match names::of_npy(code) {
            Some(dtype) => Ok((dtype, descr.starts_with('>'))),
            None => {
                let known: Vec<_> = DType::ALL.into_iter().filter_map(names::to_npy).collect();
                let expected = format!("one of {}", known.join(", "));
                Err(self.error("`descr` of the header", format_args!("`{descr}`"), expected))
            }
        }
    }

    fn fill(&self, from: &mut impl Read, bytes: &mut [u8], place: &'static str) -> Result<()> {
        from.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                self.error(place, "cut off", format_args!("{} bytes", bytes.len()))
            }
            _ => self.failed(place, &error),
        })
    }

    fn failed(&self, place: &'static str, error: &std::io::Error) -> Error {
        if self.entry.is_none() {
            return Error::io(self.path, error);
        }
        // An archive reports what is wrong with its bytes as a failure to read them.
        let expected = "bytes that inflate and agree with their checksum";
        self.error(place, format_args!("broken ({error})"), expected)
    }

    fn error(
        &self,
        place: impl std::fmt::Display,
        got: impl ToString,
        expected: impl ToString,
    ) -> Error {
        match self.entry {
            Some(entry) => {
                let place = format!("array `{entry}`: {place}");
                Error::file(self.path, place, got, expected)
            }
            None => Error::file(self.path, place, got, expected),
        }
    }
}
