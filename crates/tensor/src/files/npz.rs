//! `.npz`: a zip archive of `.npy` files, stored or deflated.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use streampool_runtime::Pool;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::npy::{self, Source};
use crate::{Error, Result, Tensor};

const SUFFIX: &str = ".npy";

/// An open `.npz` file.
pub struct NpzFile {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
    /// The names of the arrays, each with its place in the archive.
    arrays: Vec<(String, usize)>,
}

impl NpzFile {
    /// Opens a file; no array is read yet.
    pub fn open(path: impl AsRef<Path>) -> Result<NpzFile> {
        let path = path.as_ref().to_owned();
        let file = File::open(&path).map_err(|error| Error::io(&path, &error))?;
        let archive = ZipArchive::new(BufReader::new(file))
            .map_err(|error| broken(&path, "the archive", error))?;
        let mut arrays = Vec::new();
        for (index, name) in archive.file_names().enumerate() {
            let place = format!("the name of entry {index}");
            let name = name.map_err(|error| broken(&path, place, error))?;
            if let Some(name) = name.strip_suffix(SUFFIX) {
                arrays.push((name.to_owned(), index));
            }
        }
        Ok(NpzFile {
            path,
            archive,
            arrays,
        })
    }

    /// The names of its arrays, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arrays.iter().map(|(name, _)| name.as_str())
    }

    /// The array of this name.
    pub fn read(&mut self, pool: &Pool, name: &str) -> Result<Tensor> {
        let array = self.arrays.iter().find(|(known, _)| known == name);
        let Some(&(_, index)) = array else {
            let known: Vec<_> = self.names().collect();
            let expected = match &known[..] {
                [] => "none: the file has no arrays".to_owned(),
                known => format!("one of {}", known.join(", ")),
            };
            return Err(Error::file(
                &self.path,
                "the name of the array",
                name,
                expected,
            ));
        };
        let entry = self
            .archive
            .by_index(index)
            .map_err(|error| broken(&self.path, format_args!("array `{name}`"), error))?;
        let source = Source {
            path: &self.path,
            entry: Some(name),
            bytes: entry.size(),
        };
        source.read(pool, entry)
    }

    /// All its arrays with their names, in the order of the file.
    pub fn read_all(&mut self, pool: &Pool) -> Result<Vec<(String, Tensor)>> {
        let names: Vec<String> = self.names().map(str::to_owned).collect();
        names
            .into_iter()
            .map(|name| {
                let tensor = self.read(pool, &name)?;
                Ok((name, tensor))
            })
            .collect()
    }
}

/// Writes tensors under their names to a `.npz` file, which is overwritten; deflated, if `compressed`.
pub fn write_npz<'t>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'t str, &'t Tensor)>,
    compressed: bool,
) -> Result<()> {
    let path = path.as_ref();
    let file = File::create(path).map_err(|error| Error::io(path, &error))?;
    let method = if compressed {
        CompressionMethod::Deflated
    } else {
        CompressionMethod::Stored
    };
    let mut archive = ZipWriter::new(BufWriter::new(file));
    for (name, tensor) in tensors {
        let array = npy::render("write_npz", tensor)?;
        let long = array.iter().map(Vec::len).sum::<usize>() >= u32::MAX as usize;
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .large_file(long);
        archive
            .start_file(format!("{name}{SUFFIX}"), options)
            .map_err(|error| broken(path, format_args!("array `{name}`"), error))?;
        array
            .iter()
            .try_for_each(|part| archive.write_all(part))
            .map_err(|error| Error::io(path, &error))?;
    }
    let mut file = archive
        .finish()
        .map_err(|error| broken(path, "the archive", error))?;
    file.flush().map_err(|error| Error::io(path, &error))
}

fn broken(path: &Path, place: impl ToString, error: ZipError) -> Error {
    match error {
        ZipError::Io(error) => Error::io(path, &error),
        other => {
            let expected = "part of a zip archive, stored or deflated";
            Error::file(path, place, format_args!("broken ({other})"), expected)
        }
    }
}
