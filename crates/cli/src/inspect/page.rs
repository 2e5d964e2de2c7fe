//! The report as text.

use std::fmt::Write;

use streampool_model::inspect::{self, Contents, Count, Simplified, Value};

use super::report::{Plan, Report};
use crate::table::{Align, Table};
use crate::text::{self, bytes, count, counted, list};

/// The whole page.
pub fn page(report: &Report) -> String {
    let (found, contents) = (&report.found, &report.found.contents);
    let mut page = format!("{}\n", text::file_name(&report.model));
    page.push_str(&about(found, report.file_bytes).render());
    values(&mut page, "Inputs", &found.inputs);
    values(&mut page, "Outputs", &found.outputs);
    let nodes = counted(contents.nodes as u64, "node");
    let operators = operators(&contents.operators, 2);
    let _ = write!(page, "\nOperators of {nodes}\n{operators}");
    parameters(&mut page, contents);
    if let Some(simplified) = &found.simplified {
        rewritten(&mut page, simplified);
    }
    if let Some(plan) = &report.plan {
        planned(&mut page, plan);
    }
    unsupported(&mut page, contents);
    page
}

fn about(found: &inspect::Report, file_bytes: Option<u64>) -> Table {
    let mut table = Table::pairs(2);
    let texts = [
        ("graph", &found.name),
        ("producer", &found.producer),
        ("description", &found.doc),
    ];
    for (name, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
        table.pair(*name, *text);
    }
    let version = |(domain, version): (&String, &i64)| match &domain[..] {
        "" => format!("onnx {version}"),
        domain => format!("{domain} {version}"),
    };
    table.pair("operator sets", list(found.opsets.iter().map(version)));
    table.pair("file format", found.ir_version.to_string());
    if let Some(size) = file_bytes {
        table.pair("file", bytes(size as usize));
    }
    for (key, text) in &found.metadata {
        // Some models keep whole dictionaries here.
        table.pair(key, text.chars().take(40).collect::<String>());
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
            shape.map_or("any shape".to_owned(), |sizes| format!("[{}]", list(sizes))),
            match (value.required, &value.computed) {
                (Some(false), _) => "optional".to_owned(),
                (_, Some(computed)) => format!("but computed as {computed}"),
                _ => String::new(),
            },
        ]);
    }
    let _ = write!(page, "\n{title}\n{}", table.render());
}

fn operators(operators: &[Count], indent: usize) -> String {
    let each = |one: &Count| format!("{} {}", one.name, count(one.count as u64));
    let mut table = Table::new(indent, &[Align::Left]);
    table.row([list(operators.iter().map(each))]);
    table.render()
}

fn parameters(page: &mut String, contents: &Contents) {
    use Align::{Left, Right};
    let mut table = Table::new(2, &[Left, Right, Right, Right]);
    for of in &contents.parameters {
        table.row([
            of.dtype.to_owned(),
            counted(of.tensors as u64, "tensor"),
            counted(of.elements as u64, "value"),
            bytes(of.bytes),
        ]);
    }
    let all = bytes(contents.parameter_bytes);
    let _ = write!(page, "\nParameters: {all}\n{}", table.render());
}

fn rewritten(page: &mut String, simplified: &Simplified) {
    let nodes = counted(simplified.nodes as u64, "node");
    let operators = operators(&simplified.operators, 2);
    let mut table = Table::pairs(2);
    table.pair("constant", count(simplified.folded as u64));
    table.pair("unused", count(simplified.removed as u64));
    if !simplified.fused.is_empty() {
        let fused = |one: &Count| format!("{} {}", count(one.count as u64), one.name);
        table.pair("fused", list(simplified.fused.iter().map(fused)));
    }
    let table = table.render();
    let _ = write!(page, "\nAfter simplification: {nodes}\n{operators}{table}");
}

fn planned(page: &mut String, plan: &Plan) {
    let _ = write!(page, "\nPlan on {}\n", plan.device);
    let mut table = Table::pairs(2);
    let inputs = plan.inputs.iter();
    let inputs = inputs.map(|input| format!("{} {:?}", input.name, input.shape));
    table.pair("inputs", list(inputs));
    let parts = match plan.parts.len() {
        1 => "1: each run is one program".to_owned(),
        parts => format!("{parts}, because nodes between them need values on the host"),
    };
    table.pair("parts", parts);
    let memory = bytes(plan.memory_in_use);
    table.pair("memory", format!("{memory} with weights and one program"));
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
            let node = text::shortened(node, 60);
            let _ = writeln!(page, "    followed by {node} on its own");
        }
    }
}

fn unsupported(page: &mut String, contents: &Contents) {
    if contents.unsupported.is_empty() {
        page.push_str("\nEvery operator is supported.\n");
        return;
    }
    let mut table = Table::pairs(2);
    for one in &contents.unsupported {
        let why = one.why.as_ref().map(|why| format!(" ({why})"));
        let (operator, version) = (&one.operator, one.version);
        table.pair(
            format!("{operator} {version}{}", why.unwrap_or_default()),
            format!("at {}", list(&one.nodes)),
        );
    }
    let _ = write!(page, "\nNot supported\n{}", table.render());
}
