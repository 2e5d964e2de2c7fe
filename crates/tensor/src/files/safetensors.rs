//! safetensors: a JSON header that says where each tensor lies, then the data.
//!
//! The crate `safetensors` is not used: it checks a header only beside all of the file's bytes, so that the file has to be read
//! or mapped whole; it takes the last of two tensors of one name, and its errors do not say where the file is wrong.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use streampool_device::{DType, MAX_RANK};
use streampool_runtime::Pool;

use super::names;
use crate::room::filled;
use crate::{Error, Layout, Result, Tensor};

/// The key of the header that is no tensor.
const METADATA: &str = "__metadata__";

/// No header is as long as this; so says the format.
const LONGEST_HEADER: u64 = 100_000_000;

/// An open safetensors file. Tensors are read when they are asked for, from any thread.
pub struct SafeTensors {
    path: PathBuf,
    file: File,
    data_at: u64,
    header: Header,
}

/// What the header says.
#[derive(Default)]
struct Header {
    tensors: BTreeMap<String, Info>,
    metadata: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct Info {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl SafeTensors {
    /// Opens a file and checks its header against its length; no tensor is read yet.
    pub fn open(path: impl AsRef<Path>) -> Result<SafeTensors> {
        let path = path.as_ref().to_owned();
        let file = File::open(&path).map_err(|error| Error::io(&path, &error))?;
        let size = file
            .metadata()
            .map_err(|error| Error::io(&path, &error))?
            .len();
        let place = "the length of the header";
        if size < 8 {
            return Err(Error::file(&path, place, "cut off", "8 bytes"));
        }
        let mut length = [0; 8];
        read_at(&path, &file, &mut length, 0)?;
        let length = u64::from_le_bytes(length);
        let longest = LONGEST_HEADER.min(size - 8);
        if length > longest {
            let expected = format!("at most {longest} bytes, as the file is {size} bytes long");
            return Err(Error::file(&path, place, length, expected));
        }
        let mut text = filled(0, length as usize)?;
        read_at(&path, &file, &mut text, 8)?;
        let header: Header = serde_json::from_slice(&text).map_err(|error| {
            let expected = "JSON that gives each tensor `dtype`, `shape` and `data_offsets`";
            Error::file(
                &path,
                "the header",
                format_args!("broken ({error})"),
                expected,
            )
        })?;
        let data_at = 8 + length;
        header.check(&path, size - data_at)?;
        Ok(SafeTensors {
            path,
            file,
            data_at,
            header,
        })
    }

    /// The names of its tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.header.tensors.keys().map(String::as_str)
    }

    /// What the file says about itself.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.metadata
    }

    /// The shape of a tensor, without reading it; `None` if there is none of this name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        Some(&self.header.tensors.get(name)?.shape)
    }

    /// The tensor of this name.
    pub fn read(&self, pool: &Pool, name: &str) -> Result<Tensor> {
        let Some(info) = self.header.tensors.get(name) else {
            let count = self.header.tensors.len();
            let expected = match count {
                0 => "none: the file has no tensors".to_owned(),
                _ => format!("that of one of its {count} tensors"),
            };
            let got = format!("`{name}`");
            return Err(Error::file(
                &self.path,
                "the name of the tensor",
                got,
                expected,
            ));
        };
        let dtype = info.dtype(&self.path, name)?;
        let (begin, end) = info.data_offsets;
        let mut bytes = filled(0, (end - begin) as usize)?;
        let at = self.data_at + begin;
        read_at(&self.path, &self.file, &mut bytes, at)?;
        if dtype == DType::Bool
            && let Some(wrong) = bytes.iter().position(|&byte| byte > 1)
        {
            let place = format!("byte {} (tensor `{name}`)", at + wrong as u64);
            return Err(Error::file(
                &self.path,
                place,
                bytes[wrong],
                "0 or 1 for a bool",
            ));
        }
        Tensor::from_bytes(pool, dtype, &bytes, &info.shape)
    }

    /// All its tensors with their names, sorted.
    pub fn read_all(&self, pool: &Pool) -> Result<Vec<(String, Tensor)>> {
        self.names()
            .map(|name| Ok((name.to_owned(), self.read(pool, name)?)))
            .collect()
    }
}

impl Header {
    /// Whether its tensors are of types we have and fill the data without gap or overlap.
    fn check(&self, path: &Path, data: u64) -> Result<()> {
        let mut parts = Vec::new();
        for (name, info) in &self.tensors {
            let dtype = info.dtype(path, name)?;
            let (begin, end) = info.data_offsets;
            let place = |what: &str| format!("`{what}` of tensor `{name}`");
            let bytes = Layout::contiguous(&info.shape)
                .ok()
                .and_then(|layout| layout.elements().checked_mul(dtype.size()));
            let Some(bytes) = bytes else {
                let expected = format!("at most {MAX_RANK} axes and {} bytes", isize::MAX);
                let got = format!("{:?}", info.shape);
                return Err(Error::file(path, place("shape"), got, expected));
            };
            if end.checked_sub(begin) != Some(bytes as u64) {
                let got = format!("{begin} to {end}");
                let expected = format!("{bytes} bytes, as {:?} of {dtype} is", info.shape);
                return Err(Error::file(path, place("data_offsets"), got, expected));
            }
            parts.push((begin, end, name));
        }
        parts.sort_unstable();
        let mut filled = 0;
        for (begin, end, name) in parts {
            if begin != filled {
                let place = format!("`data_offsets` of tensor `{name}`");
                let expected = format!("a start at {filled}, where the one before it ends");
                return Err(Error::file(
                    path,
                    place,
                    format_args!("{begin} to {end}"),
                    expected,
                ));
            }
            filled = end;
        }
        if filled != data {
            let expected = format!("{filled} bytes, where the last tensor ends");
            let got = format!("{data} bytes");
            return Err(Error::file(
                path,
                "the data behind the header",
                got,
                expected,
            ));
        }
        Ok(())
    }
}

impl Info {
    fn dtype(&self, path: &Path, name: &str) -> Result<DType> {
        names::of_safetensors(&self.dtype).ok_or_else(|| {
            let known = DType::ALL.map(names::to_safetensors).join(", ");
            let place = format!("`dtype` of tensor `{name}`");
            let got = format!("`{}`", self.dtype);
            Error::file(path, place, got, format_args!("one of {known}"))
        })
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Header, M::Error> {
                let mut header = Header::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        header.metadata = map.next_value()?;
                        continue;
                    }
                    match header.tensors.entry(name) {
                        Entry::Vacant(place) => place.insert(map.next_value()?),
                        Entry::Occupied(known) => {
                            let message = format!("tensor `{}` comes twice", known.key());
                            return Err(M::Error::custom(message));
                        }
                    };
                }
                Ok(header)
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// Writes tensors under their names, and what is to be said about them, to a safetensors file, which is
/// overwritten.
pub fn write_safetensors<'t>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'t str, &'t Tensor)>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let op = "write_safetensors";
    let path = path.as_ref();
    let mut tensors: Vec<_> = tensors.into_iter().collect();
    // The widest first, so that each is aligned.
    tensors.sort_by_key(|&(name, tensor)| (std::cmp::Reverse(tensor.dtype().size()), name));
    let mut header = serde_json::Map::new();
    if !metadata.is_empty() {
        header.insert(METADATA.to_owned(), serde_json::json!(metadata));
    }
    let mut end = 0;
    for &(name, tensor) in &tensors {
        let begin = end;
        end += (tensor.elem_count() * tensor.dtype().size()) as u64;
        let info = Info {
            dtype: names::to_safetensors(tensor.dtype()).to_owned(),
            shape: tensor.shape().to_vec(),
            data_offsets: (begin, end),
        };
        let known = header.insert(name.to_owned(), serde_json::json!(info));
        if known.is_some() || name == METADATA {
            let got = format!("`{name}`");
            return Err(Error::parameter(
                op,
                "tensors",
                got,
                "each name once, and no reserved one",
            ));
        }
    }
    let mut text = serde_json::Value::Object(header).to_string();
    text.extend(std::iter::repeat_n(
        ' ',
        text.len().next_multiple_of(8) - text.len(),
    ));
    let io = |error: std::io::Error| Error::io(path, &error);
    let mut file = BufWriter::new(File::create(path).map_err(io)?);
    file.write_all(&(text.len() as u64).to_le_bytes())
        .map_err(io)?;
    file.write_all(text.as_bytes()).map_err(io)?;
    for (_, tensor) in tensors {
        file.write_all(&tensor.to_bytes()?).map_err(io)?;
    }
    file.flush().map_err(io)
}

fn read_at(path: &Path, file: &File, bytes: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(bytes, at)
        .map_err(|error| Error::io(path, &error))
}
