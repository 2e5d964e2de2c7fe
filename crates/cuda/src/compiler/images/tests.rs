//! What needs the compiler but no GPU. Without NVRTC in the library path these are skipped.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A folder of this test's own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("streampool-images-{}-{number}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // There is no folder where the test was skipped.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn images(architecture: &str, folder: Option<&Path>) -> Option<Images> {
    let images = Images::new(
        Ok(architecture.to_owned()),
        folder.map(|folder| folder.to_owned()),
    );
    match &images.compiler {
        Ok(_) => Some(images),
        Err(reason) => {
            eprintln!("skipped: {reason}");
            None
        }
    }
}

fn source(text: &str) -> Source {
    Source {
        entry: "probe",
        text: format!("extern \"C\" __global__ void probe(float* x) {{ {text} }}"),
        brought: 0,
    }
}

#[test]
fn a_text_becomes_an_image_for_the_architecture() {
    let Some(images) = images("sm_90", None) else {
        return;
    };
    let image = images.compile(&source("*x = 1.0f;")).unwrap();
    assert!(image.0.starts_with(b"\x7fELF"));
    let entry = b"probe\0";
    assert!(image.0.windows(entry.len()).any(|part| part == entry));
    assert!(images.kept(&source("*x = 1.0f;")).is_none(), "no folder");
}

#[test]
fn a_text_that_does_not_compile_gives_the_log() {
    let folder = Folder::new();
    let Some(images) = images("sm_90", Some(&folder.0)) else {
        return;
    };
    let broken = source("*x = nonsense;");
    let log = images.compile(&broken).map(|_| ()).unwrap_err();
    assert!(log.contains("kernel.cu(1)"), "{log}");
    assert!(
        log.contains("\"nonsense\" is undefined") && !log.ends_with('\0'),
        "{log}"
    );
    assert!(images.kept(&broken).is_none());
    let log = images.compile(&source("\0")).map(|_| ()).unwrap_err();
    assert!(log.contains("zero byte"), "{log}");
}

#[test]
fn an_image_is_kept_for_its_text_and_architecture_only() {
    let folder = Folder::new();
    let open = |architecture| images(architecture, Some(&folder.0));
    let (Some(first), Some(second), Some(foreign)) = (open("sm_90"), open("sm_90"), open("sm_80"))
    else {
        return;
    };
    let source_one = source("*x = 1.0f;");
    assert!(first.kept(&source_one).is_none());
    let made = first.compile(&source_one).unwrap();
    assert_eq!(second.kept(&source_one).unwrap().0, made.0);
    assert!(second.kept(&source("*x = 2.0f;")).is_none());
    assert!(foreign.kept(&source_one).is_none());

    // Even under the name that it would have itself, an image of another architecture is not taken.
    let file = folder.files().remove(0);
    foreign.compile(&source_one).unwrap();
    let of_foreign = folder.files().into_iter().find(|other| *other != file);
    fs::copy(of_foreign.unwrap(), &file).unwrap();
    assert!(second.kept(&source_one).is_none());
    second.compile(&source_one).unwrap();
    assert_eq!(first.kept(&source_one).unwrap().0, made.0);
    assert_eq!((first.problem(), second.problem()), (None, None));
}

#[test]
fn a_damaged_image_is_ignored_and_replaced() {
    let folder = Folder::new();
    let Some(images) = images("sm_90", Some(&folder.0)) else {
        return;
    };
    let source = source("*x = 3.0f;");
    let made = images.compile(&source).unwrap();
    let file = folder.files().remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&file, &bytes).unwrap();
    assert!(images.kept(&source).is_none());
    images.compile(&source).unwrap();
    assert_eq!(images.kept(&source).unwrap().0, made.0);
    assert_eq!(folder.files(), [file]);
}

#[test]
fn a_folder_that_cannot_be_used_costs_the_image_nothing_and_is_told() {
    let folder = Folder::new();
    fs::write(&folder.0, "in the way").unwrap();
    if let Some(images) = images("sm_90", Some(&folder.0)) {
        assert!(images.compile(&source("*x = 4.0f;")).is_ok());
        let problem = images.problem().unwrap();
        assert!(problem.contains(folder.0.to_str().unwrap()), "{problem}");
    }
    fs::remove_file(&folder.0).unwrap();
}

#[test]
fn without_a_compiler_it_says_what_is_missing_and_what_works() {
    let folder = Folder::new();
    let images = Images::new(Err("the GPU is shy".to_owned()), Some(folder.0.clone()));
    let why = images.compiler.clone().unwrap_err();
    for part in ["the GPU is shy", "no kernel can be compiled", "still work"] {
        assert!(why.contains(part), "{why}");
    }
    assert!(images.kept(&source("")).is_none());
    assert_eq!(images.problem(), None);

    // With NVRTC, an architecture that it does not know is named; without, NVRTC is.
    let why = Images::new(Ok("sm_1".to_owned()), None)
        .compiler
        .unwrap_err();
    assert!(why.contains("NVRTC"), "{why}");
    assert!(
        why.contains("libnvrtc.so.13") || (why.contains("sm_1,") && why.contains("sm_90")),
        "{why}"
    );
}
