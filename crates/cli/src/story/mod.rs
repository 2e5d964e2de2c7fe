//! `streampool story`: the whole argument, shown on the user's own machine, chapter by chapter.

mod adversary;
mod batching;
mod builtin;
mod chapter;
mod correctness;
mod crowd;
mod page;
mod pipelining;
mod rates;
mod report;
mod safety;
mod scaling;
mod setting;
mod sheet;
mod steps;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::device::On;
use crate::inputs::Given;
use crate::progress::Progress;
use crate::{Outcome, Result, output, run};
use chapter::{Chapter, Told};
use setting::Setting;

/// Show that it all holds: many threads, one device, every result right
///
/// Six chapters, each with a claim, figures, and a verdict that follows from them: safety, scaling, batching, correctness,
/// pipelining, and an adversary that imitates driver bugs. Takes a minute or two. Ends with 1 if a claim does not hold.
///
/// The models are a linear layer and an encoder of two layers, made from a fixed seed, or the encoder's place is taken by a
/// model of yours. Correctness and the adversary keep to what is built in.
///
/// It makes pools of its own, so STREAMPOOL_STREAMS, STREAMPOOL_MEMORY_LIMIT and STREAMPOOL_MITIGATIONS do
/// not change it; a setting that is not allowed is an error all the same.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool story\n  \
        streampool story --out report     a page with drawings in report/story.html\n  \
        streampool story --device cuda\n  \
        streampool story --model model.onnx --shape x=1,16\n  \
        streampool story --chapter scaling --seconds 2\n  \
        streampool story --json | jq .ok")]
pub struct Options {
    /// The device to tell it of
    #[arg(long, value_enum, default_value_t = On::Host)]
    device: On,
    /// A model to run in place of the encoder; inputs are made up
    #[arg(long, value_name = "ONNX")]
    model: Option<PathBuf>,
    /// The shape of an input of that model, such as x=1,16; may be given for each
    #[arg(long, value_name = "NAME=SIZES", requires = "model", value_parser = Given::parse)]
    shape: Vec<Given>,
    /// Tell this chapter only; may be given several times
    #[arg(long, value_enum)]
    chapter: Vec<Name>,
    /// About how long each figure is measured
    #[arg(long, default_value_t = 0.75, allow_negative_numbers = true, value_parser = run::seconds)]
    seconds: f64,
    /// Write a page with drawings into this folder, and each drawing as an image
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// The chapters, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    Safety,
    Scaling,
    Batching,
    Correctness,
    Pipelining,
    Adversary,
}

impl Name {
    fn chapter(self, on: On) -> Chapter {
        match self {
            Name::Safety => safety::chapter(),
            Name::Scaling => scaling::chapter(on),
            Name::Batching => batching::chapter(on),
            Name::Correctness => correctness::chapter(),
            Name::Pipelining => pipelining::chapter(on),
            Name::Adversary => adversary::chapter(),
        }
    }
}

/// Tells the chapters.
pub fn run(options: &Options) -> Result<Outcome> {
    refuse_bad_environment()?;
    options.out.as_deref().map_or(Ok(()), report::make)?;
    let slice = Duration::from_secs_f64(options.seconds);
    let setting = Setting::new(
        options.device,
        options.model.as_deref(),
        &options.shape,
        slice,
    )?;
    let scene = setting.scene();
    let told = tell(&setting, &options.chapter);
    let ok = told.iter().all(Told::ok);
    let written = match &options.out {
        Some(folder) => Some(report::write(folder, &scene, &told)?),
        None => None,
    };
    if options.json {
        let chapters: Vec<Value> = told.iter().map(Told::json).collect();
        output::json(&json!({
            "ok": ok,
            "setting": scene,
            "chapters": chapters,
        }))?;
    } else {
        output::text(&page::page(&scene, &told, written.as_deref()))?;
    }
    Ok(Outcome::of(ok))
}

fn tell(setting: &Setting, chosen: &[Name]) -> Vec<Told> {
    let (all, progress) = (Name::value_variants(), Progress::new());
    let wanted = |name: &Name| chosen.is_empty() || chosen.contains(name);
    let tell = |(place, name): (usize, &Name)| {
        let number = place + 1;
        let chapter = name.chapter(setting.on);
        chapter.told(number, setting, &|what| {
            let what = format!("{}: {what}", chapter.name);
            progress.step(number, all.len(), &what);
        })
    };
    let numbered = all.iter().enumerate().filter(|(_, name)| wanted(name));
    numbered.map(tell).collect()
}

/// The story sets its pools up itself, but a setting that is silently ignored helps nobody.
fn refuse_bad_environment() -> Result<()> {
    streampool::Settings::builder().build()?;
    streampool::host::HostOptions::from_env()?;
    streampool::cuda::CudaOptions::from_env()?;
    Ok(())
}
