//! The data of tensors that is kept in files beside the model.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;

use super::file;
use super::proto::TensorProto;
use crate::error::{Error, NodeError, Result};

/// The files beside a model, each opened once.
pub struct External {
    /// Where the model is, if it is in a file.
    folder: Option<PathBuf>,
    /// The files are below one of these, wherever links lead.
    roots: Vec<PathBuf>,
    /// Each with its length.
    files: HashMap<PathBuf, (File, usize)>,
}

/// Where the data of one tensor is.
#[derive(Default)]
struct DataRange<'a> {
    location: &'a str,
    offset: usize,
    length: Option<usize>,
}

impl External {
    /// The files beside the model at `path`. If that is a link, they may be beside what it leads to; links beside the model
    /// may lead below `data_folder`, too.
    pub fn beside(path: &Path, data_folder: Option<&Path>) -> Result<External> {
        let parent = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
        let folder = parent(path);
        let mut roots = vec![parent(&resolved(path)?), resolved(&folder)?];
        if let Some(allowed) = data_folder {
            roots.push(resolved(allowed)?);
        }
        Ok(External {
            folder: Some(folder),
            roots,
            files: HashMap::new(),
        })
    }

    /// No files.
    pub fn none() -> External {
        External {
            folder: None,
            roots: Vec::new(),
            files: HashMap::new(),
        }
    }

    /// The `bytes` bytes of `tensor`, which says that another file holds them.
    pub fn data(&mut self, tensor: &TensorProto, bytes: usize) -> Result<Bytes, NodeError> {
        let place = DataRange::of(tensor)?;
        if let Some(length) = place.length
            && length != bytes
        {
            return Err(NodeError::malformed(
                "the length of external data",
                length,
                bytes,
            ));
        }
        let (path, mut file, length) = self.file(place.location)?;
        let end = place.offset.checked_add(bytes);
        if end.is_none_or(|end| end > length) {
            return Err(NodeError::malformed(
                "external data",
                format_args!("{bytes} bytes from byte {} on", place.offset),
                format_args!("within the {length} bytes of file {:?}", place.location),
            ));
        }
        let begin = file.seek(SeekFrom::Start(place.offset as u64));
        let data = begin.and_then(|_| file::aligned(&mut file, bytes));
        Ok(data.map_err(|error| Box::new(Error::io(&path, error)))?)
    }

    /// A file, and its length.
    fn file(&mut self, location: &str) -> Result<(PathBuf, &File, usize), NodeError> {
        let Some(folder) = &self.folder else {
            let got = format!("in file {location:?}");
            let expected = "inside a model that is read from bytes, beside one that is read from a file, or among the weights that are given";
            return Err(NodeError::malformed("the data", got, expected));
        };
        let below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let relative = Path::new(location);
        if location.is_empty() || location.contains('\0') || !relative.components().all(below) {
            let expected = "the path of a file below the model's folder";
            return Err(NodeError::malformed(
                "the location of external data",
                format_args!("{location:?}"),
                expected,
            ));
        }
        let path = folder.join(relative);
        let (file, length) = match self.files.entry(path.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                // What was compared is opened: a link that is made meanwhile leads nowhere else.
                let real = resolved(&path).map_err(Box::new)?;
                if !self.roots.iter().any(|root| real.starts_with(root)) {
                    let got = format_args!("{location:?}, which leads to {:?}", real.display());
                    let expected = "a file below the model's folder, or below `data_folder` of the session's options";
                    return Err(NodeError::malformed(
                        "the location of external data",
                        got,
                        expected,
                    ));
                }
                place.insert(file::open(&real).map_err(Box::new)?)
            }
        };
        Ok((path, file, *length))
    }
}

/// The path without links.
fn resolved(path: &Path) -> Result<PathBuf> {
    let path = match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    };
    path.canonicalize().map_err(|error| Error::io(path, error))
}

impl<'a> DataRange<'a> {
    fn of(tensor: &'a TensorProto) -> Result<DataRange<'a>, NodeError> {
        let mut place = DataRange::default();
        for entry in &tensor.external {
            let number = || {
                let wrong = |_| {
                    let what = format!("the {} of external data", entry.key);
                    NodeError::malformed(
                        what,
                        format_args!("{:?}", entry.value),
                        "a number of bytes",
                    )
                };
                entry.value.parse::<usize>().map_err(wrong)
            };
            match &entry.key[..] {
                "location" => place.location = &entry.value,
                "offset" => place.offset = number()?,
                "length" => place.length = Some(number()?),
                _ => {}
            }
        }
        Ok(place)
    }
}
