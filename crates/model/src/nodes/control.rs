//! Graphs inside nodes: chosen between, and repeated.

use streampool_tensor::{DType, Tensor};

use super::call::{Call, ValuesOperator, resolve};
use super::value::{Value, Values};
use crate::error::NodeError;
use crate::graph::{Dim, Graph, Node, ValueInfo};

pub fn operator(op: &str) -> Option<ValuesOperator> {
    Some(match op {
        "If" => choose,
        "Loop" => repeat,
        "Scan" => scan,
        _ => return None,
    })
}

fn truth(tensor: &Tensor) -> Result<bool, NodeError> {
    Ok(tensor.to_dtype(DType::Bool)?.item::<bool>()?)
}

fn choose(call: &Call<'_>) -> Values {
    let name = match truth(call.given(0)?)? {
        true => "then_branch",
        false => "else_branch",
    };
    call.inner(call.attr_graph(name)?, Vec::new())
}

fn repeat(call: &Call<'_>) -> Values {
    let body = call.attr_graph("body")?;
    let most = call.optional_int(0)?;
    let mut more = match call.has_input(1) {
        true => truth(call.given(1)?)?,
        false => true,
    };
    let mut carried = rest(call, 2)?;
    let count = carried.len();
    let mut lists = Lists::new(body, 1 + count, |_| Ok((0, false)))?;
    let go = Tensor::scalar(call.known_pool(), true)?;
    let mut round = 0;
    if let Some(most) = most.filter(|_| more && goes_on(body)) {
        call.repeats(body, most.max(0) as usize)?;
    }
    while more && most.is_none_or(|most| round < most) {
        let mut inputs = vec![
            Tensor::scalar(call.known_pool(), round)?.into(),
            go.clone().into(),
        ];
        inputs.append(&mut carried);
        let mut made = call.inner(body, inputs)?;
        lists.push(call, made.split_off(1 + count))?;
        carried = made.split_off(1);
        round += 1;
        // What comes after the last round need not be asked.
        if most.is_none_or(|most| round < most) {
            more = made.iter().try_fold(true, |more, value| {
                Ok::<_, NodeError>(more && truth(value.tensor()?)?)
            })?;
        }
    }
    carried.append(&mut lists.finish(call)?);
    Ok(carried)
}

/// Whether a loop over this body ends with its last round at the earliest: its condition is handed through.
fn goes_on(body: &Graph) -> bool {
    let (Some(&given), Some(&made)) = (body.inputs.get(1), body.outputs.first()) else {
        return false;
    };
    let handed_on = |node: &Node| {
        node.operator.name == "Identity"
            && node.inputs[..] == [Some(given)]
            && node.outputs.contains(&Some(made))
    };
    made == given || body.nodes.iter().any(handed_on)
}

fn scan(call: &Call<'_>) -> Values {
    let body = call.attr_graph("body")?;
    if call.opset() >= 9 {
        return scan_one(call, body, rest(call, 0)?);
    }
    // Before version 9 there are lengths, and batches, each scanned by itself.
    if call.has_input(0) {
        return Err(NodeError::unsupported("sequence_lens"));
    }
    let inputs = rest(call, 1)?;
    let batches = match inputs.first() {
        Some(input) => input.tensor()?.dim(0)?,
        None => 0,
    };
    if batches == 0 {
        return Err(NodeError::unsupported("a scan of no batches"));
    }
    let mut lists = Lists::new(body, 0, |_| Ok((0, false)))?;
    for batch in 0..batches {
        let of = |input: &Value| Ok(input.tensor()?.select(0, batch as isize)?.into());
        let inputs = inputs
            .iter()
            .map(of)
            .collect::<Result<Vec<Value>, NodeError>>()?;
        lists.push(call, scan_one(call, body, inputs)?)?;
    }
    lists.finish(call)
}

fn scan_one(call: &Call<'_>, body: &Graph, mut states: Vec<Value>) -> Values {
    let scanned = call.size_or("num_scan_inputs", 1)?;
    let Some(count) = states.len().checked_sub(scanned) else {
        let expected = format!("at most {}", states.len());
        return Err(NodeError::malformed(
            "attribute num_scan_inputs",
            scanned,
            expected,
        ));
    };
    let sequences = states.split_off(count);
    let sequences = sequences
        .iter()
        .map(Value::tensor)
        .collect::<Result<Vec<&Tensor>, _>>()?;
    if scanned == 0 {
        let expected = "at least 1";
        return Err(NodeError::malformed(
            "attribute num_scan_inputs",
            0,
            expected,
        ));
    }
    let directions = match call.opset() {
        9.. => "scan_input_directions",
        _ => "directions",
    };
    let listed = body.outputs.len().saturating_sub(count);
    for (name, count) in [
        (directions, scanned),
        ("scan_input_axes", scanned),
        ("scan_output_directions", listed),
        ("scan_output_axes", listed),
    ] {
        let Some(given) = call.attr_ints(name)? else {
            continue;
        };
        let turned = name.ends_with("directions");
        if given.len() != count || turned && given.iter().any(|turn| !(0..=1).contains(turn)) {
            let each = if turned { "0 or 1" } else { "an axis" };
            return Err(NodeError::malformed(
                format_args!("attribute {name}"),
                format_args!("{given:?}"),
                format!("{each} for each of {count}"),
            ));
        }
    }
    let number = |name: &str, place: usize| -> Result<i64, NodeError> {
        let given = call.attr_ints(name)?.unwrap_or(&[]);
        Ok(given.get(place).copied().unwrap_or(0))
    };
    let mut lists = Lists::new(body, count, |place| {
        let backward = number("scan_output_directions", place)? == 1;
        Ok((number("scan_output_axes", place)? as isize, backward))
    })?;
    let mut axes = Vec::new();
    for (place, sequence) in sequences.iter().enumerate() {
        axes.push(resolve(
            number("scan_input_axes", place)? as isize,
            sequence.rank(),
        )?);
    }
    let steps = sequences
        .first()
        .map_or(0, |sequence| sequence.shape()[axes[0]]);
    call.repeats(body, steps)?;
    for step in 0..steps {
        let mut inputs = std::mem::take(&mut states);
        for (place, sequence) in sequences.iter().enumerate() {
            let backward = number(directions, place)? == 1;
            let index = if backward { steps - 1 - step } else { step };
            inputs.push(
                sequence
                    .select(axes[place] as isize, index as isize)?
                    .into(),
            );
        }
        states = call.inner(body, inputs)?;
        lists.push(call, states.split_off(count))?;
    }
    states.append(&mut lists.finish(call)?);
    Ok(states)
}

/// What the rounds of a graph list: its outputs beyond the first few.
struct Lists<'a> {
    body: &'a Graph,
    first: usize,
    each: Vec<List>,
}

/// What one output was in each round.
struct List {
    /// The axis along which the rounds come to lie.
    axis: isize,
    /// Whether the last comes first.
    backward: bool,
    /// Those of the earlier rounds, many in each.
    joined: Vec<Tensor>,
    /// Those of the latest.
    latest: Vec<Tensor>,
}

/// So many rounds are joined to one tensor: what a list takes is then memory of the pool, and counts in its limit.
const JOINED: usize = 512;

impl<'a> Lists<'a> {
    /// `along` says, for each list, its axis and whether it is backward.
    fn new(
        body: &'a Graph,
        first: usize,
        along: impl Fn(usize) -> Result<(isize, bool), NodeError>,
    ) -> Result<Self, NodeError> {
        let outputs = body.outputs.len();
        let count = outputs.checked_sub(first).ok_or_else(|| {
            let expected = format!("at least {first}");
            NodeError::malformed("the number of the body's outputs", outputs, expected)
        })?;
        let each = (0..count).map(|place| {
            let (axis, backward) = along(place)?;
            Ok(List {
                axis,
                backward,
                joined: Vec::new(),
                latest: Vec::new(),
            })
        });
        Ok(Lists {
            body,
            first,
            each: each.collect::<Result<_, NodeError>>()?,
        })
    }

    fn push(&mut self, call: &Call<'_>, items: Vec<Value>) -> Result<(), NodeError> {
        for (list, item) in self.each.iter_mut().zip(items) {
            list.latest.push(item.tensor()?.clone());
            if list.latest.len() == JOINED {
                list.join(call)?;
            }
        }
        Ok(())
    }

    /// Each list as a tensor.
    fn finish(self, call: &Call<'_>) -> Values {
        let Lists { body, first, each } = self;
        let each = each.into_iter().enumerate();
        each.map(|(place, list)| {
            let output = body.outputs[first + place];
            Ok(list.finish(call, body.value(output))?.into())
        })
        .collect()
    }
}

impl List {
    /// Joins the latest.
    fn join(&mut self, call: &Call<'_>) -> Result<(), NodeError> {
        if self.backward {
            self.latest.reverse();
        }
        let latest = call.together(&self.latest)?;
        let stacked = Tensor::stack(&latest.iter().collect::<Vec<_>>(), self.axis)?;
        self.joined.push(stacked);
        self.latest.clear();
        Ok(())
    }

    /// All as one tensor; without rounds, one of no elements, as `info` says.
    fn finish(mut self, call: &Call<'_>, info: &ValueInfo) -> Result<Tensor, NodeError> {
        if !self.latest.is_empty() {
            self.join(call)?;
        }
        if self.backward {
            self.joined.reverse();
        }
        match &self.joined[..] {
            [] => self.nothing(call, info),
            [one] => Ok(one.clone()),
            several => {
                let several = call.together(several)?;
                Ok(Tensor::cat(&several.iter().collect::<Vec<_>>(), self.axis)?)
            }
        }
    }

    fn nothing(&self, call: &Call<'_>, info: &ValueInfo) -> Result<Tensor, NodeError> {
        let Some(dtype) = info.dtype else {
            return Err(NodeError::unsupported(format_args!(
                "a list without rounds of {:?}, whose type is not declared,",
                info.name
            )));
        };
        let Some(shape) = &info.shape else {
            // As in ONNX Runtime: no elements along one axis.
            return Ok(Tensor::zeros(call.pool(), &[0], dtype)?);
        };
        // A size that nothing tells is of no importance where there are no elements.
        let mut sizes: Vec<usize> = shape
            .iter()
            .map(|dim| match dim {
                Dim::Fixed(size) => *size,
                Dim::Named(_) | Dim::Free => 0,
            })
            .collect();
        sizes.insert(resolve(self.axis, sizes.len() + 1)?, 0);
        Ok(Tensor::zeros(call.pool(), &sizes, dtype)?)
    }
}

/// The inputs from `first` on, which have to be there.
fn rest(call: &Call<'_>, first: usize) -> Values {
    (first..call.input_count())
        .map(|place| call.value(place).cloned())
        .collect()
}
