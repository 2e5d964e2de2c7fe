//! Graphs inside nodes: chosen between, and repeated.

use streampool_tensor::{DType, Tensor};

use super::Operator;
use crate::error::Fault;
use crate::node::{Node, Outputs, resolve};
use crate::proto::Graph;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "If" => choose,
        "Loop" => repeat,
        "Scan" => scan,
        _ => return None,
    })
}

fn truth(tensor: &Tensor) -> Result<bool, Fault> {
    Ok(tensor.to_dtype(DType::Bool)?.item::<bool>()?)
}

fn choose(node: &Node<'_>) -> Outputs {
    let name = if truth(node.input(0)?)? {
        "then_branch"
    } else {
        "else_branch"
    };
    node.scope.inner(node.attr_graph(name)?, Vec::new())
}

fn repeat(node: &Node<'_>) -> Outputs {
    let body = node.attr_graph("body")?;
    let most = node.optional(0).map(|_| node.int(0)).transpose()?;
    let mut more = node.optional(1).map_or(Ok(true), truth)?;
    let mut carried = rest(node, 2)?;
    let mut listed = vec![Vec::new(); outputs(body, 1 + carried.len())?];
    let mut round = 0;
    while more && most.is_none_or(|most| round < most) {
        let mut inputs = vec![
            Tensor::scalar(node.pool(), round)?,
            Tensor::full(node.pool(), &[], true, DType::Bool)?,
        ];
        inputs.append(&mut carried);
        let count = inputs.len() - 2;
        let made = node.scope.inner(body, inputs)?;
        more = truth(&made[0])?;
        carried = made[1..1 + count].to_vec();
        for (list, item) in listed.iter_mut().zip(&made[1 + count..]) {
            list.push(item.clone());
        }
        round += 1;
    }
    for list in listed {
        carried.push(stacked(&list, 0)?);
    }
    Ok(carried)
}

fn scan(node: &Node<'_>) -> Outputs {
    let body = node.attr_graph("body")?;
    if node.opset() >= 9 {
        return scan_one(node, body, rest(node, 0)?);
    }
    // Before version 9 there are lengths, and batches, each scanned by itself.
    if node.optional(0).is_some() {
        return Err(Fault::unsupported("sequence_lens"));
    }
    let inputs = rest(node, 1)?;
    let batches = inputs.first().map_or(Ok(0), |input| input.size(0))?;
    let mut made = vec![Vec::new(); node.wanted()];
    for batch in 0..batches {
        let of = |input: &Tensor| input.select(0, batch as isize);
        let inputs = inputs.iter().map(of).collect::<Result<Vec<Tensor>, _>>()?;
        for (list, item) in made.iter_mut().zip(scan_one(node, body, inputs)?) {
            list.push(item);
        }
    }
    made.iter().map(|list| stacked(list, 0)).collect()
}

fn scan_one(node: &Node<'_>, body: &Graph, mut states: Vec<Tensor>) -> Outputs {
    let scanned = node.size_or("num_scan_inputs", 1)?;
    let Some(count) = states.len().checked_sub(scanned) else {
        let expected = format!("at most {}", states.len());
        return Err(Fault::malformed(
            "attribute num_scan_inputs",
            scanned,
            expected,
        ));
    };
    let sequences = states.split_off(count);
    let mut listed = vec![Vec::new(); outputs(body, count)?];
    let number = |name: &str, place: usize| -> Result<i64, Fault> {
        let given = node.attr_ints(name)?.unwrap_or(&[]);
        Ok(given.get(place).copied().unwrap_or(0))
    };
    let axis = |place: usize| -> Result<usize, Fault> {
        resolve(
            number("scan_input_axes", place)? as isize,
            sequences[place].rank(),
        )
    };
    let steps = match sequences.first() {
        Some(sequence) => sequence.shape()[axis(0)?],
        None => 0,
    };
    for step in 0..steps {
        let mut inputs = std::mem::take(&mut states);
        for (place, sequence) in sequences.iter().enumerate() {
            let backward = number("scan_input_directions", place)? == 1;
            let index = if backward { steps - 1 - step } else { step };
            inputs.push(sequence.select(axis(place)? as isize, index as isize)?);
        }
        let made = node.scope.inner(body, inputs)?;
        for (list, item) in listed.iter_mut().zip(&made[count..]) {
            list.push(item.clone());
        }
        states = made[..count].to_vec();
    }
    for (place, mut list) in listed.into_iter().enumerate() {
        if number("scan_output_directions", place)? == 1 {
            list.reverse();
        }
        states.push(stacked(&list, number("scan_output_axes", place)? as isize)?);
    }
    Ok(states)
}

/// How many outputs a graph has beyond the first `known`.
fn outputs(body: &Graph, known: usize) -> Result<usize, Fault> {
    body.outputs.len().checked_sub(known).ok_or_else(|| {
        let expected = format!("at least {known}");
        Fault::malformed(
            "the number of the body's outputs",
            body.outputs.len(),
            expected,
        )
    })
}

/// The inputs from `first` on, which have to be there.
fn rest(node: &Node<'_>, first: usize) -> Result<Vec<Tensor>, Fault> {
    (first..node.inputs.len())
        .map(|place| node.input(place).cloned())
        .collect()
}

fn stacked(list: &[Tensor], axis: isize) -> Result<Tensor, Fault> {
    if list.is_empty() {
        return Err(Fault::unsupported(
            "a loop without rounds that lists results",
        ));
    }
    Ok(Tensor::stack(&list.iter().collect::<Vec<_>>(), axis)?)
}
