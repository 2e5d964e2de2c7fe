//! One process of all devices beside a process for each.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use streampool::DeviceSet;

use super::workload::Workload;
use crate::device::On;
use crate::{Result, machine, output};

/// What a process says when it is ready to be measured.
const READY: &str = "ready";

/// What one process, or several, came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Done {
    pub processes: usize,
    pub per_second: f64,
    /// The worst of them, in seconds.
    pub p99: f64,
    /// Bytes of the host's memory, all together.
    pub host_memory: usize,
    /// Bytes of the GPUs' memory, all together, as `nvidia-smi` tells while they run.
    pub device_memory: Option<usize>,
}

/// Both ways.
#[derive(Debug, Serialize)]
pub struct Apart {
    pub model: String,
    pub together: Done,
    pub apart: Done,
}

/// A process that is about to measure.
struct Worker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// How a worker is started: on which device, with which models, and for how long.
pub struct Plan<'a> {
    pub device: On,
    pub devices: usize,
    pub models: Option<&'a std::path::Path>,
    pub time: Duration,
}

/// Measures the workload of this number as one process of all devices, and as one process for each.
pub fn measure(plan: &Plan<'_>, workload: usize, name: &str) -> Result<Apart> {
    let all = (0..plan.devices).collect::<Vec<_>>();
    let each: Vec<Vec<usize>> = all.iter().map(|&device| vec![device]).collect();
    Ok(Apart {
        model: name.to_owned(),
        together: run(plan, workload, &[all])?,
        apart: run(plan, workload, &each)?,
    })
}

fn run(plan: &Plan<'_>, workload: usize, groups: &[Vec<usize>]) -> Result<Done> {
    let started = groups
        .iter()
        .map(|devices| Worker::start(plan, workload, devices));
    let before = device_memory(plan);
    let mut workers: Vec<Worker> = started.collect::<Result<_>>()?;
    workers.iter_mut().try_for_each(Worker::wait_until_ready)?;
    workers.iter_mut().try_for_each(Worker::go)?;
    std::thread::sleep(plan.time / 2);
    // Without what others have, such as this process.
    let more = |(after, before): (usize, usize)| after.saturating_sub(before);
    let device_memory = device_memory(plan).zip(before).map(more);
    let done = workers.into_iter().map(Worker::end);
    let done: Vec<Done> = done.collect::<Result<_>>()?;
    Ok(Done {
        processes: done.len(),
        per_second: done.iter().map(|done| done.per_second).sum(),
        p99: done.iter().map(|done| done.p99).fold(0.0, f64::max),
        host_memory: done.iter().map(|done| done.host_memory).sum(),
        device_memory,
    })
}

/// What is in use of all GPUs together.
fn device_memory(plan: &Plan<'_>) -> Option<usize> {
    if plan.device != On::Cuda {
        return None;
    }
    let told = Command::new("nvidia-smi")
        .args(["--query-gpu=memory.used", "--format=csv,noheader,nounits"])
        .output();
    let told = String::from_utf8(told.ok()?.stdout).ok()?;
    let mebibytes: Option<Vec<usize>> = told.lines().map(|line| line.trim().parse().ok()).collect();
    Some(mebibytes?.into_iter().sum::<usize>() << 20)
}

impl Worker {
    fn start(plan: &Plan<'_>, workload: usize, devices: &[usize]) -> Result<Worker> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["several", "--worker", &workload.to_string()]);
        command.args(["--devices", &devices.len().to_string()]);
        command.args(["--seconds", &plan.time.as_secs_f64().to_string()]);
        if let Some(models) = plan.models {
            command.arg("--models").arg(models);
        }
        match plan.device {
            On::Cuda => {
                command.args(["--device", "cuda"]);
                command.env("CUDA_VISIBLE_DEVICES", visible(devices));
            }
            _ => {
                let threads = machine::processors() * devices.len() / plan.devices;
                command.env("STREAMPOOL_HOST_THREADS", threads.max(1).to_string());
            }
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = child.stdin.take().ok_or("a process without an input")?;
        let from = child.stdout.take().ok_or("a process without an output")?;
        let from = BufReader::new(from);
        Ok(Worker { child, to, from })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => Err("a process ended before it was through".into()),
            _ => Ok(line),
        }
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        match self.line()?.trim() == READY {
            true => Ok(()),
            false => Err("a process did not become ready".into()),
        }
    }

    fn go(&mut self) -> Result<()> {
        Ok(self.to.write_all(b"go\n")?)
    }

    fn end(mut self) -> Result<Done> {
        let done = serde_json::from_str(&self.line()?)?;
        self.child.wait()?;
        Ok(done)
    }
}

/// The driver's numbers of these devices, of those that this process sees.
fn visible(devices: &[usize]) -> String {
    let seen = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let seen: Vec<&str> = seen.split(',').filter(|name| !name.is_empty()).collect();
    let name = |&device: &usize| {
        seen.get(device)
            .map_or(device.to_string(), |&name| name.to_owned())
    };
    devices.iter().map(name).collect::<Vec<_>>().join(",")
}

/// What a worker does: it says that it is ready, waits to be told, measures, and tells.
pub fn work(set: &DeviceSet, workload: &Workload, time: Duration) -> Result<()> {
    let sessions = workload.load(set)?;
    let threads = workload.threads * set.len();
    let ready = || {
        // If nobody listens any more, nothing is measured for anybody.
        let _ = output::text(&format!("{READY}\n"));
        let _ = std::io::stdin().read_line(&mut String::new());
    };
    let pace = workload.pace(&sessions, threads, time, ready)?;
    let done = Done {
        processes: 1,
        per_second: pace.per_second,
        p99: pace.p99,
        host_memory: machine::peak_memory().unwrap_or(0),
        device_memory: None,
    };
    output::text(&(serde_json::to_string(&done)? + "\n"))
}
