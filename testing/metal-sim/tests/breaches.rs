//! Each rule, broken on purpose, is seen; and nothing else is.
#![cfg(metal_sim)]

#[path = "breaches/commands.rs"]
mod commands;
mod common;
#[path = "breaches/kernels.rs"]
mod kernels;
#[path = "breaches/objects.rs"]
mod objects;

use std::collections::BTreeSet;

use common::*;
use objc2_metal::MTLCommandBuffer;
use streampool_metal_sim::Rule;

/// The rule, what is done, and doing it.
type Breach = (Rule, &'static str, fn(&Sim, &Metal));

fn breaches() -> impl Iterator<Item = &'static Breach> {
    [objects::BREACHES, commands::BREACHES, kernels::BREACHES]
        .into_iter()
        .flatten()
}

#[test]
fn each_breach_is_seen() {
    for (rule, what, breach) in breaches() {
        let sim = Sim::recording();
        with_metal(|metal| breach(&sim, metal));
        let rules: BTreeSet<Rule> = sim
            .violations()
            .iter()
            .map(|violation| violation.rule)
            .collect();
        assert_eq!(rules, BTreeSet::from([*rule]), "{what}");
    }
}

#[test]
fn each_rule_has_its_breach() {
    let broken: BTreeSet<Rule> = breaches().map(|(rule, ..)| *rule).collect();
    assert_eq!(broken, BTreeSet::from(Rule::ALL));
}

#[test]
fn a_breach_aborts_where_nobody_records() {
    const ASKED: &str = "STREAMPOOL_BREAK_A_RULE";
    if std::env::var_os(ASKED).is_some() {
        let _sim = Sim::strict();
        return with_metal(|metal| {
            let commands = metal.commands();
            commands.commit();
            commands.commit();
        });
    }
    let program = std::env::current_exe().expect("this program");
    let name = "a_breach_aborts_where_nobody_records";
    let child = std::process::Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(ASKED, "1")
        .output();
    let child = child.expect("this program runs");
    assert!(!child.status.success());
    let told = String::from_utf8_lossy(&child.stderr);
    assert!(told.contains("CommitOnce") && told.contains(name), "{told}");
}
