//! The report as text.

use std::fmt::Write;

use streampool::Snapshot;
use streampool::runtime::{CacheSnapshot, QuirkSnapshot, Workaround};

use super::report::{Hardware, Report, Seen};
use super::self_test::SelfTest;
use crate::table::{Align, Table, wrap};
use crate::text::{bytes, count, counted};

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
        table.row([
            "can access the memory of".to_owned(),
            seen.reaches.join(", "),
        ]);
    }
    if let Some(pool) = &seen.pool {
        for cache in &pool.caches {
            table.row([format!("{} cache", cache.name), held(cache)]);
        }
        if pool.quirks.is_empty() {
            table.row(["driver quirks", "none"]);
        }
        for quirk in &pool.quirks {
            table.row([format!("quirk {}", quirk.name), measure(quirk)]);
        }
    }
    for (name, test) in tests {
        if let Some(test) = test {
            table.row([name.to_owned(), verdict(test)]);
        }
    }
    page.push_str(&table.render());
}

fn about(table: &mut Table, hardware: &Hardware) {
    table.row(["hardware", &hardware.name]);
    for (label, feature) in labelled("computes with", &hardware.features) {
        table.row([label, &feature]);
    }
    table.row(["compute units", &count(hardware.compute_units as u64)]);
    let reach = if hardware.unified_memory {
        "shared with the host"
    } else {
        "its own"
    };
    table.row([
        "memory".to_owned(),
        format!(
            "{}, {reach}, aligned to {}",
            bytes(hardware.memory_capacity),
            bytes(hardware.alignment)
        ),
    ]);
}

/// The features in one cell, or in one each if some are sentences: those tell what is missing.
fn labelled<'a>(label: &'a str, features: &[String]) -> Vec<(&'a str, String)> {
    const LONGEST_NAME: usize = 32;
    if features.is_empty() {
        return vec![(label, "no optional features".to_owned())];
    }
    if features.iter().all(|feature| feature.len() <= LONGEST_NAME) {
        return vec![(label, features.join(", "))];
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
    table.row([
        "streams".to_owned(),
        format!(
            "{}: stream 0 for the main thread, {} for others",
            pool.streams,
            pool.streams.saturating_sub(1)
        ),
    ]);
    let policy = report
        .settings
        .iter()
        .find(|setting| setting.name.ends_with("WAIT_TIMEOUT_MS"))
        .and_then(|setting| setting.value.clone());
    if let Some(policy) = policy {
        table.row(["if all are leased".to_owned(), policy]);
    }
    table.row([
        "now".to_owned(),
        format!(
            "{} made, {} free, {} waiting",
            pool.made.len(),
            pool.free_streams,
            counted(pool.waiting_threads as u64, "thread"),
        ),
    ]);
    let events = &pool.events;
    table.row([
        "events".to_owned(),
        format!(
            "{} made, {} reused, {} idle",
            events.made, events.reused, events.idle
        ),
    ]);
    for stream in &pool.made {
        if let Some(fault) = &stream.fault {
            table.row([
                format!("stream {}", stream.index),
                format!("POISONED: {fault}"),
            ]);
        }
    }
    page.push_str(&table.render());
}

fn memory(page: &mut String, report: &Report, pool: &Snapshot) {
    let memory = &pool.memory;
    let _ = writeln!(page, "\nMemory of {}", pool.device);
    let mut table = Table::pairs(2);
    table.row(["limit", &bytes(memory.limit)]);
    if let Some(settings) = &report.in_force {
        let (low, high) = (settings.low_watermark, settings.high_watermark);
        let at = |fraction: f64| bytes((memory.limit as f64 * fraction) as usize);
        table.row([
            "watermarks".to_owned(),
            format!(
                "above {} ({high}), idle memory is returned; still above {} ({low}), callbacks are called",
                at(high),
                at(low)
            ),
        ]);
    }
    table.row([
        "taken from the device".to_owned(),
        format!(
            "{} in {}, at most {} so far",
            bytes(memory.reserved),
            counted(memory.device_allocations, "allocation"),
            bytes(memory.peak_reserved)
        ),
    ]);
    table.row([
        "used by the device itself".to_owned(),
        format!(
            "{} of its memory (counts towards the limit), and {} of host memory for copies",
            bytes(memory.overhead),
            bytes(memory.staging)
        ),
    ]);
    table.row([
        "in buffers".to_owned(),
        format!(
            "{}, and {} freed but still in use by other streams",
            bytes(memory.in_use),
            bytes(memory.pending)
        ),
    ]);
    page.push_str(&table.render());
}

fn settings(page: &mut String, report: &Report) {
    let in_force = report
        .settings
        .iter()
        .all(|setting| setting.value.is_some());
    let state = if in_force {
        ""
    } else {
        ", not in use: see the findings"
    };
    let _ = writeln!(page, "\nSettings{state}");
    let mut table = Table::new(2, &[Align::Left; 3]);
    for setting in &report.settings {
        table.row([
            setting.name,
            setting.value.as_deref().unwrap_or("-"),
            setting.origin.as_deref().unwrap_or("-"),
        ]);
    }
    page.push_str(&table.render());
}

fn findings(page: &mut String, report: &Report) {
    if report.ok {
        page.push_str("\nNo problems found.\n");
        return;
    }
    let _ = writeln!(
        page,
        "\n{}",
        counted(report.findings.len() as u64, "finding")
    );
    let mut table = Table::pairs(2);
    for finding in &report.findings {
        table.row([&finding.about, &finding.problem]);
    }
    page.push_str(&table.render());
}
