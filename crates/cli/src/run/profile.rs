//! What took how long: by op, and by node of the model.

use serde::Serialize;
use streampool::Profile;
use streampool::model::{NodeTime, Profiled};

use crate::table::{Align, Table};
use crate::text::{self, count, counted, time};

/// So many nodes are shown; JSON has all.
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
    let more = match nodes.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("  and {}\n", counted(more as u64, "more node")),
    };
    format!("\nTime by node\n{}{more}", table.render())
}
