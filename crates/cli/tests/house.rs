//! The laws of the house, read off the source: who may use whom, where `unsafe` may stand, how long a file may
//! be, and that what README and the book promise is there.

#[path = "house/book.rs"]
mod book;
#[path = "house/lists.rs"]
mod lists;
#[path = "house/locks.rs"]
mod locks;
#[path = "house/source.rs"]
mod source;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use source::{Line, Source, files, has_word, split};

/// The folders of crates. What ships lies in the first.
const HOMES: [&str; 4] = ["crates", "apple", "testing", "bench"];

/// On which floor each crate stands. A crate may use crates of lower floors only.
const FLOORS: &[(&str, u8)] = &[
    ("streampool-device", 1),
    ("streampool-kernels", 2),
    ("streampool-host", 3),
    ("streampool-cuda", 3),
    ("streampool-metal", 3),
    ("streampool-runtime", 4),
    ("streampool-tensor", 5),
    ("streampool-model", 6),
    ("streampool-batch", 6),
    ("streampool", 7),
    ("streampool-console", 8),
    ("streampool-serve", 8),
    ("streampool-python", 8),
    ("streampool-cli", 9),
];

/// Crates beside the house: they may use any floor, and the floors may use them in tests only.
const BESIDE: &[&str] = &[
    "agx-fix",
    "streampool-conformance",
    "streampool-cuda-sim",
    "streampool-emulated",
    "streampool-measure",
    "streampool-metal-sim",
];

/// Where shipped code may say `unsafe`, and why there.
const UNSAFE_ALLOWED: &[(&str, &str)] = &[
    (
        "crates/device/src/device.rs",
        "declares `Device::free`, whose caller vouches that nothing uses the memory",
    ),
    (
        "crates/device/src/process.rs",
        "is told of forks by the operating system",
    ),
    (
        "crates/device/src/queue.rs",
        "declares the calls whose caller vouches for the memory that an op names",
    ),
    (
        "crates/host/src/",
        "a device: it turns spans into addresses and runs kernels on them",
    ),
    ("crates/cuda/src/", "a device: it calls the driver"),
    (
        "testing/cuda-sim/src/",
        "an imitation of the driver: C symbols, and the memory that they name",
    ),
    ("crates/metal/src/", "a device: it calls the framework"),
    (
        "testing/metal-sim/src/",
        "an imitation of Metal: C symbols, and the memory that they name",
    ),
    ("crates/runtime/src/spin.rs", "a lock"),
    (
        "crates/runtime/src/free_queue.rs",
        "nodes passed from thread to thread",
    ),
    (
        "crates/runtime/src/recycler.rs",
        "a lock-free store of values",
    ),
    ("crates/runtime/src/os.rs", "calls the operating system"),
    (
        "crates/runtime/src/encode.rs",
        "vouches to the device for the memory of an op",
    ),
    (
        "crates/runtime/src/quirks.rs",
        "passes on what encode.rs vouches for",
    ),
    (
        "crates/runtime/src/program.rs",
        "vouches to the device for the memory of a replay",
    ),
    (
        "crates/runtime/src/pool.rs",
        "takes foreign memory, for which its caller vouches",
    ),
    (
        "crates/runtime/src/memory/source.rs",
        "gives memory back to its device",
    ),
    (
        "crates/runtime/src/memory/buffer.rs",
        "declares what lends a buffer to a program, and always the same",
    ),
    (
        "crates/runtime/src/memory/shared.rs",
        "lends the host memory that no stream uses",
    ),
    (
        "crates/tensor/src/tensor.rs",
        "vouches that a tensor's memory stays the same",
    ),
    (
        "crates/tensor/src/dlpack/",
        "shares memory with other libraries, by their structures",
    ),
    (
        "crates/model/src/onnx/lend.rs",
        "lends the memory that a file was read into to the host's device",
    ),
    (
        "crates/model/src/trace/",
        "a device that only lists what it is told, by the contract of real ones",
    ),
    (
        "bench/measure/src/bare.rs",
        "calls the bare kernel, to compare with it",
    ),
    (
        "bench/measure/src/driver/",
        "calls the bare driver, to compare with it",
    ),
    (
        "bench/measure/src/host.rs",
        "uses the widest instructions that the processor has",
    ),
    (
        "apple/agx-fix/src/edge/",
        "replaces methods of classes that it learns of as the process runs",
    ),
    (
        "apple/agx-fix/src/trampoline/",
        "stands before methods whatever their signature",
    ),
    (
        "testing/conformance/src/",
        "vouches, as any caller of a device has to, for the memory that its ops name",
    ),
    (
        "testing/emulated/src/",
        "an imitation GPU: it runs kernels on the memory that ops name, each thread on a stack of its own",
    ),
];

/// Longer than this, a file no longer says one thing.
const MOST_LINES: usize = 600;

const TEST_COMMAND: &str = "cargo test --workspace";
const MAIN_COMMAND: &str = "cargo run --release -- story";

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the root of the workspace")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The sources below FOLDER of every crate.
fn sources(folder: &str) -> Vec<Source> {
    let root = root();
    let mut found: Vec<PathBuf> = HOMES
        .iter()
        .flat_map(|home| std::fs::read_dir(root.join(home)).expect("a folder of crates"))
        .flat_map(|entry| files(&entry.expect("a crate").path().join(folder), "rs"))
        .collect();
    found.sort();
    found.iter().map(|file| Source::read(&root, file)).collect()
}

/// What cargo says of each crate of the workspace.
fn packages() -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    metadata["packages"]
        .as_array()
        .expect("a list of packages")
        .clone()
}

#[track_caller]
fn assert_none(law: &str, violations: &[String]) {
    assert!(
        violations.is_empty(),
        "{law}\n  {}",
        violations.join("\n  ")
    );
}

fn floor(name: &str) -> Option<u8> {
    FLOORS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|&(_, floor)| floor)
}

/// What is wrong with crate `user` using crate `used` in shipped code.
fn trespass(user: &str, used: &str) -> Option<String> {
    if BESIDE.contains(&user) {
        return None;
    }
    if BESIDE.contains(&used) {
        return Some(format!(
            "{user} uses {used}, which is for tests: make it a dev-dependency"
        ));
    }
    match (floor(user), floor(used)) {
        (Some(own), Some(other)) if other < own => None,
        (Some(own), Some(other)) => {
            Some(format!("{user} (floor {own}) uses {used} (floor {other})"))
        }
        (None, _) => Some(format!(
            "{user} has no floor: add it to FLOORS or BESIDE of this test"
        )),
        (_, None) => Some(format!(
            "{used} has no floor: add it to FLOORS or BESIDE of this test"
        )),
    }
}

#[test]
fn a_crate_uses_lower_floors_only() {
    let mut violations = Vec::new();
    for package in packages() {
        let user = package["name"].as_str().expect("a name");
        if floor(user).is_none() && !BESIDE.contains(&user) {
            violations.push(format!(
                "{user} has no floor: add it to FLOORS or BESIDE of this test"
            ));
        }
        for dependency in package["dependencies"]
            .as_array()
            .expect("a list of dependencies")
        {
            let own = !dependency["path"].is_null();
            let shipped = dependency["kind"].as_str() != Some("dev");
            if own && shipped {
                violations.extend(trespass(user, dependency["name"].as_str().expect("a name")));
            }
        }
    }
    assert_none("A crate may use crates of lower floors only:", &violations);
}

#[test]
fn trespassing_is_seen() {
    assert_eq!(trespass("streampool-runtime", "streampool-device"), None);
    assert_eq!(
        trespass("streampool-conformance", "streampool-runtime"),
        None
    );
    assert!(trespass("streampool-device", "streampool-host").is_some());
    assert!(
        trespass("streampool-host", "streampool-cuda").is_some(),
        "neighbours do not know each other"
    );
    assert!(trespass("streampool-host", "streampool-conformance").is_some());
    assert!(trespass("streampool-host", "streampool-unheard-of").is_some());
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let manifest = read("Cargo.toml");
    assert!(manifest.contains("undocumented_unsafe_blocks = \"deny\""));
    assert!(manifest.contains("unsafe_op_in_unsafe_fn = \"deny\""));
    let mut violations = Vec::new();
    for package in packages() {
        let path = package["manifest_path"].as_str().expect("a path");
        let text = std::fs::read_to_string(path).expect("a manifest");
        if !text.contains("[lints]\nworkspace = true") {
            violations.push(path.to_owned());
        }
    }
    for source in sources("") {
        let lenient = |line: &Line| {
            line.code
                .contains("allow(clippy::undocumented_unsafe_blocks")
        };
        if source.lines.iter().any(lenient) {
            violations.push(source.path);
        }
    }
    assert_none(
        "Every crate takes the lints of the workspace, and none lifts the one on unsafe:",
        &violations,
    );
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let mut violations = Vec::new();
    let mut used = BTreeSet::new();
    for source in sources("src") {
        let place = UNSAFE_ALLOWED
            .iter()
            .find(|(prefix, _)| source.path.starts_with(prefix));
        for (number, line) in source.shipped() {
            if !has_word(&line.code, "unsafe") {
                continue;
            }
            match place {
                Some((prefix, _)) => {
                    used.insert(*prefix);
                }
                None => violations.push(format!("{}:{number}: {}", source.path, line.code.trim())),
            }
        }
    }
    for (prefix, _) in UNSAFE_ALLOWED {
        if root().join(prefix).exists() && !used.contains(prefix) {
            violations.push(format!(
                "{prefix} needs its leave no longer: take it out of UNSAFE_ALLOWED"
            ));
        }
    }
    assert_none(
        "`unsafe` may stand only where UNSAFE_ALLOWED of this test says:",
        &violations,
    );
}

#[test]
fn every_unsafe_block_gives_its_reason() {
    let mut violations = Vec::new();
    for source in sources("") {
        for (index, line) in source.lines.iter().enumerate() {
            let block = ["unsafe {", "unsafe impl"]
                .iter()
                .any(|start| line.code.contains(start));
            if block && !source.gives_safety_reason(index + 1) {
                violations.push(format!(
                    "{}:{}: {}",
                    source.path,
                    index + 1,
                    line.code.trim()
                ));
            }
        }
    }
    assert_none(
        "An unsafe block says above it, after SAFETY:, why it is sound:",
        &violations,
    );
}

#[test]
fn appending_to_a_queue_takes_it_mutably() {
    let text = read("crates/device/src/queue.rs");
    let (_, body) = text.split_once("pub trait Queue").expect("the trait");
    let (body, _) = body.split_once("\n}").expect("its end");
    // Where a signature is too long for a line.
    let body = body.replace("(\n        &mut self", "(&mut self");
    let lines = split(&body);
    let shared: Vec<String> = lines
        .iter()
        .filter(|line| has_word(&line.code, "fn") && !line.code.contains("(&mut self"))
        .map(|line| line.code.trim().to_owned())
        .collect();
    assert_eq!(shared, ["fn progress(&self) -> Arc<dyn Progress>;"]);
}

#[test]
fn no_fence_stands_alone() {
    let mut violations = Vec::new();
    for source in sources("src") {
        for (index, line) in source.lines.iter().enumerate() {
            if has_word(&line.code, "fence") && line.code.contains("fence(") {
                violations.push(format!(
                    "{}:{}: {}",
                    source.path,
                    index + 1,
                    line.code.trim()
                ));
            }
        }
    }
    assert_none(
        "The thread sanitizer does not understand a fence: order the atomic access itself:",
        &violations,
    );
}

#[test]
fn no_file_is_too_long() {
    let mut violations = Vec::new();
    for source in sources("src") {
        let lines = source.lines.len();
        if lines > MOST_LINES {
            violations.push(format!("{}: {lines} lines", source.path));
        }
    }
    assert_none(
        &format!("A file has at most {MOST_LINES} lines:"),
        &violations,
    );
}

/// Whether a front page holds an example that `cargo test` runs.
fn has_doc_test(front_page: &[&str]) -> bool {
    let mut open = false;
    let mut found = false;
    for fence in front_page
        .iter()
        .filter_map(|line| line.trim().strip_prefix("```"))
    {
        found |= !open && matches!(fence, "" | "rust" | "should_panic");
        open = !open;
    }
    found
}

#[test]
fn every_library_has_a_front_page_with_an_example() {
    let mut violations = Vec::new();
    for source in sources("src")
        .iter()
        .filter(|source| source.path.ends_with("/src/lib.rs"))
    {
        let front_page: Vec<&str> = source
            .lines
            .iter()
            .map_while(|line| line.comment.strip_prefix('!'))
            .collect();
        let public = source.path.starts_with("crates/");
        if front_page.is_empty() {
            violations.push(format!("{} has no front page", source.path));
        } else if public && !has_doc_test(&front_page) {
            violations.push(format!(
                "{} has a front page without an example that runs",
                source.path
            ));
        }
    }
    assert_none(
        "The front page of a crate says what it is for and shows it:",
        &violations,
    );
}

#[test]
fn every_source_file_says_what_it_is() {
    let mut violations = Vec::new();
    for source in sources("src") {
        if !source
            .lines
            .first()
            .is_some_and(|line| line.comment.starts_with('!'))
        {
            violations.push(source.path);
        }
    }
    assert_none(
        "A file begins with a `//!` line that says what it is:",
        &violations,
    );
}

#[test]
fn readme_shows_the_two_commands_and_ci_begins_with_the_tests() {
    let commands = |path: &str| {
        read(path)
            .lines()
            .map(str::trim)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let readme = commands("README.md");
    let ci = commands(".ci/run");
    for command in [TEST_COMMAND, MAIN_COMMAND] {
        assert!(
            readme.iter().any(|line| line.contains(command)),
            "README.md does not show `{command}`"
        );
    }
    let first = ci
        .iter()
        .find(|line| line.starts_with("step "))
        .expect("a step");
    assert!(
        first.ends_with(TEST_COMMAND),
        ".ci/run begins with `{first}`"
    );
}

#[test]
fn source_is_split_into_code_comment_and_text() {
    let text = "let a = \"unsafe \\\" { // no\"; // unsafe {\nlet b = r#\"un\"safe\"#; /* x /* y */ z */ f('\"', '\\'', 'a);\n";
    let lines = split(text);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].code, "let a = \"\"; ");
    assert_eq!(lines[0].comment, " unsafe {");
    assert_eq!(lines[1].code, "let b = \"\";  f(' ', ' ', 'a);");
    assert_eq!(lines[1].text, "un\"safe ");
    assert_eq!(lines[1].comment, " x  y  z ");
    assert!(has_word("pub unsafe fn", "unsafe") && !has_word("unsafe_code", "unsafe"));
}

#[test]
fn test_modules_are_not_shipped() {
    let lines = split(
        "fn a() {}\n\n#[cfg(all(test, not(loom)))]\nmod tests {\n    unsafe {}\n}\nfn b() {}\n",
    );
    let source = Source {
        path: "x.rs".into(),
        lines,
    };
    let kept: Vec<usize> = source.shipped().iter().map(|(number, _)| *number).collect();
    assert_eq!(kept, [1, 2, 3, 7]);
}

#[test]
fn reasons_are_found_where_they_belong() {
    let reason = |text: &str, number| {
        Source {
            path: "x.rs".into(),
            lines: split(text),
        }
        .gives_safety_reason(number)
    };
    assert!(reason(
        "// SAFETY: the pointer is ours.\nlet a =\n    unsafe { f() };\n",
        3
    ));
    assert!(reason(
        "// SAFETY: long\n// and longer.\n#[inline]\nunsafe impl Send for A {}\n",
        4
    ));
    assert!(reason("unsafe { f() } // SAFETY: no argument.\n", 1));
    assert!(
        !reason("// SAFETY:\nunsafe { f() };\n", 2),
        "an empty reason is none"
    );
    assert!(!reason(
        "// SAFETY: of the first.\nunsafe { f() };\nunsafe { g() };\n",
        3
    ));
    assert!(!reason(
        "// SAFETY: of something else.\n\nunsafe { f() };\n",
        3
    ));
}
