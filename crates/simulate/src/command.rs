//! `streampool simulate`: what users type, and what they are told.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use streampool_console::text::within;
use streampool_console::{self as console, Result, output};

use crate::page::{self, Report};
use crate::{Arrivals, Autoscale, Balance, Cost, Failures, Plan, Tenant, fewest, simulate};

/// Simulate replicas under a load, before you buy them
///
/// Each replica runs the real queue, in virtual time. How long batches take comes from `bench model --json`, or from --batch. The exit
/// code is 1 if --p99 is given and --replicas is too low for it.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        streampool bench model model.onnx --threads 1 --batch 1,2,4,8,16,32 --json >cost.json\n  \
        streampool simulate --cost cost.json --rate 2000 --replicas 8\n  \
        streampool simulate --cost cost.json --rate 1e6 --p99 50 --replicas 20000\n  \
        streampool simulate --batch 1:4,32:30 --rate 500 --arrivals bursty --html plan.html")]
pub struct Options {
    /// A file that `streampool bench model --json` wrote: how long batches take
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "batch",
        conflicts_with = "batch"
    )]
    cost: Option<PathBuf>,
    /// How long batches take, as ROWS:MILLISECONDS for some sizes
    #[arg(long, value_name = "ROWS:MS,...", value_delimiter = ',', value_parser = size)]
    batch: Vec<(usize, f64)>,
    /// The mean number of requests per second
    #[arg(long, value_name = "RATE", value_parser = within(1e-3, 1e9), required_unless_present = "trace")]
    rate: Option<f64>,
    /// The pattern in which requests arrive
    #[arg(long, value_enum, default_value_t = Kind::Poisson)]
    arrivals: Kind,
    /// A file with the times at which requests arrive, in seconds, one per line
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    trace: Option<PathBuf>,
    /// The rate during a burst, as a multiple of the mean
    #[arg(long, value_name = "TIMES", default_value_t = 3.0, value_parser = within(1.0, 1e4))]
    burst_factor: f64,
    /// The length of a burst, in seconds
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = within(1e-3, 1e6))]
    burst_seconds: f64,
    /// How much the rate varies over a day: 0 is not at all, 1 is from zero to twice the mean
    #[arg(long, value_name = "PART", default_value_t = 0.6, value_parser = within(0.0, 1.0))]
    swing: f64,
    /// The length of a day, in seconds
    #[arg(long, value_name = "S", default_value_t = 86_400.0, value_parser = within(1.0, 1e8))]
    day: f64,
    /// The tenants that send requests, as NAME:WEIGHT:PART; PART is the tenant's share of the requests, relative to the others
    #[arg(long, value_name = "NAME:WEIGHT:PART,...", value_delimiter = ',', value_parser = tenant)]
    tenants: Vec<Tenant>,
    /// The number of replicas; the maximum with --p99 or --scale-from
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = within(1usize, 1_000_000))]
    replicas: usize,
    /// Find the fewest replicas with which 99 of 100 requests take at most this many milliseconds, and at most one in a thousand is refused or lost with its replica
    #[arg(long, value_name = "MS", value_parser = within(1e-3, 1e9))]
    p99: Option<f64>,
    /// How to choose the replica for a request
    #[arg(long, value_enum, default_value_t = By::Least)]
    balance: By,
    /// The maximum number of rows in a batch
    #[arg(long, value_name = "ROWS", default_value_t = 32, value_parser = within(1usize, 65_536))]
    max_batch_size: usize,
    /// How long a request waits for others while the device is free, in microseconds
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = within(0u64, 10_000_000))]
    max_wait: u64,
    /// The maximum number of batches that a replica runs at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = within(1usize, 64))]
    max_in_flight: usize,
    /// The maximum number of requests that wait at a replica
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = within(1usize, 10_000_000))]
    queue_capacity: usize,
    /// The time that network and protocol add to each request, in microseconds
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = within(0u64, 1_000_000_000))]
    overhead: u64,
    /// The mean time between failures of a replica, in seconds; never by default
    #[arg(long, value_name = "S", value_parser = within(1e-3, 1e9))]
    fail_every: Option<f64>,
    /// How long a failed replica takes no requests, in seconds
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = within(0.0, 1e9))]
    repair: f64,
    /// Start with this many replicas, and follow the load up to --replicas
    #[arg(long, value_name = "COUNT", value_parser = within(1usize, 1_000_000))]
    scale_from: Option<usize>,
    /// The number of requests at a replica, waiting and running, that scaling aims for
    #[arg(long, value_name = "COUNT", default_value_t = 4.0, value_parser = within(1e-3, 1e6))]
    scale_target: f64,
    /// How often scaling checks the load, in seconds
    #[arg(long, value_name = "S", default_value_t = 15.0, value_parser = within(1e-3, 1e6))]
    scale_every: f64,
    /// How long a new replica takes to start, in seconds
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = within(0.0, 1e6))]
    scale_delay: f64,
    /// How long requests arrive, in seconds
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = within(1e-3, 1e8))]
    seconds: f64,
    /// The first part of that time, which the figures leave out, as a fraction
    #[arg(long, value_name = "PART", default_value_t = 0.1, value_parser = within(0.0, 0.9))]
    warm_up: f64,
    /// The seed of random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Independent of each other
    Poisson,
    /// In bursts, a tenth of the time
    Bursty,
    /// More by day than by night
    Diurnal,
}

/// To which replica a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// The replica with the fewest requests
    Least,
    /// Of two random replicas, the one with fewer requests
    Two,
    /// Each replica in turn
    Round,
}

/// The part of the time that is bursts, at most.
const BURSTS: f64 = 0.1;

fn size(text: &str) -> Result<(usize, f64), String> {
    let parts = text.split_once(':');
    let parts = parts.and_then(|(rows, ms)| Some((rows.parse().ok()?, ms.parse::<f64>().ok()?)));
    match parts {
        Some((rows, ms)) if rows > 0 && ms > 0.0 && ms < 1e9 => Ok((rows, ms / 1e3)),
        _ => Err("expected ROWS:MILLISECONDS, such as 8:12.5".to_owned()),
    }
}

fn tenant(text: &str) -> Result<Tenant, String> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default().to_owned();
    let numbers = parts
        .map(str::parse::<f64>)
        .collect::<Result<Vec<f64>, _>>();
    match numbers.as_deref() {
        Ok(&[weight, sends])
            if (0.001..=1000.0).contains(&weight) && (1e-9..=1e9).contains(&sends) =>
        {
            Ok(Tenant {
                name,
                weight,
                sends,
            })
        }
        _ => Err("expected NAME:WEIGHT:PART, such as ann:2:0.5".to_owned()),
    }
}

/// The times of a file, which have to rise.
fn times(path: &Path) -> Result<Vec<f64>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    let mut times = Vec::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let time: f64 = line.trim().parse().map_err(|_| {
            format!(
                "{shown}, line {}: {line:?} is no number of seconds",
                number + 1
            )
        })?;
        if !(time >= times.last().copied().unwrap_or(0.0) && time < 1e9) {
            return Err(format!("{shown}, line {}: times have to rise from 0", number + 1).into());
        }
        times.push(time);
    }
    Ok(times)
}

/// What is to be simulated.
fn plan(options: &Options) -> Result<Plan> {
    let cost = match &options.cost {
        Some(path) => {
            let shown = path.display();
            let json =
                std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
            Cost::from_bench(&json, options.max_in_flight)
                .map_err(|why| format!("{shown}: {why}"))?
        }
        None => Cost::fixed(&options.batch)?,
    };
    let rate = options.rate.unwrap_or_default();
    let (mut arrivals, mut seconds) = (Arrivals::Poisson { rate }, options.seconds);
    match (&options.trace, options.arrivals) {
        (Some(path), _) => {
            let times = times(path)?;
            // The last ones are to be answered, too.
            seconds = times.last().copied().unwrap_or(0.0) + 1.0;
            arrivals = Arrivals::Trace(times);
        }
        (None, Kind::Poisson) => {}
        (None, Kind::Bursty) => {
            arrivals = Arrivals::Bursty {
                rate,
                factor: options.burst_factor,
                burst: options.burst_seconds,
                // Between bursts some come, too.
                part: BURSTS.min(0.9 / options.burst_factor),
            };
        }
        (None, Kind::Diurnal) => {
            arrivals = Arrivals::Diurnal {
                rate,
                swing: options.swing,
                period: options.day,
            };
        }
    }
    Ok(Plan {
        replicas: options.replicas,
        lanes: options.max_in_flight,
        max_batch_size: options.max_batch_size,
        max_wait: options.max_wait as f64 / 1e6,
        capacity: options.queue_capacity,
        cost,
        overhead: options.overhead as f64 / 1e6,
        arrivals,
        tenants: options.tenants.clone(),
        balance: match options.balance {
            By::Least => Balance::LeastOutstanding,
            By::Two => Balance::PowerOfTwo,
            By::Round => Balance::RoundRobin,
        },
        failures: options.fail_every.map(|every| Failures {
            every,
            repair: options.repair,
        }),
        autoscale: options.scale_from.map(|least| Autoscale {
            least,
            target: options.scale_target,
            every: options.scale_every,
            delay: options.scale_delay,
        }),
        seconds,
        warm_up: seconds * options.warm_up,
        seed: options.seed,
    })
}

/// Simulates, and tells what came of it.
pub fn run(options: &Options) -> Result<console::Outcome> {
    let plan = plan(options)?;
    let report = match options.p99 {
        None => Report {
            replicas: plan.replicas,
            kept: None,
            outcome: simulate(&plan)?,
        },
        Some(p99) => {
            // Few are tried first: too few are known soon.
            let few = Plan {
                replicas: page::at_least(&plan),
                ..plan.clone()
            };
            match fewest(&few, p99 / 1e3, plan.replicas)? {
                Some((replicas, outcome)) => Report {
                    replicas,
                    kept: Some(true),
                    outcome,
                },
                None => Report {
                    replicas: plan.replicas,
                    kept: Some(false),
                    outcome: simulate(&plan)?,
                },
            }
        }
    };
    let page = page::page(&plan, &report, options.p99);
    if let Some(path) = &options.html {
        output::file(path, &page.html())?;
    }
    output::told(options.json, &report, || page.text())?;
    Ok(console::Outcome::of(report.kept != Some(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_read_or_refused() {
        assert_eq!(size("8:12.5"), Ok((8, 0.0125)));
        for wrong in ["8", "0:1", "8:-1", "8:inf", "a:b"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        let ann = tenant("ann:2:0.5").unwrap();
        assert_eq!((&ann.name[..], ann.weight, ann.sends), ("ann", 2.0, 0.5));
        for wrong in ["ann", "ann:2", "ann:0:1", "ann:1:0", "ann:1:1:1"] {
            assert!(tenant(wrong).is_err(), "{wrong}");
        }
    }
}
