//! The laws of the house, read off the source: who may use whom, where `unsafe` may stand, how long a file may
//! be, and that what README and the book promise is there.

#[path = "house/book.rs"]
mod book;
#[path = "house/circles.rs"]
mod circles;
#[path = "house/lists.rs"]
mod lists;
#[path = "house/locks.rs"]
mod locks;
#[path = "house/products.rs"]
mod products;
#[path = "house/source.rs"]
mod source;

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
    ("streampool-adversary", 3),
    ("streampool-runtime", 4),
    ("streampool-tensor", 5),
    ("streampool-model", 6),
    ("streampool-batch", 6),
    ("streampool", 7),
    ("streampool-console", 8),
    ("streampool-serve", 8),
    ("streampool-simulate", 9),
    ("streampool-cli", 10),
    ("streampool-python", 11),
];

/// Crates beside the house: they may use any floor, and the floors may use them in tests only.
const BESIDE: &[&str] = &[
    "agx-fix",
    "streampool-conformance",
    "streampool-cuda-sim",
    "streampool-emulated",
    "streampool-measure",
    "streampool-metal-sim",
    "streampool-races",
];

/// Crates whose trade is `unsafe`, and why. All others forbid it, or deny it and expect it in the files that give their
/// reason.
const UNSAFE: &[(&str, &str)] = &[
    (
        "streampool-host",
        "turns spans into addresses and runs kernels on them",
    ),
    ("streampool-cuda", "calls the driver"),
    (
        "streampool-adversary",
        "passes on what its caller vouches for to the device that it wraps",
    ),
    (
        "streampool-races",
        "passes on what its caller vouches for to the device that it wraps",
    ),
    ("streampool-metal", "calls the framework"),
    (
        "streampool-cuda-sim",
        "C symbols, and the memory that they name",
    ),
    (
        "streampool-metal-sim",
        "C symbols, and the memory that they name",
    ),
    (
        "streampool-emulated",
        "runs kernels on the memory that ops name, each thread on a stack of its own",
    ),
    (
        "streampool-measure",
        "compares with the bare kernel and driver",
    ),
    ("streampool-python", "what the macros of PyO3 make"),
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
    let lifted = [
        "allow(unsafe_code",
        "allow(clippy::undocumented_unsafe_blocks",
        "expect(clippy::undocumented_unsafe_blocks",
    ];
    for source in sources("") {
        let lenient = |line: &Line| lifted.iter().any(|lint| line.code.contains(lint));
        if source.lines.iter().any(lenient) {
            violations.push(source.path);
        }
    }
    assert_none(
        "Every crate takes the lints of the workspace, and none lifts those on unsafe:",
        &violations,
    );
}

#[test]
fn crates_refuse_unsafe_but_for_those_whose_trade_it_is() {
    let refusals = ["#![forbid(unsafe_code)]", "#![deny(unsafe_code)]"];
    let mut violations = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        let folder = Path::new(package["manifest_path"].as_str().expect("a path"));
        for root in ["src/lib.rs", "src/main.rs"].map(|root| folder.with_file_name(root)) {
            let refuses = std::fs::read_to_string(&root)
                .is_ok_and(|text| text.lines().any(|line| refusals.contains(&line)));
            if root.exists() && !refuses && !UNSAFE.iter().any(|(known, _)| *known == name) {
                violations.push(root.display().to_string());
            }
        }
    }
    assert_none(
        "A crate's root says `#![forbid(unsafe_code)]`, or `deny` and the files that need it `expect` with a reason:",
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

#[test]
fn no_files_need_each_other_in_a_circle() {
    let mut violations = Vec::new();
    for package in packages() {
        let folder = Path::new(package["manifest_path"].as_str().expect("a path"));
        let found = circles::circles(&folder.with_file_name("src"));
        violations.extend(found.iter().map(|circle| format!("{circle:#?}")));
    }
    assert_none(
        "Files of one crate do not need each other in a circle (what counts: `house/circles.rs`):",
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
        // What Python sees of its package is Python.
        let public =
            source.path.starts_with("crates/") && !source.path.starts_with("crates/python/");
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
