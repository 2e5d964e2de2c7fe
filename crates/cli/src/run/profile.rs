//! What took how long: by op, by node of the model, and by kernel of a GPU.

use serde::Serialize;
use streampool::Profile;
use streampool::model::{NodeTime, Profiled};

use crate::table::{Align, Table};
use crate::text::{self, compact, count, counted, time};

/// So many nodes and kernels are shown; JSON has all.
const SHOWN: usize = 10;

/// All ops of a kind.
#[derive(Debug, Serialize)]
pub struct OfKind {
    pub op: String,
    pub count: usize,
    pub total_seconds: f64,
    pub median_seconds: f64,
    pub of_all: f64,
}

/// All runs of a node.
#[derive(Debug, Serialize)]
pub struct OfNode {
    pub name: String,
    pub operator: String,
    pub made_of: Vec<String>,
    pub ops: Vec<String>,
    pub count: usize,
    pub total_seconds: f64,
    pub of_all: f64,
}

/// What runs of a model ask of a GPU.
#[derive(Debug, Serialize)]
pub struct OnGpu {
    /// The processors of the device.
    pub processors: usize,
    pub launches_per_run: f64,
    /// The kernels one after the other: one thread cannot have a run sooner.
    pub chain_seconds: f64,
    /// For how long a run keeps how much of a processor, in seconds of one: what each kernel's blocks keep, summed up.
    pub processor_seconds: f64,
    /// Any number of threads cannot have more runs.
    pub most_runs_per_second: f64,
    pub kernels: Vec<OfKernel>,
}

/// All launches of a kernel with as many blocks.
#[derive(Debug, Serialize)]
pub struct OfKernel {
    pub name: String,
    pub launches_per_run: f64,
    pub blocks: u64,
    /// So many fit a processor at a time.
    pub blocks_at_once: u32,
    pub median_seconds: f64,
    /// In a run.
    pub processor_seconds: f64,
}

/// What so many runs asked of a GPU of so many processors, if it tells of kernels, in no less time than it can tell, and the profile
/// has room for all: of a part there is no sum.
pub fn on_gpu(profile: &Profile, runs: usize, processors: usize) -> Option<OnGpu> {
    let (used, runs) = (profile.per_kernel(), runs.max(1) as f64);
    if used.is_empty() || profile.dropped() > 0 {
        return None;
    }
    let chain: f64 = used.iter().map(|one| one.time.total.as_secs_f64()).sum();
    let mut kernels: Vec<OfKernel> = used
        .iter()
        .map(|one| OfKernel {
            name: one.name.to_string(),
            launches_per_run: one.launches as f64 / runs,
            blocks: one.groups,
            blocks_at_once: one.fit,
            median_seconds: one.time.median.as_secs_f64(),
            processor_seconds: one.processor_seconds(processors) / runs,
        })
        .collect();
    kernels.sort_by(|one, other| other.processor_seconds.total_cmp(&one.processor_seconds));
    let processor_seconds: f64 = kernels.iter().map(|one| one.processor_seconds).sum();
    (processor_seconds > 0.0).then(|| OnGpu {
        processors,
        launches_per_run: kernels.iter().map(|one| one.launches_per_run).sum(),
        chain_seconds: chain / runs,
        processor_seconds,
        most_runs_per_second: processors as f64 / processor_seconds,
        kernels,
    })
}

/// The ops of a profile, by kind, those that took longest first.
pub fn ops(profile: &Profile) -> Vec<OfKind> {
    let per_op = profile.per_op();
    let all: f64 = per_op.iter().map(|(_, one)| one.total.as_secs_f64()).sum();
    let part = |(op, one): &(streampool::OpKind, streampool::runtime::Summary)| OfKind {
        op: op.to_string(),
        count: one.count,
        total_seconds: one.total.as_secs_f64(),
        median_seconds: one.median.as_secs_f64(),
        of_all: part(one.total.as_secs_f64(), all),
    };
    per_op.iter().map(part).collect()
}

/// The nodes of a profile, those that took longest first.
pub fn nodes(profiled: Profiled) -> Vec<OfNode> {
    let nodes = profiled.nodes;
    let all: f64 = nodes.iter().map(|node| node.total.as_secs_f64()).sum();
    let of_node = |node: NodeTime| OfNode {
        name: node.name,
        operator: node.operator,
        made_of: node.made_of,
        ops: node.ops.iter().map(|op| op.to_string()).collect(),
        count: node.count,
        total_seconds: node.total.as_secs_f64(),
        of_all: part(node.total.as_secs_f64(), all),
    };
    nodes.into_iter().map(of_node).collect()
}

fn part(seconds: f64, all: f64) -> f64 {
    seconds / all.max(f64::MIN_POSITIVE)
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// A line that says how many of `all` are not shown.
fn not_shown(all: usize, more: &str) -> String {
    match all.saturating_sub(SHOWN) {
        0 => String::new(),
        count => format!("  and {}\n", counted(count as u64, more)),
    }
}

/// What each kind of op took, and what had no room.
pub fn table_of_ops(profile: &[OfKind], dropped: u64) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(2, &[Left, Right, Right, Right, Right]);
    table.row(["", "count", "median", "total", "of all"]);
    for part in profile {
        table.row([
            part.op.clone(),
            count(part.count as u64),
            time(part.median_seconds),
            time(part.total_seconds),
            percent(part.of_all),
        ]);
    }
    let dropped = match dropped {
        0 => String::new(),
        dropped => format!("  and {} without room\n", counted(dropped, "record")),
    };
    format!("\nTime by op\n{}{dropped}", table.render())
}

/// What the slowest nodes took.
pub fn table_of_nodes(nodes: &[OfNode]) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(2, &[Left, Left, Right, Right, Right]);
    table.row(["", "operator", "of", "each", "of all"]);
    for node in nodes.iter().take(SHOWN) {
        table.row([
            text::ending(&node.name, 36),
            text::shortened(&node.operator, 16),
            node.made_of.len().to_string(),
            time(node.total_seconds / node.count.max(1) as f64),
            percent(node.of_all),
        ]);
    }
    let more = not_shown(nodes.len(), "more node");
    format!("\nTime by node\n{}{more}", table.render())
}

/// What kernels keep of the processors, and what that allows.
pub fn table_of_kernels(gpu: &OnGpu) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(2, &[Left, Right, Right, Right, Right, Right, Right]);
    table.row(["", "launches", "blocks", "fit", "each", "SM·us", "of all"]);
    for kernel in gpu.kernels.iter().take(SHOWN) {
        table.row([
            text::shortened(&kernel.name, 36),
            format!("{:.0}", kernel.launches_per_run),
            count(kernel.blocks),
            kernel.blocks_at_once.to_string(),
            time(kernel.median_seconds),
            format!("{:.1}", kernel.processor_seconds * 1e6),
            percent(part(kernel.processor_seconds, gpu.processor_seconds)),
        ]);
    }
    let more = not_shown(gpu.kernels.len(), "more kernel");
    format!(
        "\nKernels of the programs of a run: {:.0} launches\n{}{more}  By these times, one thread waits {} for a run, and any number get at most {} runs/s: {} processors, \
         {:.0} SM·us each.\n",
        gpu.launches_per_run,
        table.render(),
        time(gpu.chain_seconds),
        compact(gpu.most_runs_per_second),
        gpu.processors,
        gpu.processor_seconds * 1e6,
    )
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use streampool::OpKind;
    use streampool::device::{Interval, KernelInterval, Trace};
    use streampool::runtime::Profiler;

    use super::*;

    fn ran(
        tick: u64,
        begin: Instant,
        (name, groups, fit, us): (&str, u64, u32, u64),
    ) -> KernelInterval {
        KernelInterval {
            interval: Interval {
                queue: 1,
                tick,
                op: OpKind::MatMul,
                begin,
                end: begin + Duration::from_micros(us),
            },
            name: name.into(),
            launches: 1,
            groups,
            fit,
        }
    }

    #[test]
    fn of_kernels_in_no_time_there_is_no_rate() {
        let profiler = Profiler::new(1);
        profiler.kernel(ran(1, Instant::now(), ("small", 1, 1, 0)));
        assert!(on_gpu(&profiler.finish("cuda"), 1, 132).is_none());
    }

    #[test]
    fn kernels_keep_processors_as_their_blocks_fit() {
        let profiler = Profiler::new(100);
        let start = Instant::now();
        // Two runs of three launches: 48 blocks of which four fit, and more than fit the whole device.
        for run in 0..2 {
            for (place, (name, groups, fit, us)) in [
                ("small", 48, 4, 3),
                ("small", 48, 4, 3),
                ("wide", 4000, 2, 5),
            ]
            .into_iter()
            .enumerate()
            {
                let begin = start + Duration::from_micros(100 * run + 10 * place as u64);
                profiler.kernel(ran(run, begin, (name, groups, fit, us)));
            }
        }
        let gpu = on_gpu(&profiler.finish("cuda"), 2, 132).unwrap();
        let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
        assert!(near(gpu.chain_seconds, 11e-6), "{gpu:?}");
        let [wide, small] = &gpu.kernels[..] else {
            panic!("{gpu:?}")
        };
        assert!(near(small.processor_seconds, 2.0 * 12.0 * 3e-6), "{gpu:?}");
        assert!(near(wide.processor_seconds, 132.0 * 5e-6), "{gpu:?}");
        assert!(near(small.launches_per_run, 2.0) && near(gpu.launches_per_run, 3.0));
        let sum = 72e-6 + 660e-6;
        assert!(near(gpu.processor_seconds, sum));
        assert!(near(gpu.most_runs_per_second, 132.0 / sum));
        let page = table_of_kernels(&gpu);
        assert!(
            page.contains("3 launches") && page.contains("732 SM·us"),
            "{page}"
        );
        assert!(on_gpu(&Profiler::new(1).finish("host"), 1, 4).is_none());
    }
}
