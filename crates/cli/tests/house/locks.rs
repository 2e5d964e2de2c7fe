//! The order of locks: declared in each crate's `ranks.rs`, told in ARCHITECTURE.md.

use std::collections::BTreeSet;

use super::source::Source;
use super::{assert_none, read, sources};

/// The locks that `ranks.rs` declares: the order and the name of each.
fn declared_ranks(source: &Source) -> Vec<(u16, String)> {
    let mut declared = Vec::new();
    let mut unnamed = None;
    for (_, line) in source.shipped() {
        for beginning in ["rank(", "order: "] {
            if let Some((_, rest)) = line.code.split_once(beginning) {
                let end = rest.find(|c: char| !c.is_ascii_digit());
                unnamed = rest[..end.unwrap_or(rest.len())].parse().ok().or(unnamed);
            }
        }
        if let (Some(order), false) = (unnamed, line.text.is_empty()) {
            declared.push((order, line.text.trim().to_owned()));
            unnamed = None;
        }
    }
    assert_eq!(unnamed, None, "{}: a rank has no name", source.path);
    declared
}

/// The ranks of each device's own locks, which one row stands for.
const DEVICE_RANKS: [(&str, std::ops::Range<u16>); 3] =
    [("host", 200..260), ("cuda", 260..300), ("metal", 400..430)];

#[test]
fn architecture_tells_the_rank_of_every_lock_and_no_other() {
    let architecture = read("ARCHITECTURE.md");
    let (_, section) = architecture
        .split_once("\n## Lock order\n")
        .expect("the section");
    let (table, _) = section.split_once("\n## ").expect("its end");
    let mut told: BTreeSet<(u16, String)> = table
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
            Some((cells.next()?.parse().ok()?, cells.next()?.to_owned()))
        })
        .collect();
    for (device, ranks) in &DEVICE_RANKS {
        assert!(table.contains(&format!("\n| {}– | {device} |", ranks.start)));
    }
    let mut violations = Vec::new();
    for source in sources("src") {
        if !source.path.ends_with("/ranks.rs") {
            continue;
        }
        let declared = declared_ranks(&source);
        assert!(!declared.is_empty(), "{} declares no rank", source.path);
        let of_device = |device: &str| source.path == format!("crates/{device}/src/ranks.rs");
        for rank in declared {
            let (order, name) = &rank;
            let whose = DEVICE_RANKS.iter().find(|(_, ranks)| ranks.contains(order));
            let known = match whose {
                Some((device, _)) => of_device(device),
                None => told.remove(&rank),
            };
            if !known {
                let place = &source.path;
                violations.push(format!("{place}: {order}, {name}, has no row"));
            }
        }
    }
    for (order, name) in told {
        violations.push(format!("{order}, {name}, has a row but no ranks.rs has it"));
    }
    assert_none("ARCHITECTURE.md lists each lock by rank:", &violations);
}
