//! The data of tensors that is kept in files beside the model.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;

use super::file;
use super::proto::TensorProto;
use crate::error::{Error, Fault};

/// The files beside a model, each opened once.
pub struct External<'a> {
    /// Where the model is, if it is in a file.
    folder: Option<&'a Path>,
    /// Each with its length.
    files: HashMap<PathBuf, (File, usize)>,
}

/// Where the data of one tensor is.
#[derive(Default)]
struct Place<'a> {
    location: &'a str,
    offset: usize,
    length: Option<usize>,
}

impl<'a> External<'a> {
    pub fn new(folder: Option<&'a Path>) -> External<'a> {
        External {
            folder,
            files: HashMap::new(),
        }
    }

    /// The `bytes` bytes of `tensor`, which says that another file holds them.
    pub fn data(&mut self, tensor: &TensorProto, bytes: usize) -> Result<Bytes, Fault> {
        let place = Place::of(tensor)?;
        if let Some(length) = place.length
            && length != bytes
        {
            return Err(Fault::malformed(
                "the length of external data",
                length,
                bytes,
            ));
        }
        let (path, mut file, length) = self.file(place.location)?;
        let end = place.offset.checked_add(bytes);
        if end.is_none_or(|end| end > length) {
            return Err(Fault::malformed(
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
    fn file(&mut self, location: &str) -> Result<(PathBuf, &File, usize), Fault> {
        let Some(folder) = self.folder else {
            let got = format!("in file {location:?}");
            let expected =
                "inside a model that is read from bytes, or beside one that is read from a file";
            return Err(Fault::malformed("the data", got, expected));
        };
        let below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let relative = Path::new(location);
        if location.is_empty() || location.contains('\0') || !relative.components().all(below) {
            let expected = "the path of a file below the model's folder";
            return Err(Fault::malformed(
                "the location of external data",
                format_args!("{location:?}"),
                expected,
            ));
        }
        let path = folder.join(relative);
        let (file, length) = match self.files.entry(path.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(file::open(&path).map_err(Box::<Error>::from)?),
        };
        Ok((path, file, *length))
    }
}

impl<'a> Place<'a> {
    fn of(tensor: &'a TensorProto) -> Result<Place<'a>, Fault> {
        let mut place = Place::default();
        for entry in &tensor.external {
            let number = || {
                let wrong = |_| {
                    let what = format!("the {} of external data", entry.key);
                    Fault::malformed(what, format_args!("{:?}", entry.value), "a number of bytes")
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
