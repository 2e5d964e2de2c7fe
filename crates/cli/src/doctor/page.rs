//! The report as text.

use std::fmt::Write;

use streampool::Snapshot;
use streampool::runtime::{CacheSnapshot, QuirkSnapshot, Workaround};

use super::report::{Hardware, Report, Seen};
use super::self_test::SelfTest;
use crate::table::{Align, Table, wrap};
use crate::text::{bytes, count, counted, list};

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut page = format!("Streampool {}\n", report.version);
    for seen in &report.devices {
        device(&mut page, seen);
        if let Some(pool) = &seen.pool {
            streams(&mut page, report, pool);
            memory(&mut page, report, pool);
        }
    }
    settings(&mut page, report);
    findings(&mut page, report);
    page
}

fn device(page: &mut String, seen: &Seen) {
    let _ = write!(page, "\nDevice {}: ", seen.name);
    let (Some(hardware), true) = (&seen.hardware, seen.usable) else {
        let why = seen.why_not.as_deref().unwrap_or("no reason is known");
        let _ = writeln!(page, "not usable");
        for line in wrap(why, 76) {
            let _ = writeln!(page, "  {line}");
        }
        return;
    };
    let tests = [
        ("self-test", &seen.self_test),
        ("operators", &seen.operators),
    ];
    let mut tried = tests.iter().filter_map(|(_, test)| test.as_ref());
    let works = tried.all(|test| test.ok);
    let _ = writeln!(page, "{}", if works { "usable" } else { "NOT WORKING" });
    let mut table = Table::pairs(2);
    about(&mut table, hardware);
    if !seen.reaches.is_empty() {
        table.pair("can access the memory of", list(&seen.reaches));
    }
    if let Some(pool) = &seen.pool {
        for cache in &pool.caches {
            table.pair(format!("{} cache", cache.name), held(cache));
        }
        if pool.quirks.is_empty() {
            table.pair("driver quirks", "none");
        }
        for quirk in &pool.quirks {
            table.pair(format!("quirk {}", quirk.name), measure(quirk));
        }
    }
    for (name, test) in tests {
        if let Some(test) = test {
            table.pair(name, verdict(test));
        }
    }
    page.push_str(&table.render());
}

fn about(table: &mut Table, hardware: &Hardware) {
    table.pair("hardware", &hardware.name);
    for (label, feature) in labelled("computes with", &hardware.features) {
        table.pair(label, feature);
    }
    table.pair("compute units", count(hardware.compute_units as u64));
    let memory = bytes(hardware.memory_capacity);
    let reach = match hardware.unified_memory {
        true => "shared with the host",
        false => "its own",
    };
    let aligned = bytes(hardware.alignment);
    table.pair("memory", format!("{memory}, {reach}, aligned to {aligned}"));
}

/// The features in one cell, or in one each if some are sentences: those tell what is missing.
fn labelled<'a>(label: &'a str, features: &[String]) -> Vec<(&'a str, String)> {
    const LONGEST_NAME: usize = 32;
    if features.is_empty() {
        return vec![(label, "no optional features".to_owned())];
    }
    if features.iter().all(|feature| feature.len() <= LONGEST_NAME) {
        return vec![(label, list(features))];
    }
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    labels.zip(features.iter().cloned()).collect()
}

fn held(cache: &CacheSnapshot) -> String {
    format!(
        "{} held, {} compiled, {} from disk, {}",
        cache.entries,
        count(cache.compiled),
        count(cache.loaded),
        counted(cache.hits, "hit"),
    )
}

fn measure(quirk: &QuirkSnapshot) -> String {
    let how = match quirk.workaround {
        Workaround::Serialise => "one such call at a time",
        Workaround::Capture => "captured, then replayed",
        Workaround::Substitute => "another op in its place",
        Workaround::Throttle => "further calls wait",
    };
    let state = if quirk.mitigated {
        "mitigated"
    } else {
        "NOT MITIGATED"
    };
    format!("{state} ({how})")
}

fn verdict(test: &SelfTest) -> String {
    match &test.problem {
        None => format!("ok: {} ({:.1} ms)", test.what, test.milliseconds),
        Some(problem) => format!("FAILED: {problem}"),
    }
}

fn streams(page: &mut String, report: &Report, pool: &Snapshot) {
    let _ = writeln!(page, "\nStreams of {}", pool.device);
    let mut table = Table::pairs(2);
    let (all, others) = (pool.streams, pool.streams.saturating_sub(1));
    let shared = format!("{all}: stream 0 for the main thread, {others} for others");
    table.pair("streams", shared);
    let mut settings = report.settings.iter();
    let policy = settings.find(|setting| setting.name.ends_with("WAIT_TIMEOUT_MS"));
    if let Some(policy) = policy.and_then(|setting| setting.value.as_ref()) {
        table.pair("if all are leased", policy);
    }
    let (made, free) = (pool.made.len(), pool.free_streams);
    let waiting = counted(pool.waiting_threads as u64, "thread");
    table.pair(
        "now",
        format!("{made} made, {free} free, {waiting} waiting"),
    );
    let events = &pool.events;
    let (made, reused, idle) = (events.made, events.reused, events.idle);
    table.pair(
        "events",
        format!("{made} made, {reused} reused, {idle} idle"),
    );
    for stream in &pool.made {
        if let Some(fault) = &stream.fault {
            table.pair(
                format!("stream {}", stream.index),
                format!("POISONED: {fault}"),
            );
        }
    }
    page.push_str(&table.render());
}

fn memory(page: &mut String, report: &Report, pool: &Snapshot) {
    let memory = &pool.memory;
    let _ = writeln!(page, "\nMemory of {}", pool.device);
    let mut table = Table::pairs(2);
    table.pair("limit", bytes(memory.limit));
    if let Some(settings) = &report.in_force {
        let (low, high) = (settings.low_watermark, settings.high_watermark);
        let at = |fraction: f64| bytes((memory.limit as f64 * fraction) as usize);
        let above = format!(
            "above {} ({high}), idle memory is returned; still above {} ({low}), callbacks are called",
            at(high),
            at(low)
        );
        table.pair("watermarks", above);
    }
    let (reserved, most) = (bytes(memory.reserved), bytes(memory.peak_reserved));
    let times = counted(memory.device_allocations, "allocation");
    let taken = format!("{reserved} in {times}, at most {most} so far");
    table.pair("taken from the device", taken);
    let (overhead, staging) = (bytes(memory.overhead), bytes(memory.staging));
    let used = format!(
        "{overhead} of its memory (counts towards the limit), and {staging} of host memory for copies"
    );
    table.pair("used by the device itself", used);
    let (in_use, pending) = (bytes(memory.in_use), bytes(memory.pending));
    let held = format!("{in_use}, and {pending} freed but still in use by other streams");
    table.pair("in buffers", held);
    page.push_str(&table.render());
}

fn settings(page: &mut String, report: &Report) {
    let mut settings = report.settings.iter();
    let state = match settings.all(|setting| setting.value.is_some()) {
        true => "",
        false => ", not in use: see the findings",
    };
    let _ = writeln!(page, "\nSettings{state}");
    let mut table = Table::new(2, &[Align::Left; 3]);
    for setting in &report.settings {
        let (value, origin) = (setting.value.as_deref(), setting.origin.as_deref());
        table.row([setting.name, value.unwrap_or("-"), origin.unwrap_or("-")]);
    }
    page.push_str(&table.render());
}

fn findings(page: &mut String, report: &Report) {
    if report.ok {
        page.push_str("\nNo problems found.\n");
        return;
    }
    let count = counted(report.findings.len() as u64, "finding");
    let _ = writeln!(page, "\n{count}");
    let mut table = Table::pairs(2);
    for finding in &report.findings {
        table.pair(&finding.about, &finding.problem);
    }
    page.push_str(&table.render());
}
