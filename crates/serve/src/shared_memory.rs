//! The extension `system_shared_memory`: tensors in objects of shared memory that a client on the same machine has made.
//!
//! A client names an object, may make it shorter at any time, and writes to it while it is read. So an object is never mapped: its bytes are
//! copied by `pread` and `pwrite`, which give an error where a mapping would end the process, and what was copied is checked afterwards.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value as Json, json};

use crate::error::{Error, Result};

/// Where Linux has objects of shared memory.
const FOLDER: &str = "/dev/shm";
/// How many regions one server has at most: each is an open file.
const MOST: usize = 1024;

/// The regions that clients have registered. Each belongs to the tenant that registered it; others do not see it.
pub struct Regions {
    /// How the names of the objects begin that clients may use; nothing: none.
    prefix: Option<String>,
    regions: Mutex<BTreeMap<(Tenant, String), Arc<Region>>>,
}

/// Whose a region is.
type Tenant = Option<Arc<str>>;

/// A part of an object of shared memory.
#[derive(Debug)]
struct Region {
    name: String,
    key: String,
    offset: u64,
    size: u64,
    file: File,
}

/// A part of a region that holds one tensor.
#[derive(Debug, Clone)]
pub struct Window {
    region: Arc<Region>,
    /// Where it begins in the region.
    offset: u64,
    size: usize,
}

/// What a client says of a region.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// The name of the object.
    pub key: String,
    /// Where it begins in the object.
    pub offset: u64,
    /// How many bytes it has.
    pub size: u64,
}

impl Regions {
    /// Clients may use objects whose names begin so, or none.
    pub fn new(prefix: Option<String>) -> Regions {
        Regions {
            prefix: prefix.map(|prefix| prefix.trim_start_matches('/').to_owned()),
            regions: Mutex::default(),
        }
    }

    fn regions(&self) -> MutexGuard<'_, BTreeMap<(Tenant, String), Arc<Region>>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a region.
    pub fn register(&self, tenant: &Tenant, region: Status) -> Result<()> {
        let name = &region.name;
        let wrong = |why: String| Error::invalid(format!("shared memory region '{name}': {why}"));
        let object = self.object(&region.key).map_err(wrong)?;
        let end = region.offset.checked_add(region.size);
        let end = end.filter(|_| region.size > 0);
        let end = end.ok_or_else(|| wrong("its offset and size are not a range".to_owned()))?;
        if name.is_empty() || name.len() > 256 {
            return Err(wrong("a name has 1 to 256 bytes".to_owned()));
        }
        let file = open(object).map_err(|why| wrong(format!("'{}' {why}", region.key)))?;
        let length = file.metadata().map_or(0, |data| data.len());
        if end > length {
            let why = format!("it ends at byte {end}, and '{}' has {length}", region.key);
            return Err(wrong(why));
        }
        let mut regions = self.regions();
        if regions.len() >= MOST {
            return Err(wrong(format!("there are {MOST} already, the most")));
        }
        let id = (tenant.clone(), name.clone());
        if regions.contains_key(&id) {
            return Err(wrong("it is registered already".to_owned()));
        }
        let Status {
            name,
            key,
            offset,
            size,
        } = region;
        let region = Region {
            name,
            key,
            offset,
            size,
            file,
        };
        regions.insert(id, Arc::new(region));
        Ok(())
    }

    /// The name of an object in the folder, if it is one that clients may use.
    fn object<'a>(&self, key: &'a str) -> Result<&'a str, String> {
        let Some(prefix) = &self.prefix else {
            return Err(
                "the server was started without `--shared-memory`, so it takes none".to_owned(),
            );
        };
        if !cfg!(target_os = "linux") {
            return Err("shared memory is for Linux only".to_owned());
        }
        let object = key.strip_prefix('/').unwrap_or(key);
        let plain = |c: char| !c.is_control() && c != '/';
        if object.is_empty() || object.starts_with('.') || !object.chars().all(plain) {
            return Err(format!(
                "{key:?} is not the name of an object of shared memory"
            ));
        }
        match object.starts_with(&prefix[..]) {
            true => Ok(object),
            false => Err(format!(
                "the server takes only objects whose names begin with {prefix:?}, see `--shared-memory`"
            )),
        }
    }

    /// Forgets a region of a tenant, or all of them if the name is empty. Requests in progress end with what they have.
    pub fn unregister(&self, tenant: &Tenant, name: &str) {
        let mut regions = self.regions();
        let mut removed = Vec::new();
        regions.retain(|(own, region), kept| {
            let goes = own == tenant && (name.is_empty() || region == name);
            if goes {
                removed.push(kept.clone());
            }
            !goes
        });
        // Files are closed without the lock.
        drop(regions);
    }

    /// The regions of a tenant, or the one of this name.
    pub fn status(&self, tenant: &Tenant, name: &str) -> Result<Vec<Status>> {
        let regions = self.regions();
        let own = regions
            .iter()
            .filter(|((own, region), _)| own == tenant && (name.is_empty() || region == name));
        let own = own.map(|(_, region)| Status {
            name: region.name.clone(),
            key: region.key.clone(),
            offset: region.offset,
            size: region.size,
        });
        let own: Vec<Status> = own.collect();
        match own.is_empty() && !name.is_empty() {
            true => Err(Error::UnknownRegion(name.to_owned())),
            false => Ok(own),
        }
    }

    /// A part of a region.
    pub fn window(&self, tenant: &Tenant, name: &str, offset: u64, size: u64) -> Result<Window> {
        let id = (tenant.clone(), name.to_owned());
        let region = self.regions().get(&id).cloned();
        let region = region.ok_or_else(|| Error::UnknownRegion(name.to_owned()))?;
        let end = offset.checked_add(size);
        let fits = end.is_some_and(|end| end <= region.size);
        let own = usize::try_from(size).ok().filter(|_| fits);
        let size = own.ok_or_else(|| {
            Error::invalid(format!(
                "{size} bytes at {offset} are not in the shared memory region '{name}', which has {}",
                region.size
            ))
        })?;
        Ok(Window {
            region,
            offset,
            size,
        })
    }
}

impl Status {
    /// The form that clients get.
    pub fn json(&self) -> Json {
        json!({"name": self.name, "key": self.key, "offset": self.offset, "byte_size": self.size})
    }
}

impl Window {
    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The name of its region, and where it begins there.
    pub fn place(&self) -> (&str, u64) {
        (&self.region.name, self.offset)
    }

    fn begin(&self) -> u64 {
        // Both are within the object, whose end was checked.
        self.region.offset.saturating_add(self.offset)
    }

    fn gone(&self, why: &dyn std::fmt::Display) -> Error {
        let name = &self.region.name;
        Error::invalid(format!(
            "the shared memory region '{name}' is shorter than it was when it was registered: {why}"
        ))
    }

    /// A copy of its bytes.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(self.size);
        room.map_err(|error| Error::invalid(error.to_string()))?;
        bytes.resize(self.size, 0);
        let read = self.region.file.read_exact_at(&mut bytes, self.begin());
        read.map_err(|error| self.gone(&error))?;
        Ok(bytes)
    }

    /// Writes bytes to its beginning.
    pub fn write(&self, output: &str, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.size {
            return Err(Error::invalid(format!(
                "shared memory size specified with the request for output '{output}' ({} bytes) should be at least {} bytes to hold the results",
                self.size,
                bytes.len()
            )));
        }
        let region = &self.region;
        // An object that is too short is not made longer.
        let length = region.file.metadata().map_or(0, |data| data.len());
        if self.begin().saturating_add(bytes.len() as u64) > length {
            return Err(self.gone(&format_args!("it has {length} bytes")));
        }
        let written = region.file.write_all_at(bytes, self.begin());
        written.map_err(|error| self.gone(&error))
    }
}

/// Opens an object: no link, and no pipe or device, which would make the server wait.
fn open(object: &str) -> Result<File, String> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(Path::new(FOLDER).join(object));
    let file = file.map_err(|error| format!("cannot be opened: {error}"))?;
    match file.metadata() {
        Ok(data) if data.is_file() => Ok(file),
        _ => Err("is not an object of shared memory".to_owned()),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    struct Object(String);

    impl Object {
        fn new(name: &str, bytes: &[u8]) -> Object {
            let name = format!("streampool-test-{}-{name}", std::process::id());
            std::fs::write(Path::new(FOLDER).join(&name), bytes).unwrap();
            Object(name)
        }

        fn path(&self) -> std::path::PathBuf {
            Path::new(FOLDER).join(&self.0)
        }
    }

    impl Drop for Object {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(self.path());
        }
    }

    fn region(name: &str, key: &str, offset: u64, size: u64) -> Status {
        Status {
            name: name.to_owned(),
            key: key.to_owned(),
            offset,
            size,
        }
    }

    #[test]
    fn only_objects_that_may_be_used_are_opened() {
        let object = Object::new("open", &[7; 64]);
        let link = Object(format!("{}-link", object.0));
        std::os::unix::fs::symlink("/etc/hostname", link.path()).unwrap();
        let regions = Regions::new(Some("streampool-test-".to_owned()));
        for (key, offset, size, why) in [
            ("../../etc/hostname", 0, 1, "not the name"),
            ("/streampool-test-/../../etc/hostname", 0, 1, "not the name"),
            (".", 0, 1, "not the name"),
            ("", 0, 1, "not the name"),
            ("/sem.other", 0, 1, "begin with"),
            (&link.0, 0, 1, "cannot be opened"),
            ("/streampool-test-none", 0, 1, "cannot be opened"),
            (&object.0, 0, 65, "ends at byte 65"),
            (&object.0, 64, 1, "ends at byte 65"),
            (&object.0, u64::MAX, 2, "not a range"),
            (&object.0, 0, 0, "not a range"),
        ] {
            let refused = regions.register(&None, region("r", key, offset, size));
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(why), "{error} for {key}");
        }
        let off = Regions::new(None);
        let refused = off.register(&None, region("r", &object.0, 0, 1));
        assert!(refused.unwrap_err().to_string().contains("--shared-memory"));
        regions
            .register(&None, region("r", &object.0, 0, 64))
            .unwrap();
        let again = regions.register(&None, region("r", &object.0, 0, 64));
        assert!(again.unwrap_err().to_string().contains("already"));
    }

    #[test]
    fn a_region_is_seen_by_its_tenant_only_and_bounds_hold() {
        let object = Object::new("bounds", &(0..64).collect::<Vec<u8>>());
        let regions = Regions::new(Some(String::new()));
        let ann: Tenant = Some("ann".into());
        regions
            .register(&ann, region("r", &format!("/{}", object.0), 8, 32))
            .unwrap();
        assert!(regions.window(&None, "r", 0, 1).is_err());
        assert!(regions.status(&None, "").unwrap().is_empty());
        assert_eq!(
            regions.window(&ann, "r", 2, 3).unwrap().read().unwrap(),
            [10, 11, 12]
        );
        for (offset, size) in [(0, 33), (33, 0), (u64::MAX, 2), (1, u64::MAX), (32, 1)] {
            let error = regions.window(&ann, "r", offset, size).unwrap_err();
            assert!(error.to_string().contains("are not in"), "{error}");
        }
        let window = regions.window(&ann, "r", 0, 4).unwrap();
        window.write("y", &[1, 2, 3, 4]).unwrap();
        assert!(window.write("y", &[0; 5]).is_err());
        assert_eq!(
            std::fs::read(object.path()).unwrap()[7..13],
            [7, 1, 2, 3, 4, 12]
        );
        regions.unregister(&None, "");
        assert_eq!(regions.status(&ann, "r").unwrap().len(), 1);
        regions.unregister(&ann, "r");
        assert!(regions.status(&ann, "r").is_err());
        assert_eq!(
            window.read().unwrap(),
            [1, 2, 3, 4],
            "a request that has it goes on"
        );
    }

    #[test]
    fn an_object_that_shrinks_is_an_error_and_no_signal() {
        let object = Object::new("shrinks", &[1; 8192]);
        let regions = Regions::new(Some(String::new()));
        regions
            .register(&None, region("r", &object.0, 0, 8192))
            .unwrap();
        let window = regions.window(&None, "r", 0, 8192).unwrap();
        let file = OpenOptions::new().write(true).open(object.path()).unwrap();
        file.set_len(100).unwrap();
        assert_eq!(window.read().unwrap_err().status(), 400);
        assert_eq!(window.write("y", &[0; 101]).unwrap_err().status(), 400);
        assert_eq!(
            file.metadata().unwrap().len(),
            100,
            "it was not made longer"
        );
        file.set_len(0).unwrap();
        assert!(window.read().is_err());
    }
}
