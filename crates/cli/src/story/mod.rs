//! `streampool story`: the whole argument, shown on the user's own machine, chapter by chapter.

mod adversary;
mod batching;
mod chapter;
mod correctness;
mod pipelining;
mod rates;
mod safety;
mod scaling;
mod setting;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::device::On;
use crate::inputs::Given;
use crate::page::{Page, Part, Table};
use crate::progress::Progress;
use crate::text::within;
use crate::{Outcome, Result, output};
use chapter::{Chapter, Told};
use setting::Setting;

/// Demonstrate the claims of this project: many threads, one device, correct results
///
/// Six chapters, each with a claim, measurements, and a verdict that follows from them: safety, scaling, batching,
/// correctness, pipelining, and an adversary that imitates driver bugs. Takes one or two minutes. The exit code is 1 if a
/// claim does not hold.
///
/// The models are a linear layer and an encoder of two layers, made from a fixed seed. You can replace the encoder with your
/// own model. The chapters correctness and adversary always use the built-in models.
///
/// The story makes its own pools, so STREAMPOOL_STREAMS, STREAMPOOL_MEMORY_LIMIT and STREAMPOOL_MITIGATIONS do not
/// affect it. Invalid settings are still errors.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool story\n  \
        streampool story --out report     a page with drawings in report/story.html\n  \
        streampool story --device cuda\n  \
        streampool story --model model.onnx --shape x=1,16\n  \
        streampool story --chapter scaling --seconds 2\n  \
        streampool story --json | jq .ok")]
pub struct Options {
    /// The device to run on
    #[arg(long, value_enum, default_value_t = On::Host)]
    device: On,
    /// A model to run instead of the encoder, with random inputs
    #[arg(long, value_name = "ONNX")]
    model: Option<PathBuf>,
    /// The shape of an input of that model, such as x=1,16; once for each input
    #[arg(long, value_name = "NAME=SIZES", requires = "model", value_parser = Given::parse)]
    shape: Vec<Given>,
    /// Run this chapter only; can be repeated
    #[arg(long, value_enum)]
    chapter: Vec<Name>,
    /// The approximate time of each measurement, in seconds
    #[arg(long, default_value_t = 0.75, allow_negative_numbers = true, value_parser = within(0.001, 3600.0))]
    seconds: f64,
    /// Write a page with plots to this folder, and each plot as an image
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
    if let Some(folder) = &options.out {
        output::folder(folder)?;
    }
    let slice = Duration::from_secs_f64(options.seconds);
    let model = options.model.as_deref();
    let setting = Setting::new(options.device, model, &options.shape, slice)?;
    let told = tell(&setting, &options.chapter);
    let ok = told.iter().all(Told::ok);
    let page = page(&setting, &told);
    if let Some(folder) = &options.out {
        write(folder, &page, &told)?;
    }
    let chapters: Vec<Value> = told.iter().map(Told::json).collect();
    let report = json!({ "ok": ok, "setting": setting.json(), "chapters": chapters });
    output::told(options.json, &report, || {
        let written = options.out.as_ref().map(|folder| folder.join("story.html"));
        let written =
            written.map(|path| format!("The page with all drawings is {}\n", path.display()));
        page.text() + &written.unwrap_or_default()
    })?;
    Ok(Outcome::of(ok))
}

fn tell(setting: &Setting, chosen: &[Name]) -> Vec<Told> {
    let (all, progress) = (Name::value_variants(), Progress::on_terminal());
    let wanted = |name: &Name| chosen.is_empty() || chosen.contains(name);
    let tell = |(place, name): (usize, &Name)| {
        let number = place + 1;
        let chapter = name.chapter(setting.on);
        let name = chapter.name;
        chapter.told(number, setting, &|what| {
            progress.step(number, all.len(), &format!("{name}: {what}"));
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

/// Every chapter: what it claims, how that was measured, the figures, and whether it holds.
fn page(setting: &Setting, chapters: &[Told]) -> Page {
    let row = |told: &Told| {
        let word = if told.ok() { "holds" } else { "does not hold" };
        vec![told.title().into(), word.into(), told.verdict().into()]
    };
    let held = chapters.iter().filter(|told| told.ok()).count();
    let seconds: f64 = chapters.iter().map(|told| told.seconds).sum();
    let sum = format!("{held} of {} claims hold ({seconds:.0} s).", chapters.len());
    Page {
        title: "Streampool: the story".to_owned(),
        about: vec![
            Part::Text(format!(
                "Told on this machine: {}.",
                setting.machine().line()
            )),
            Part::pairs(setting.lines()),
        ],
        sum: vec![
            Part::Table(Table {
                head: Vec::new(),
                rows: chapters.iter().map(row).collect(),
            }),
            Part::Text(sum),
        ],
        sections: chapters.iter().map(Told::section).collect(),
    }
}

/// Writes the page, and each drawing as an image beside it.
fn write(folder: &Path, page: &Page, chapters: &[Told]) -> Result<()> {
    let write = |name: &str, text: &str| output::file(&folder.join(name), text);
    for told in chapters {
        let images = told.found.drawings.iter().filter_map(Part::svg);
        for (place, image) in images.enumerate() {
            let name = format!("{}-{}-{}.svg", told.number, told.name, place + 1);
            write(&name, &image)?;
        }
    }
    write("story.html", &page.html())
}
