//! Broken files are errors that name the file: no panic, and no memory for bytes that are not there.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Rng, pool};
use streampool_tensor::{Error, NpzFile, Pool, SafeTensors, Tensor};

/// Notes the largest single allocation.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

fn data(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    std::fs::read(folder.join(name)).unwrap()
}

fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Reads all there is in a file.
fn read(pool: &Pool, path: &Path) -> Result<(), Error> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("npy") => Tensor::read_npy(pool, path).map(drop),
        Some("npz") => NpzFile::open(path)?.read_all(pool).map(drop),
        _ => SafeTensors::open(path)?.read_all(pool).map(drop),
    }
}

/// Some bytes changed, some inserted, some taken out, or the end cut off.
fn mutated(choices: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + choices.below(4) {
        let at = choices
            .below(bytes.len().max(1))
            .min(bytes.len().saturating_sub(1));
        match choices.below(6) {
            _ if bytes.is_empty() => bytes.push(choices.bits() as u8),
            0 => bytes[at] ^= 1 << choices.below(8),
            1 => bytes[at] = choices.bits() as u8,
            2 => bytes[at] = b"0123456789-,:[](){}'\"<>"[choices.below(23)],
            3 => bytes.insert(at, b"0123456789[]({'\""[choices.below(16)]),
            4 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

#[test]
fn mutated_files_are_read_or_refused() {
    let pool = pool();
    for name in [
        "grid.npy",
        "fortran.npy",
        "version2.npy",
        "stored.npz",
        "deflated.npz",
        "some.safetensors",
    ] {
        let original = data(name);
        let mut choices = Rng::new(name.len() as u64);
        let mut refusals = 0;
        LARGEST.store(0, Ordering::Relaxed);
        for case in 0..500 {
            let bytes = mutated(&mut choices, &original);
            let path = scratch(&format!("mutated-{name}"), &bytes);
            if let Err(error) = read(&pool, &path) {
                refusals += 1;
                let named = error.to_string().contains(&format!("mutated-{name}"));
                assert!(named, "case {case}: the file is not named: {error}");
            }
        }
        assert!(refusals > 100, "{name}: {refusals} refusals prove little");
        let largest = LARGEST.load(Ordering::Relaxed);
        assert!(
            largest < 1 << 26,
            "{name}: {largest} bytes allocated at once"
        );
    }
}

#[track_caller]
fn refused(name: &str, bytes: &[u8], expected: &str) {
    let path = scratch(name, bytes);
    let message = read(&pool(), &path).unwrap_err().to_string();
    let (place, rest) = message.split_once(": ").unwrap();
    assert_eq!(place, path.display().to_string());
    assert!(rest.contains(expected), "{rest}");
}

fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

#[test]
fn npy_files_are_refused_with_what_and_where() {
    let header = |descr: &str, shape: &str| {
        npy(
            &format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}"),
            &[2; 4],
        )
    };
    refused("a.npy", b"", "the magic number is cut off");
    refused("b.npy", b"PK\x03\x04....", "byte 0 is `PK\\x03\\x04..`");
    refused("c.npy", b"\x93NUMPY\x09\x00..", "byte 6 is version 9");
    refused(
        "d.npy",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        "the length of the header is 4294967295",
    );
    refused(
        "e.npy",
        b"\x93NUMPY\x01\x00\x10\x00{",
        "the header is cut off",
    );
    refused(
        "f.npy",
        &npy("{'shape': 3}", b""),
        "byte 20 is '3', expected `(`",
    );
    refused(
        "g.npy",
        &header("<c8", "(1,)"),
        "`descr` of the header is `<c8`",
    );
    let huge = "(1000000, 1000000, 1000000, 1000000)";
    refused("h.npy", &header("<f4", huge), "`shape` of the header is");
    refused(
        "i.npy",
        &header("<f4", "(1000000000000,)"),
        "as many f32 as the 4 bytes",
    );
    refused(
        "j.npy",
        &header("<f4", "(1,1,1,1,1,1,1,1,1)"),
        "at most 8 axes",
    );
    refused(
        "k.npy",
        &header("|b1", "(4,)"),
        "is 2, expected 0 or 1 for a bool",
    );
}

#[test]
fn archives_are_refused_with_what_and_where() {
    refused(
        "a.npz",
        b"no archive at all, is it?",
        "the archive is broken",
    );
    // The data of an array is damaged: its checksum tells.
    let mut bytes = data("stored.npz");
    let values = 2.5f32.to_le_bytes();
    let at = bytes.windows(4).position(|bytes| bytes == values).unwrap();
    bytes[at] ^= 1;
    refused("b.npz", &bytes, "checksum");
}

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), data].concat()
}

#[test]
fn safetensors_are_refused_with_what_and_where() {
    let one = |dtype: &str, shape: &str, offsets: &str| {
        let header =
            format!(r#"{{"x":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#);
        safetensors(&header, &[7; 8])
    };
    refused("a.safetensors", b"", "the length of the header is cut off");
    refused("b.safetensors", &[0xff; 16], "expected at most 8 bytes");
    refused(
        "c.safetensors",
        &safetensors("[]", b""),
        "an object of tensors",
    );
    refused(
        "d.safetensors",
        &safetensors("{\"x\":", b""),
        "at line 1 column",
    );
    refused(
        "e.safetensors",
        &one("F4", "[2]", "[0,1]"),
        "`dtype` of tensor `x` is `F4`",
    );
    refused(
        "f.safetensors",
        &one("F32", "[3]", "[0,8]"),
        "expected 12 bytes, as [3] of f32 is",
    );
    refused(
        "g.safetensors",
        &one("F32", "[2]", "[8,0]"),
        "`data_offsets` of tensor `x` is 8 to 0",
    );
    refused(
        "h.safetensors",
        &one("F32", "[1]", "[4,8]"),
        "expected a start at 0",
    );
    refused(
        "i.safetensors",
        &one("F32", "[1]", "[0,4]"),
        "the data behind the header is 8 bytes",
    );
    let huge = one("F32", "[4294967296,4294967296]", "[0,18446744073709551615]");
    refused("j.safetensors", &huge, "`shape` of tensor `x`");
    refused(
        "k.safetensors",
        &one("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"),
        "at most 8 axes",
    );
    refused(
        "l.safetensors",
        &one("BOOL", "[8]", "[0,8]"),
        "(tensor `x`) is 7, expected 0 or 1",
    );
    refused(
        "m.safetensors",
        &one("F32", "[-2]", "[0,8]"),
        "the header is broken",
    );
    let entry = r#""x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}"#;
    let twice = safetensors(&format!("{{{entry},{entry}}}"), b"");
    refused("n.safetensors", &twice, "tensor `x` comes twice");
    let nested = safetensors(&"[".repeat(100_000), b"");
    refused("o.safetensors", &nested, "the header is broken");
}
