//! What the disk store promises: nothing damaged or foreign is believed, and nothing it cannot do hurts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process, thread};

use streampool_kernels::{DiskStore, Stored};

#[derive(Debug, PartialEq)]
struct Text(String);

impl Stored for Text {
    fn to_bytes(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok().map(Text)
    }
}

/// A directory of this test's own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Scratch(env::temp_dir().join(format!("streampool-disk-{}-{number}", process::id())))
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(value: &str) -> Text {
    Text(value.to_owned())
}

#[test]
fn what_is_saved_is_loaded_by_another_store() {
    let scratch = Scratch::new();
    let store = DiskStore::new(&scratch.0, "v1");
    assert_eq!(store.load::<Text>(b"key"), None);
    assert_eq!(
        store.failure(),
        None,
        "a kernel not there yet is no failure"
    );
    store.save(b"key", &text("kernel"));
    store.save(b"other", &text(""));
    let again = DiskStore::new(&scratch.0, "v1");
    assert_eq!(again.load(b"key"), Some(text("kernel")));
    assert_eq!(again.load(b"other"), Some(text("")));
    assert_eq!(DiskStore::new(&scratch.0, "v2").load::<Text>(b"key"), None);
    assert_eq!(scratch.files().len(), 2, "no temporary file is left");
}

#[test]
fn damage_anywhere_is_ignored_and_repaired() {
    let scratch = Scratch::new();
    let store = DiskStore::new(&scratch.0, "v1");
    store.save(b"key", &text("kernel"));
    let file = scratch.files().remove(0);
    let whole = fs::read(&file).unwrap();
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 0x10;
        fs::write(&file, &damaged).unwrap();
        assert_eq!(store.load::<Text>(b"key"), None, "byte {position}");
        fs::write(&file, &whole[..position]).unwrap();
        assert_eq!(store.load::<Text>(b"key"), None, "cut at {position}");
    }
    store.save(b"key", &text("kernel"));
    assert_eq!(fs::read(&file).unwrap(), whole, "the entry was replaced");
}

#[test]
fn another_key_under_the_same_name_is_not_believed() {
    let scratch = Scratch::new();
    let store = DiskStore::new(&scratch.0, "v1");
    store.save(b"one", &text("1"));
    let one = scratch.files().remove(0);
    store.save(b"two", &text("2"));
    let two = scratch
        .files()
        .into_iter()
        .find(|file| *file != one)
        .unwrap();
    fs::copy(&one, &two).unwrap();
    assert_eq!(store.load::<Text>(b"two"), None);
    assert_eq!(store.load(b"one"), Some(text("1")));
}

#[test]
fn a_directory_that_cannot_be_is_reported_and_done_without() {
    let scratch = Scratch::new();
    fs::create_dir_all(&scratch.0).unwrap();
    let blocker = scratch.0.join("file");
    fs::write(&blocker, "not a directory").unwrap();
    let store = DiskStore::new(blocker.join("kernels"), "v1");
    store.save(b"key", &text("kernel"));
    assert_eq!(store.load::<Text>(b"key"), None);
    let failure = store.failure().unwrap();
    assert!(failure.contains("file"), "{failure}");
}

const CHILD: &str = "STREAMPOOL_TEST_DISK_DIR";

/// Saves and loads the same keys again and again; every load gives nothing or the right kernel.
fn hammer(dir: &Path) {
    let store = DiskStore::new(dir, "v1");
    for round in 0..40 {
        for key in 0..4u8 {
            let body = format!("kernel {key} ").repeat(500 + usize::from(key));
            if let Some(found) = store.load::<Text>(&[key]) {
                assert!(
                    found.0 == body,
                    "round {round}: a kernel of another key or half of one"
                );
            }
            store.save(&[key], &Text(body));
        }
    }
    assert_eq!(store.failure(), None);
}

#[test]
fn writers_in_threads_and_processes_do_not_disturb_each_other() {
    if let Some(dir) = env::var_os(CHILD) {
        return hammer(Path::new(&dir));
    }
    let scratch = Scratch::new();
    let children: Vec<_> = (0..2)
        .map(|_| {
            Command::new(env::current_exe().unwrap())
                .args([
                    "--exact",
                    "writers_in_threads_and_processes_do_not_disturb_each_other",
                ])
                .env(CHILD, &scratch.0)
                .stdout(process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| hammer(&scratch.0));
        }
    });
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let store = DiskStore::new(&scratch.0, "v1");
    for key in 0..4u8 {
        assert!(store.load::<Text>(&[key]).is_some());
    }
    assert_eq!(scratch.files().len(), 4, "no temporary file is left");
}
