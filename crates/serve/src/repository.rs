//! The models of a folder: which there are, which are loaded, and how one is loaded again without losing a request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::{Value as Json, json};
use streampool::DeviceSet;

use crate::config::{Config, Defaults, Versions};
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::model::Model;
use crate::name::is_name;

/// The models of a folder.
///
/// A model is `NAME.onnx`, or a folder `NAME` with `VERSION/model.onnx` for each version, and optionally a `config.pbtxt`.
pub struct Repository {
    folder: PathBuf,
    devices: DeviceSet,
    defaults: Defaults,
    entries: RwLock<BTreeMap<String, Entry>>,
    /// One model is loaded at a time.
    loading: Mutex<()>,
}

/// A model of the folder.
#[derive(Default)]
struct Entry {
    versions: BTreeMap<u64, Version>,
    /// Why nothing of it could be loaded.
    failure: Option<String>,
}

#[derive(Default)]
struct Version {
    model: Option<Arc<Model>>,
    figures: Arc<Figures>,
    /// Why it is not loaded.
    reason: String,
}

/// A file that is a version of a model.
struct Found {
    version: u64,
    path: PathBuf,
}

impl Repository {
    /// A folder of models, none of which is loaded. They go to every device: one is that of a pool, several are a set.
    pub fn new(
        folder: impl Into<PathBuf>,
        devices: impl Into<DeviceSet>,
        defaults: Defaults,
    ) -> Repository {
        Repository {
            folder: folder.into(),
            devices: devices.into(),
            defaults,
            entries: RwLock::default(),
            loading: Mutex::default(),
        }
    }

    /// Loads all models that the folder has. Returns those that cannot be loaded, and why.
    pub fn load_all(&self) -> std::io::Result<Vec<(String, String)>> {
        let mut failures = Vec::new();
        for name in self.names()? {
            if let Err(error) = self.load(&name) {
                failures.push((name, error.to_string()));
            }
        }
        Ok(failures)
    }

    /// Where the files of a model are.
    pub(crate) fn files(&self, name: &str) -> [PathBuf; 2] {
        let folder = self.folder.join(name);
        [folder, self.folder.join(format!("{name}.onnx"))]
    }

    /// The devices.
    pub fn devices(&self) -> &DeviceSet {
        &self.devices
    }

    /// The names of the models that the folder has.
    pub(crate) fn names(&self) -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = match path.extension() {
                Some(extension) if extension == "onnx" && path.is_file() => path.file_stem(),
                _ if path.is_dir() => path.file_name(),
                _ => None,
            };
            let name = name.and_then(|name| name.to_str());
            names.extend(name.filter(|name| is_name(name)).map(str::to_owned));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Loads a model, or loads it again: all its versions that are to be served. They replace those before once all of them could be
    /// loaded; requests in progress end on the model that they began with.
    pub fn load(&self, name: &str) -> Result<()> {
        let _one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = self.read(name);
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                // What was loaded before keeps serving.
                if !matches!(error, Error::UnknownModel(_)) {
                    entries.entry(name.to_owned()).or_default().failure = Some(error.to_string());
                }
                return Err(error);
            }
        };
        let entry = entries.entry(name.to_owned()).or_default();
        entry.failure = None;
        let mut replaced = Vec::new();
        for (number, version) in &mut entry.versions {
            if !loaded.iter().any(|model| model.version() == *number) {
                replaced.extend(version.model.take());
                version.reason = "unloaded".to_owned();
            }
        }
        for model in loaded {
            tracing::info!(model = name, version = model.version(), "loaded");
            let version = entry.versions.entry(model.version()).or_default();
            version.figures = model.figures().clone();
            version.reason.clear();
            replaced.extend(version.model.replace(model));
        }
        drop(entries);
        // Not while others wait for the lock.
        drop(replaced);
        Ok(())
    }

    /// Stops serving a model.
    pub fn unload(&self, name: &str) -> Result<()> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get_mut(name);
        let entry = entry.ok_or_else(|| Error::UnknownModel(name.to_owned()))?;
        let mut removed = Vec::new();
        for version in entry.versions.values_mut() {
            removed.extend(version.model.take());
            version.reason = "unloaded".to_owned();
        }
        drop(entries);
        drop(removed);
        tracing::info!(model = name, "unloaded");
        Ok(())
    }

    /// Reads the versions of a model that are to be served.
    fn read(&self, name: &str) -> Result<Vec<Arc<Model>>> {
        let unknown = || Error::UnknownModel(name.to_owned());
        if !is_name(name) {
            return Err(unknown());
        }
        let failed = |why: String| Error::invalid(format!("failed to load '{name}': {why}"));
        let [folder, file] = self.files(name);
        let (config, found) = if folder.is_dir() {
            let config = read_config(&folder.join("config.pbtxt")).map_err(failed)?;
            let found = versions(&folder, config.file.as_deref().unwrap_or("model.onnx"));
            let mut found = found.map_err(failed)?;
            served(&mut found, &config.versions);
            (config, found)
        } else if file.is_file() {
            let only = Found {
                version: 1,
                path: file,
            };
            (Config::default(), vec![only])
        } else {
            return Err(unknown());
        };
        if found.is_empty() {
            let why = "there is no version to serve: a version is a folder with a number, which holds the model's file";
            return Err(failed(why.to_owned()));
        }
        if !config.without_effect.is_empty() {
            let fields = config.without_effect.join(", ");
            tracing::warn!(
                model = name,
                fields,
                "fields of config.pbtxt have no effect"
            );
        }
        let load = |found: Found| {
            let figures = self.figures(name, found.version);
            let (config, id) = (config.clone(), (name, found.version));
            let model = Model::load(
                &self.devices,
                [&folder, &found.path],
                id,
                config,
                &self.defaults,
                figures,
            );
            model.map(Arc::new).map_err(failed)
        };
        found.into_iter().map(load).collect()
    }

    fn figures(&self, name: &str, version: u64) -> Arc<Figures> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let version = entries
            .get(name)
            .and_then(|entry| entry.versions.get(&version));
        version
            .map(|version| version.figures.clone())
            .unwrap_or_default()
    }

    /// A model that is loaded: the version that is asked for, or the one with the highest number.
    pub fn find(&self, name: &str, version: Option<&str>) -> Result<Arc<Model>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(name);
        let versions = entry.map(|entry| &entry.versions);
        let mut loaded = versions.into_iter().flatten();
        match version.filter(|version| !version.is_empty()) {
            None => {
                let mut models = loaded.filter_map(|(_, version)| version.model.clone());
                models
                    .next_back()
                    .ok_or_else(|| Error::UnknownModel(name.to_owned()))
            }
            Some(text) => {
                let number = text.parse::<u64>();
                let found = loaded.find(|(own, _)| number.as_ref() == Ok(*own));
                let model = found.and_then(|(_, version)| version.model.clone());
                model.ok_or_else(|| match entry {
                    None => Error::UnknownModel(name.to_owned()),
                    Some(_) => Error::UnknownVersion(name.to_owned(), text.to_owned()),
                })
            }
        }
    }

    /// All models that are loaded.
    pub fn loaded(&self) -> Vec<Arc<Model>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let versions = entries.values().flat_map(|entry| entry.versions.values());
        versions
            .filter_map(|version| version.model.clone())
            .collect()
    }

    /// The versions of a model that are loaded.
    pub fn versions(&self, name: &str) -> Vec<String> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let versions = entries
            .get(name)
            .into_iter()
            .flat_map(|entry| &entry.versions);
        let loaded = versions.filter(|(_, version)| version.model.is_some());
        loaded.map(|(number, _)| number.to_string()).collect()
    }

    /// The counters of all versions that ever were loaded, with name and version.
    pub fn all_figures(&self) -> Vec<(String, u64, Arc<Figures>)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let each = entries.iter().flat_map(|(name, entry)| {
            let versions = entry.versions.iter();
            versions.map(|(number, version)| (name.clone(), *number, version.figures.clone()))
        });
        each.collect()
    }

    /// All models that the folder has or had, whether they are loaded, and why not.
    pub fn index(&self, only_ready: bool) -> Vec<Json> {
        let names = self.names().unwrap_or_default();
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let mut index = Vec::new();
        for (name, entry) in entries.iter() {
            for (number, version) in &entry.versions {
                let (state, reason) = match &version.model {
                    Some(_) => ("READY", entry.failure.as_deref().unwrap_or_default()),
                    None => ("UNAVAILABLE", &version.reason[..]),
                };
                if version.model.is_some() || !only_ready {
                    index.push(json!({"name": name, "version": number.to_string(), "state": state, "reason": reason}));
                }
            }
            if entry.versions.is_empty() && !only_ready {
                let reason = entry.failure.as_deref().unwrap_or_default();
                index.push(
                    json!({"name": name, "version": "", "state": "UNAVAILABLE", "reason": reason}),
                );
            }
        }
        if !only_ready {
            let new = names.iter().filter(|name| !entries.contains_key(*name));
            index.extend(new.map(|name| json!({"name": name, "version": "", "state": "UNAVAILABLE", "reason": "not loaded"})));
        }
        index
    }
}

fn read_config(path: &Path) -> Result<Config, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Config::read(&text).map_err(|why| format!("config.pbtxt: {why}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(format!("config.pbtxt: {error}")),
    }
}

/// The versions that a model's folder has, in their order. The model's file may be a link, as in the caches of model hubs; a folder between
/// the version's and the file may not lead out of the model's folder.
fn versions(folder: &Path, file: &str) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    let failed = |error: std::io::Error| error.to_string();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let own = entry.map_err(failed)?.path();
        let number = own.file_name().and_then(|name| name.to_str());
        let number = number.and_then(|name| name.parse::<u64>().ok());
        let path = own.join(file);
        let (Some(version), true) = (number, path.is_file()) else {
            continue;
        };
        let beside = path.parent().unwrap_or(&own);
        let beside = beside.canonicalize().map_err(failed)?;
        let roots = [folder, &own].map(Path::canonicalize);
        if !roots.iter().flatten().any(|root| beside.starts_with(root)) {
            let why = format!("default_model_filename: {file:?} leads out of the model's folder");
            return Err(format!("config.pbtxt: {why}"));
        }
        found.push(Found { version, path });
    }
    found.sort_by_key(|found| found.version);
    Ok(found)
}

/// Leaves only the versions that are to be served.
fn served(found: &mut Vec<Found>, which: &Versions) {
    match which {
        Versions::All => {}
        Versions::Latest(count) => {
            found.drain(..found.len().saturating_sub(*count));
        }
        Versions::Specific(versions) => found.retain(|found| versions.contains(&found.version)),
    }
}
