//! Looks at files again and again: at the models of a folder, the keys, and the certificates, and loads what has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::server::Server;
use crate::tls::Tls;

/// How many files of a model are looked at.
const MOST_FILES: usize = 10_000;

/// The files that something is made of, as they were.
type Seen = Vec<(PathBuf, Option<SystemTime>, u64)>;

/// The models of a folder, as they were when they were loaded.
pub struct Folder {
    server: Arc<Server>,
    loaded: BTreeMap<String, Seen>,
    /// Models that have changed: they are loaded when they are the same at the next look, because a file may still be copied.
    changing: BTreeMap<String, Seen>,
}

impl Folder {
    /// All models are taken to be loaded as they are now.
    pub fn new(server: Arc<Server>) -> Folder {
        let loaded = look(&server).unwrap_or_default();
        Folder {
            server,
            loaded,
            changing: BTreeMap::new(),
        }
    }

    /// Looks once: loads models that are new or have changed, and unloads those whose files are gone.
    pub fn look(&mut self) {
        let now = match look(&self.server) {
            Ok(now) => now,
            Err(error) => {
                // A folder that cannot be read, as when it is mounted anew, is not an empty one.
                tracing::warn!(%error, "cannot look at the models");
                return;
            }
        };
        let gone: Vec<String> = self
            .loaded
            .keys()
            .filter(|name| !now.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            self.loaded.remove(&name);
            if let Err(error) = self.server.repository().unload(&name) {
                tracing::warn!(model = name, %error, "not unloaded");
            }
        }
        for (name, seen) in now {
            if self.loaded.get(&name) == Some(&seen) {
                self.changing.remove(&name);
                continue;
            }
            if self.changing.get(&name) != Some(&seen) {
                self.changing.insert(name, seen);
                continue;
            }
            self.changing.remove(&name);
            if let Err(error) = self.server.repository().load(&name) {
                tracing::error!(model = name, %error, "not loaded; what was loaded before keeps serving");
            }
            self.loaded.insert(name, seen);
        }
    }
}

fn look(server: &Server) -> std::io::Result<BTreeMap<String, Seen>> {
    let repository = server.repository();
    let names = repository.names()?;
    let seen = names.into_iter().map(|name| {
        let mut seen = Vec::new();
        for path in repository.files(&name) {
            files(&path, 0, &mut seen);
        }
        seen.sort();
        (name, seen)
    });
    Ok(seen.collect())
}

/// The files of a folder and of those in it, or a file.
fn files(path: &Path, depth: usize, seen: &mut Seen) {
    let Ok(data) = std::fs::metadata(path) else {
        return;
    };
    if !data.is_dir() {
        seen.push((path.to_owned(), data.modified().ok(), data.len()));
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries {
        if depth < 4 && seen.len() < MOST_FILES {
            files(&entry.path(), depth + 1, seen);
        }
    }
}

/// Loads keys and certificates when their files change. It ends with the server.
pub async fn secrets(server: Arc<Server>, tls: Option<Arc<Tls>>, every: Duration) {
    let paths = |server: &Server| -> Vec<PathBuf> {
        let keys = server.keys().map(|keys| keys.path().to_owned());
        let tls = tls.iter().flat_map(|tls| {
            let files = tls.files();
            [
                Some(files.certificate.clone()),
                Some(files.key.clone()),
                files.clients.clone(),
            ]
        });
        keys.into_iter().chain(tls.flatten()).collect()
    };
    let look = |server: &Server| {
        let mut seen = Vec::new();
        for path in paths(server) {
            files(&path, 0, &mut seen);
        }
        seen
    };
    let mut before = look(&server);
    while tokio::time::timeout(every, server.ended()).await.is_err() {
        let now = look(&server);
        if now == before {
            continue;
        }
        before = now;
        let keys = server.keys().map(|keys| ("keys", keys.reload()));
        let tls = tls.as_ref().map(|tls| ("certificates", tls.reload()));
        for (what, done) in keys.into_iter().chain(tls) {
            match done {
                Ok(()) => tracing::info!(what, "loaded again"),
                Err(why) => tracing::error!(what, why, "not loaded; those before stay in use"),
            }
        }
    }
}

/// Looks at the models so often. It ends with the server.
pub async fn models(server: Arc<Server>, every: Duration) {
    let mut folder = Some(Folder::new(server.clone()));
    while tokio::time::timeout(every, server.ended()).await.is_err() {
        let Some(mut looking) = folder.take() else {
            return;
        };
        let looked = tokio::task::spawn_blocking(move || {
            looking.look();
            looking
        });
        folder = looked.await.ok();
    }
}
