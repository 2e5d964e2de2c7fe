//! The report as text.

use std::fmt::Write;

use super::report::{Operator, Plan, Report, Simplified};
use super::values::Value;
use crate::table::{Align, Table};
use crate::text::{self, bytes, count, counted};

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut page = format!("{}\n", text::file_name(&report.model));
    page.push_str(&about(report).render());
    values(&mut page, "Inputs", &report.inputs);
    values(&mut page, "Outputs", &report.outputs);
    let nodes = counted(report.nodes as u64, "node");
    let _ = write!(
        page,
        "\nOperators of {nodes}\n{}",
        operators(&report.operators, 2)
    );
    parameters(&mut page, report);
    if let Some(simplified) = &report.simplified {
        rewritten(&mut page, simplified);
    }
    if let Some(plan) = &report.plan {
        planned(&mut page, plan);
    }
    unsupported(&mut page, report);
    page
}

fn about(report: &Report) -> Table {
    let mut table = Table::pairs(2);
    let texts = [
        ("graph", &report.name),
        ("producer", &report.producer),
        ("description", &report.doc),
    ];
    for (name, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
        table.row([name, &text[..]]);
    }
    let version = |(domain, version): (&String, &i64)| match &domain[..] {
        "" => format!("onnx {version}"),
        domain => format!("{domain} {version}"),
    };
    let versions: Vec<String> = report.opsets.iter().map(version).collect();
    table.row(["operator sets", &versions.join(", ")]);
    table.row(["file format", &report.ir_version.to_string()]);
    if let Some(size) = report.file_bytes {
        table.row(["file", &bytes(size as usize)]);
    }
    for (key, text) in &report.metadata {
        // Some models keep whole dictionaries here.
        let line: String = text.chars().take(40).collect();
        table.row([key, &line]);
    }
    table
}

fn values(page: &mut String, title: &str, values: &[Value]) {
    let mut table = Table::new(2, &[Align::Left; 4]);
    for value in values {
        let shape = value.shape.as_ref();
        table.row([
            text::shortened(&value.name, 32),
            value.dtype.unwrap_or("?").to_owned(),
            shape.map_or("any shape".to_owned(), |sizes| {
                format!("[{}]", sizes.join(", "))
            }),
            match (value.required, &value.computed) {
                (Some(false), _) => "optional".to_owned(),
                (_, Some(computed)) => format!("but computed as {computed}"),
                _ => String::new(),
            },
        ]);
    }
    let _ = write!(page, "\n{title}\n{}", table.render());
}

fn operators(operators: &[Operator], indent: usize) -> String {
    let each = operators
        .iter()
        .map(|one| format!("{} {}", one.name, count(one.count as u64)));
    let mut table = Table::new(indent, &[Align::Left]);
    table.row([each.collect::<Vec<_>>().join(", ")]);
    table.render()
}

fn parameters(page: &mut String, report: &Report) {
    use Align::{Left, Right};
    let mut table = Table::new(2, &[Left, Right, Right, Right]);
    for of in &report.parameters {
        table.row([
            of.dtype.to_owned(),
            counted(of.tensors as u64, "tensor"),
            counted(of.elements as u64, "value"),
            bytes(of.bytes),
        ]);
    }
    let all = bytes(report.parameter_bytes);
    let _ = write!(page, "\nParameters: {all}\n{}", table.render());
}

fn rewritten(page: &mut String, simplified: &Simplified) {
    let nodes = counted(simplified.nodes as u64, "node");
    let (folded, removed) = (simplified.folded as u64, simplified.removed as u64);
    let _ = write!(
        page,
        "\nAfter simplification: {nodes}\n{}",
        operators(&simplified.operators, 2)
    );
    let mut table = Table::pairs(2);
    table.row(["constant", &count(folded)]);
    table.row(["unused", &count(removed)]);
    if !simplified.fused.is_empty() {
        let fused = simplified
            .fused
            .iter()
            .map(|one| format!("{} {}", count(one.count as u64), one.name));
        table.row(["fused", &fused.collect::<Vec<_>>().join(", ")]);
    }
    page.push_str(&table.render());
}

fn planned(page: &mut String, plan: &Plan) {
    let inputs = plan
        .inputs
        .iter()
        .map(|input| format!("{} {:?}", input.name, input.shape));
    let inputs: Vec<String> = inputs.collect();
    let _ = write!(page, "\nPlan on {}\n", plan.device);
    let mut table = Table::pairs(2);
    table.row(["inputs", &inputs.join(", ")]);
    let parts = match plan.parts.len() {
        1 => "1: each run is one program".to_owned(),
        parts => format!("{parts}, because nodes between them need values on the host"),
    };
    table.row(["parts", &parts]);
    table.row([
        "memory",
        &format!("{} with weights and one program", bytes(plan.memory_in_use)),
    ]);
    page.push_str(&table.render());
    for (number, part) in plan.parts.iter().enumerate() {
        let ops = part.ops.iter().map(|op| op.count as u64).sum();
        let _ = writeln!(
            page,
            "  part {}: {}, scratch {}, inputs and outputs {}",
            number + 1,
            counted(ops, "op"),
            bytes(part.scratch_bytes),
            bytes(part.shared_bytes)
        );
        page.push_str(&operators(&part.ops, 4));
        let joined = counted(part.joined_maps as u64, "elementwise op");
        let turned = counted(part.dropped_copies as u64, "transpose");
        let _ = writeln!(page, "    {joined} fused, {turned} removed");
        if let Some(node) = &part.ended_by {
            let _ = writeln!(
                page,
                "    followed by {} on its own",
                text::shortened(node, 60)
            );
        }
    }
}

fn unsupported(page: &mut String, report: &Report) {
    if report.unsupported.is_empty() {
        page.push_str("\nEvery operator is supported.\n");
        return;
    }
    let mut table = Table::pairs(2);
    for one in &report.unsupported {
        let why = one
            .why
            .as_ref()
            .map_or(String::new(), |why| format!(" ({why})"));
        table.row([
            format!("{} {}{why}", one.operator, one.version),
            format!("at {}", one.nodes.join(", ")),
        ]);
    }
    let _ = write!(page, "\nNot supported\n{}", table.render());
}
