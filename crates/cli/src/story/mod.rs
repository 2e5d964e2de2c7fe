//! `streampool story`: the whole argument, shown on the user's own machine, chapter by chapter.

mod crowd;
mod page;
mod safety;
mod verdict;

use std::time::Instant;

use clap::Args;
use serde_json::json;

use crate::machine::Machine;
use crate::progress::Progress;
use crate::{Outcome, Result, output};
use verdict::{Chapter, Done, Told, Verdict};

/// Show that it all holds: many threads, one device, every result right
///
/// Runs real work against imitated driver bugs, injected delays and faults, and checks every result.
/// Takes some ten seconds. Ends with 1 if anything does not hold.
///
/// It makes pools of its own, so STREAMPOOL_STREAMS, STREAMPOOL_MEMORY_LIMIT and STREAMPOOL_MITIGATIONS do
/// not change it; a setting that is not allowed is an error all the same.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool story\n  \
        streampool story --json | jq .ok")]
pub struct Options {
    /// Write one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Tells every chapter.
pub fn run(options: &Options) -> Result<Outcome> {
    refuse_bad_environment()?;
    let host = streampool::host::HostDevice::new(Default::default())?;
    let machine = Machine::with(streampool::Device::properties(&*host));
    drop(host);
    let chapters = [safety::chapter()?];
    let told: Vec<Told> = chapters.into_iter().map(tell).collect();
    let ok = told.iter().all(Told::is_ok);
    if options.json {
        output::json(&json!({ "ok": ok, "machine": machine, "chapters": told }))?;
    } else {
        output::text(&page::page(&machine, &told))?;
    }
    Ok(Outcome::of(ok))
}

/// The story sets its pools up itself, but a setting that is silently ignored helps nobody.
fn refuse_bad_environment() -> Result<()> {
    streampool::Settings::builder().build()?;
    streampool::host::HostOptions::from_env()?;
    streampool::cuda::CudaOptions::from_env()?;
    Ok(())
}

fn tell(chapter: Chapter) -> Told {
    let progress = Progress::new();
    let count = chapter.steps.len();
    let begin = Instant::now();
    let mut steps = Vec::new();
    for (number, step) in chapter.steps.into_iter().enumerate() {
        progress.step(number + 1, count, &step.what);
        let begin = Instant::now();
        // A step that cannot be done shows that something does not hold; the others still tell theirs.
        let verdict = (step.act)().unwrap_or_else(|failure| Verdict::failed(&*failure));
        steps.push(Done {
            name: step.name,
            what: step.what,
            verdict,
            seconds: begin.elapsed().as_secs_f64(),
        });
    }
    Told::new(
        chapter.name,
        chapter.question,
        chapter.moral,
        steps,
        begin.elapsed(),
    )
}
