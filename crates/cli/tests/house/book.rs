//! The book in `docs`: its pages are listed, its links lead somewhere, its examples are run, and its reference tells what the
//! code declares, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::source::{Source, files};
use super::{assert_none, read, root, sources};

/// Where the pages are.
const BOOK: &str = "docs/src";

/// What a page of the reference tells in the table below a heading, and the crate or the file that declares it.
const TOLD: &[(&str, &str, &str, Declared)] = &[
    (
        "reference/options.md",
        "Settings of a pool",
        "crates/runtime/src/settings/builder.rs",
        Declared::Makers("Self"),
    ),
    (
        "reference/options.md",
        "Options of the host device",
        "crates/host",
        Declared::Fields("HostOptions"),
    ),
    (
        "reference/options.md",
        "Options of a CUDA device",
        "crates/cuda",
        Declared::Fields("CudaOptions"),
    ),
    (
        "reference/options.md",
        "Options of a session",
        "crates/model",
        Declared::Fields("SessionOptions"),
    ),
    (
        "reference/options.md",
        "Options of a run",
        "crates/model",
        Declared::Fields("RunOptions"),
    ),
    (
        "reference/queue.md",
        "Settings",
        "crates/batch/src/builder.rs",
        Declared::Makers("BatchQueueBuilder"),
    ),
    (
        "reference/queue.md",
        "A request",
        "crates/batch/src/request.rs",
        Declared::Makers("Request"),
    ),
    (
        "reference/queue.md",
        "Padding",
        "crates/batch/src/padding.rs",
        Declared::Makers("Padding"),
    ),
    (
        "reference/queue.md",
        "Statistics",
        "crates/batch",
        Declared::Fields("Statistics"),
    ),
    (
        "reference/queue.md",
        "What became of requests",
        "crates/batch",
        Declared::Fields("RequestCounts"),
    ),
    (
        "reference/queue.md",
        "Why a batch went",
        "crates/batch",
        Declared::Variants("Reason"),
    ),
    (
        "reference/errors.md",
        "What to do: `streampool::ErrorKind`",
        "crates/streampool",
        Declared::Variants("ErrorKind"),
    ),
    (
        "reference/errors.md",
        "The queue: `streampool::batch::Error`",
        "crates/batch",
        Declared::Variants("Error"),
    ),
    (
        "reference/errors.md",
        "Models: `streampool::model::Error`",
        "crates/model",
        Declared::Variants("Error"),
    ),
    (
        "reference/errors.md",
        "Why a node failed: `streampool::model::NodeError`",
        "crates/model",
        Declared::Variants("NodeError"),
    ),
    (
        "reference/errors.md",
        "Tensors: `streampool::tensor::Error`",
        "crates/tensor",
        Declared::Variants("Error"),
    ),
    (
        "reference/errors.md",
        "The runtime: `streampool::runtime::Error`",
        "crates/runtime",
        Declared::Variants("Error"),
    ),
    (
        "reference/errors.md",
        "Settings: `streampool::SettingError`",
        "crates/runtime",
        Declared::Variants("SettingError"),
    ),
    (
        "reference/errors.md",
        "Devices: `streampool::device::Error`",
        "crates/device",
        Declared::Variants("Error"),
    ),
    (
        "reference/errors.md",
        "Devices that cannot be used: `streampool::Unusable`",
        "crates/streampool",
        Declared::Variants("Unusable"),
    ),
];

/// What of a source file is told.
#[derive(Clone, Copy)]
enum Declared {
    /// The public functions that give one.
    Makers(&'static str),
    /// The public fields of a struct.
    Fields(&'static str),
    /// The variants of an enum.
    Variants(&'static str),
}

impl Declared {
    /// The names.
    fn names(self, source: &Source) -> BTreeSet<String> {
        let lines = source.shipped().into_iter();
        let lines = lines.map(|(_, line)| line.code.as_str());
        let inside = |beginning: String| {
            let body = lines.clone().skip_while(move |line| *line != beginning);
            body.skip(1).take_while(|line| *line != "}")
        };
        let name = |text: &str| identifier(text).to_owned();
        match self {
            Declared::Makers(kind) => {
                let end = format!("-> {kind} {{");
                let (mut latest, mut makers) = (None, BTreeSet::new());
                for line in lines {
                    // A signature may take several lines.
                    if line.contains("fn ") {
                        latest = line.trim().strip_prefix("pub fn ").map(name);
                    }
                    if line.ends_with(&end) {
                        makers.extend(latest.take());
                    }
                }
                makers
            }
            Declared::Fields(kind) => {
                let fields = inside(format!("pub struct {kind} {{"));
                let fields = fields.filter_map(|line| line.strip_prefix("    pub "));
                fields.map(name).collect()
            }
            Declared::Variants(kind) => {
                let variants = inside(format!("pub enum {kind} {{"));
                let variants = variants.filter_map(|line| line.strip_prefix("    "));
                let variants = variants.filter(|line| line.starts_with(char::is_uppercase));
                variants.map(name).collect()
            }
        }
    }
}

/// The name at the beginning.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
    &text[..end.unwrap_or(text.len())]
}

fn page(name: &str) -> String {
    read(&format!("{BOOK}/{name}"))
}

/// The pages, but for the list of them.
fn pages() -> BTreeSet<String> {
    let book = root().join(BOOK);
    let pages = files(&book, "md").into_iter().map(|file| {
        let path = file.strip_prefix(&book).expect("a page of the book");
        path.to_string_lossy().replace('\\', "/")
    });
    pages.filter(|page| page != "SUMMARY.md").collect()
}

/// The text outside of fences, line by line, and the words behind the fences that open.
fn split_fences(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut lines, mut fences, mut open) = (Vec::new(), Vec::new(), false);
    for line in text.lines() {
        match line.trim_start().strip_prefix("```") {
            Some(words) => {
                if !open {
                    fences.push(words);
                }
                open = !open;
            }
            None if !open => lines.push(line),
            None => {}
        }
    }
    (lines, fences)
}

/// Where its links lead, but for those to other sites.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in split_fences(text).0 {
        // What is between backticks is no link.
        let prose: Vec<&str> = line.split('`').step_by(2).collect();
        for rest in prose.join("`").split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            if !target.contains("://") {
                links.push(target.to_owned());
            }
        }
    }
    links
}

/// The places that a link can name: its headings, as mdBook spells them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = split_fences(text).0.into_iter();
    let headings = headings.filter(|line| line.starts_with('#'));
    let spelled = |heading: &str| {
        let letters = heading.trim_start_matches('#').trim().chars();
        let letters = letters.filter_map(|c| match c {
            c if c.is_whitespace() => Some('-'),
            c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
            _ => None,
        });
        letters.collect::<String>().to_lowercase()
    };
    headings.map(spelled).collect()
}

/// What is wrong with the links of a file. Those of a page lead to pages.
fn broken_links(path: &str, of_book: bool) -> Vec<String> {
    let text = read(path);
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let problem = |link: &String| {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = match file {
            "" => PathBuf::from(path),
            _ => resolved(&folder.join(file)),
        };
        let in_book = target.starts_with(BOOK) && target.extension().is_some_and(|e| e == "md");
        if !root().join(&target).is_file() || of_book && !in_book {
            return Some(format!("{path}: {link} leads nowhere"));
        }
        let known = || anchors(&read(&target.to_string_lossy())).contains(anchor);
        (!anchor.is_empty() && !known()).then(|| format!("{path}: {link} names no heading"))
    };
    links(&text).iter().filter_map(problem).collect()
}

/// A path without steps back.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            part => resolved.push(part),
        }
    }
    resolved
}

/// The names in the first cells of the tables below a heading.
fn told(page: &str, heading: &str) -> BTreeSet<String> {
    let title = format!("## {heading}");
    let section = page.lines().skip_while(|line| *line != title).skip(1);
    let section = section.take_while(|line| !line.starts_with("## "));
    let names = section.filter_map(|line| line.strip_prefix("| `"));
    names.map(|name| identifier(name).to_owned()).collect()
}

/// What is told and not there, and what is there and not told.
fn compared(place: &str, told: &BTreeSet<String>, there: &BTreeSet<String>) -> Vec<String> {
    let missing = there.difference(told);
    let missing = missing.map(|name| format!("{place} does not tell {name}"));
    let stale = told.difference(there);
    let stale = stale.map(|name| format!("{place} tells {name}, which is not there"));
    missing.chain(stale).collect()
}

/// The names of settings in `text`.
fn settings(text: &str) -> BTreeSet<String> {
    let names = text.match_indices("STREAMPOOL_").map(|(at, _)| {
        let name = text[at..].chars();
        let name = name.take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_');
        name.collect::<String>()
    });
    // A name that ends so is the beginning of many.
    names.filter(|name| !name.ends_with('_')).collect()
}

/// What the program says of a command.
fn help(command: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_streampool"))
        .args(command.split(' ').skip(1))
        .arg("--help")
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{command} --help");
    String::from_utf8(output.stdout).expect("help is text")
}

/// The commands that do something, from this one on, each with its options.
fn commands(command: &str) -> BTreeMap<String, BTreeSet<String>> {
    let help = help(command);
    let below = help.lines().skip_while(|line| *line != "Commands:");
    let below = below.skip(1).take_while(|line| !line.is_empty());
    let names = below.filter_map(|line| line.strip_prefix("  "));
    let names = names.map(|line| line.split(' ').next().unwrap_or_default());
    let names: Vec<&str> = names.filter(|name| !["", "help"].contains(name)).collect();
    if names.is_empty() {
        return BTreeMap::from([(command.to_owned(), options(&help))]);
    }
    let below = names
        .iter()
        .map(|name| commands(&format!("{command} {name}")));
    below.flatten().collect()
}

/// The options that a help text tells, but for those of every command.
fn options(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start);
    let lines = lines.filter(|line| line.starts_with('-'));
    let names = lines.filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--")));
    let names = names.map(|name| identifier(name).to_owned());
    names
        .filter(|name| !["--help", "--version"].contains(&&name[..]))
        .collect()
}

#[test]
fn every_page_is_listed_once() {
    let mut listed = links(&page("SUMMARY.md"));
    listed.sort();
    let pages: Vec<String> = pages().into_iter().collect();
    assert_eq!(listed, pages);
}

#[test]
fn links_of_the_book_and_of_the_pages_beside_it_lead_somewhere() {
    let mut violations = Vec::new();
    for path in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "fuzz/README.md",
    ] {
        violations.extend(broken_links(path, false));
    }
    for page in pages() {
        violations.extend(broken_links(&format!("{BOOK}/{page}"), true));
    }
    assert_none("Links lead to what is there:", &violations);
}

#[test]
fn every_example_of_the_book_is_run() {
    let library = read("crates/streampool/src/lib.rs");
    let mut violations = Vec::new();
    for name in pages() {
        let text = page(&name);
        let fences = split_fences(&text).1;
        if fences.contains(&"") {
            violations.push(format!("{name}: a fence does not say what is in it"));
        }
        let included = library.contains(&format!("include_str!(\"../../../{BOOK}/{name}\")"));
        if !included && fences.iter().any(|words| words.starts_with("rust")) {
            violations.push(format!(
                "{name} is not among the examples of crates/streampool/src/lib.rs"
            ));
        }
    }
    assert_none("Examples in Rust are run with the tests:", &violations);
}

#[test]
fn the_reference_tells_every_variable_and_nobody_tells_another() {
    let mut read_by_code: BTreeMap<String, String> = BTreeMap::new();
    for source in sources("src") {
        for (number, line) in source.shipped() {
            for name in settings(&line.text) {
                let place = || format!("{}:{number}", source.path);
                read_by_code.entry(name).or_insert_with(place);
            }
        }
    }
    let reference = settings(&page("reference/environment.md"));
    let mut violations = Vec::new();
    for (name, place) in &read_by_code {
        if !reference.contains(name) {
            violations.push(format!("{name} ({place}) is not in the reference"));
        }
    }
    // The reference of the command tells the options of the server, and each can also be given by a variable.
    let of_server = options(&help("streampool serve"));
    for option in of_server.iter().map(|name| &name[2..]).chain(["models"]) {
        let name = option.replace('-', "_").to_uppercase();
        read_by_code.insert(format!("STREAMPOOL_SERVE_{name}"), String::new());
    }
    let pages = pages().into_iter().map(|page| format!("{BOOK}/{page}"));
    for path in pages.chain(["README.md".to_owned()]) {
        for name in settings(&read(&path)) {
            if !read_by_code.contains_key(&name) {
                violations.push(format!("{name} is in {path} but nothing reads it"));
            }
        }
    }
    assert_none("The reference tells every variable:", &violations);
}

#[test]
fn the_reference_tells_what_the_code_declares() {
    let mut violations = Vec::new();
    for &(name, heading, path, declared) in TOLD {
        let below = root().join(path);
        let files = match path.ends_with(".rs") {
            true => vec![below],
            false => files(&below.join("src"), "rs"),
        };
        let there = files
            .iter()
            .map(|file| declared.names(&Source::read(&root(), file)));
        let there: BTreeSet<String> = there.flatten().collect();
        assert!(!there.is_empty(), "{path} declares nothing for {heading:?}");
        let place = format!("{name}, {heading:?},");
        violations.extend(compared(&place, &told(&page(name), heading), &there));
    }
    assert_none("The reference tells what there is:", &violations);
}

#[test]
fn every_error_has_a_kind() {
    let kinds = read("crates/streampool/src/error.rs");
    let mut violations = Vec::new();
    for (name, path) in [
        ("Batch", "crates/batch/src/error.rs"),
        ("Model", "crates/model/src/error.rs"),
        ("Tensor", "crates/tensor/src/error.rs"),
        ("Runtime", "crates/runtime/src/error.rs"),
        ("Device", "crates/device/src/error.rs"),
    ] {
        let source = Source::read(&root(), &root().join(path));
        for variant in Declared::Variants("Error").names(&source) {
            let names = |word: &str| word == format!("{name}::{variant}");
            let mut words = kinds.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            if !words.any(names) {
                violations.push(format!("{path}: {variant} has no kind"));
            }
        }
    }
    assert_none(
        "Every error has a kind in crates/streampool/src/error.rs:",
        &violations,
    );
}

#[test]
fn the_reference_tells_every_command_and_option() {
    let page = page("reference/commands.md");
    let commands = commands("streampool");
    let headings = page.lines().filter_map(|line| line.strip_prefix("## `"));
    let headings = headings.map(|heading| heading.trim_end_matches('`').to_owned());
    let names = commands.keys().cloned().collect();
    let mut violations = compared("the list of commands", &headings.collect(), &names);
    for (command, options) in &commands {
        let told = told(&page, &format!("`{command}`"));
        violations.extend(compared(command, &told, options));
    }
    assert_none("The reference tells every command:", &violations);
}

#[test]
fn what_is_declared_is_found() {
    let text = "pub struct A {\n    /// One.\n    pub one: u8,\n    two: u8,\n}\n\npub enum B {\n    #[error(\n        \"x\"\n    )]\n    \
                First {\n        Inner: u8,\n    },\n    Second(u8),\n}\nimpl A {\n    pub fn three(mut self) -> A {\n    }\n    \
                pub fn four(&self) -> u8 {\n    }\n}\n";
    let source = Source {
        path: "x.rs".into(),
        lines: super::split(text),
    };
    let names = |declared: Declared| declared.names(&source).into_iter().collect::<Vec<_>>();
    assert_eq!(names(Declared::Fields("A")), ["one"]);
    assert_eq!(names(Declared::Variants("B")), ["First", "Second"]);
    assert_eq!(names(Declared::Makers("A")), ["three"]);
}

#[test]
fn pages_are_read_as_they_are_meant() {
    let text = "# A page\n\nSee [it](b.md#why-not) and `[no](link)`.\n\n```text\n[no](link)\n# no heading\n```\n\n\
                ## Why `not`?\n\n| name | x |\n|---|---|\n| `one(rows)` | [a](https://a.b) |\n\n## Next\n\n| `two` |\n";
    assert_eq!(links(text), ["b.md#why-not"]);
    let set = |names: &[&str]| {
        names
            .iter()
            .map(|name| name.to_string())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(anchors(text), set(&["a-page", "next", "why-not"]));
    assert_eq!(split_fences(text).1, ["text"]);
    assert_eq!(told(text, "Why `not`?"), set(&["one"]));
    assert_eq!(
        resolved(Path::new("docs/src/a/../b.md")),
        Path::new("docs/src/b.md")
    );
    let help =
        "Commands:\n  x  y\n\nOptions:\n      --one <X>\n          -\n  -t, --two\n  -h, --help\n";
    assert_eq!(options(help), set(&["--one", "--two"]));
}
