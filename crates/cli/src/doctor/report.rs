//! What the doctor sees: gathered once, then written as text or as JSON.

use std::sync::Arc;

use serde::Serialize;
use streampool::cuda::CudaOptions;
use streampool::device::Properties;
use streampool::host::HostOptions;
use streampool::{Device, DeviceStatus, Pool, Settings, Snapshot, Unusable};

use super::self_test::{self, SelfTest};

#[cfg(feature = "metal")]
const METAL_VARIABLES: &[(&str, &str)] = streampool::metal::MetalOptions::VARIABLES;
#[cfg(not(feature = "metal"))]
const METAL_VARIABLES: &[(&str, &str)] = &[];

/// What a problem with the folder of a kernel cache means.
pub fn unusable_cache(problem: &str) -> String {
    format!(
        "{problem}; kernels are recompiled in each process. Set STREAMPOOL_CACHE_DIR to a folder that can be \
         read and written, or unset it"
    )
}

/// Everything, as it is at this moment.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// The version of this program.
    pub version: &'static str,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Every device, and the kinds of which there is none.
    pub devices: Vec<Seen>,
    /// Every setting; without values if one of them is wrong.
    pub settings: Vec<Setting>,
    /// The settings by which pools are made, for the text.
    #[serde(skip)]
    pub in_force: Option<Settings>,
}

/// Something that is wrong.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// With what.
    pub about: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// One device, or a kind of which there is none.
#[derive(Debug, Default, Serialize)]
pub struct Seen {
    /// The kind.
    pub kind: &'static str,
    /// What tells it from others of its kind.
    pub name: String,
    /// Whether it can be used.
    pub usable: bool,
    /// Why not.
    pub why_not: Option<String>,
    /// What it is.
    pub hardware: Option<Hardware>,
    /// The other GPUs whose memory it reaches without the host.
    pub reaches: Vec<String>,
    /// What a pool on it holds after the self-test.
    pub pool: Option<Snapshot>,
    /// Whether a little work came out right.
    pub self_test: Option<SelfTest>,
    /// Whether a few operators of tensors did.
    pub operators: Option<SelfTest>,
}

/// What a usable device is.
#[derive(Debug, Serialize)]
pub struct Hardware {
    /// What it calls itself.
    pub name: String,
    /// What it computes with.
    pub features: Vec<String>,
    /// Processors that run kernels at the same time.
    pub compute_units: usize,
    /// The most bytes it can give.
    pub memory_capacity: usize,
    /// Whether the host reads and writes its memory directly.
    pub unified_memory: bool,
    /// Allocations begin at multiples of this.
    pub alignment: usize,
}

/// One setting.
#[derive(Debug, Serialize)]
pub struct Setting {
    /// The environment variable that decides it.
    pub name: &'static str,
    /// The value in force; `None` if nothing can be in force.
    pub value: Option<String>,
    /// Who decided it.
    pub origin: Option<String>,
    /// What it decides.
    pub meaning: &'static str,
}

/// Looks at everything.
pub fn examine() -> Report {
    let mut findings = Vec::new();
    let settings = Settings::builder().build();
    if let Err(error) = &settings {
        findings.push(Finding::new("settings", error));
    }
    let devices: Vec<Seen> = streampool::devices()
        .into_iter()
        .map(|status| look_at(status, settings.as_ref().ok(), &mut findings))
        .collect();
    Report {
        ok: findings.is_empty(),
        version: env!("CARGO_PKG_VERSION"),
        findings,
        devices,
        settings: list(settings.as_ref().ok()),
        in_force: settings.ok(),
    }
}

fn look_at(status: DeviceStatus, settings: Option<&Settings>, findings: &mut Vec<Finding>) -> Seen {
    let mut seen = Seen {
        kind: status.kind.name(),
        name: status.name,
        reaches: status.reaches,
        ..Seen::default()
    };
    let device = match status.device {
        Ok(device) => device,
        Err(unusable) => {
            if let Unusable::Broken(why) = &unusable {
                findings.push(Finding::new(&seen.name, why));
            }
            seen.why_not = Some(unusable.to_string());
            return seen;
        }
    };
    seen.usable = true;
    seen.hardware = Some(Hardware::of(device.properties()));
    let Some(settings) = settings else {
        return seen;
    };
    match try_out(device, settings.clone()) {
        Ok((tests, pool)) => {
            for problem in tests.iter().filter_map(|test| test.problem.as_ref()) {
                findings.push(Finding::new(&seen.name, problem));
            }
            for cache in &pool.caches {
                if let Some(problem) = &cache.problem {
                    let about = format!("{} {}", seen.name, cache.name);
                    findings.push(Finding::new(&about, &unusable_cache(problem)));
                }
            }
            let [self_test, operators] = tests;
            seen.self_test = Some(self_test);
            seen.operators = Some(operators);
            seen.pool = Some(pool);
        }
        Err(error) => findings.push(Finding::new(&seen.name, &error)),
    }
    seen
}

fn try_out(
    device: Arc<dyn Device>,
    settings: Settings,
) -> streampool::Result<([SelfTest; 2], Snapshot)> {
    let pool = Pool::with_settings(device, settings)?;
    let tests = [self_test::run(&pool), self_test::operators(&pool)];
    Ok((tests, pool.snapshot()?))
}

fn list(settings: Option<&Settings>) -> Vec<Setting> {
    let in_force = settings.map(Settings::origins).unwrap_or_default();
    let of_pools = Settings::VARIABLES.iter().map(|variable| {
        let found = in_force.iter().find(|(name, ..)| *name == variable.name);
        Setting {
            name: variable.name,
            value: found.map(|(_, value, _)| value.clone()),
            origin: found.map(|(.., origin)| origin.to_string()),
            meaning: variable.meaning,
        }
    });
    let of_cuda = CudaOptions::VARIABLES;
    let of_metal = METAL_VARIABLES
        .iter()
        .filter(|(name, _)| of_cuda.iter().all(|(shared, _)| shared != name));
    let of_devices = HostOptions::VARIABLES
        .iter()
        .chain(of_cuda)
        .chain(of_metal)
        .map(|&(name, meaning)| of_device(name, meaning));
    of_pools.chain(of_devices).collect()
}

/// A setting that a device reads for itself.
fn of_device(name: &'static str, meaning: &'static str) -> Setting {
    let value = std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let origin = match value {
        Some(_) => "environment",
        None => "default",
    };
    Setting {
        name,
        value: Some(value.unwrap_or_else(|| "unset".to_owned())),
        origin: Some(origin.to_owned()),
        meaning,
    }
}

impl Finding {
    fn new(about: &str, problem: &impl ToString) -> Self {
        Finding {
            about: about.to_owned(),
            problem: problem.to_string(),
        }
    }
}

impl Hardware {
    fn of(properties: &Properties) -> Self {
        Hardware {
            name: properties.hardware.clone(),
            features: properties.features.clone(),
            compute_units: properties.compute_units,
            memory_capacity: properties.memory_capacity,
            unified_memory: properties.unified_memory,
            alignment: properties.alignment,
        }
    }
}
