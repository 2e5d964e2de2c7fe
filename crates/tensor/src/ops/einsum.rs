//! Sums of products, by labels of axes.

use crate::{Error, Layout, Result, Tensor};

const OP: &str = "einsum";

/// A label of an axis: a letter, or beyond all letters an axis that an ellipsis stands for, counted from the last.
type Label = u32;

const ELLIPSIS: Label = char::MAX as Label + 1;

/// A tensor, and the label of each of its axes, no two the same.
struct Labelled {
    tensor: Tensor,
    labels: Vec<Label>,
}

impl Tensor {
    /// Einstein's summation: `"ij, jk -> ik"` is a matrix product. Each letter is an axis; one that is not in the result
    /// is summed over, one that an operand has twice means its diagonal, and `...` stands for any axes, which broadcast.
    /// Without `->` the result has what `...` stands for and then, in order of the alphabet, the letters that occur once.
    ///
    /// Operands are taken from left to right, two at a time, as matrix products.
    ///
    /// ```
    /// # use streampool_host::{HostDevice, HostOptions};
    /// # use streampool_tensor::{DType, Pool, Tensor};
    /// # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
    /// let x = Tensor::from_slice(&pool, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(Tensor::einsum("ii", &[&x])?.item::<f32>()?, 5.0);
    /// assert_eq!(Tensor::einsum("ij, ij -> j", &[&x, &x])?.to_vec::<f32>()?, [10.0, 20.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn einsum(equation: &str, operands: &[&Tensor]) -> Result<Tensor> {
        let wrong = |expected: &str| Error::parameter(OP, "equation", equation, expected);
        let (inputs, output) = match equation.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (equation, None),
        };
        let inputs: Vec<&str> = inputs.split(',').collect();
        if inputs.len() != operands.len() {
            let expected = format!("labels for {} operands", operands.len());
            return Err(wrong(&expected));
        }
        let mut terms = Vec::new();
        let mut hidden = 0;
        for (text, tensor) in inputs.iter().zip(operands) {
            let (labels, ellipsis) =
                labels(equation, text, |named| tensor.rank().checked_sub(named))?;
            hidden = hidden.max(ellipsis);
            terms.push(Labelled::new(equation, tensor, &labels)?);
        }
        let wanted = match output {
            Some(text) => labels(equation, text, |_| Some(hidden))?.0,
            None => implied(&inputs, hidden),
        };
        let known = |label: &Label| terms.iter().any(|term| term.labels.contains(label));
        let repeated = (1..wanted.len()).any(|place| wanted[..place].contains(&wanted[place]));
        if repeated || !wanted.iter().all(known) {
            return Err(wrong("labels of operands in the result, each once"));
        }
        let mut terms = terms.into_iter();
        let mut result = terms.next().ok_or_else(|| wrong("at least one operand"))?;
        while let Some(next) = terms.next() {
            let later = terms.as_slice();
            let kept = |label: &Label| {
                wanted.contains(label) || later.iter().any(|term| term.labels.contains(label))
            };
            result = result.times(equation, next, kept)?;
        }
        result = result.summed(|label| wanted.contains(label))?;
        let place = |label: &Label| {
            result
                .labels
                .iter()
                .position(|own| own == label)
                .map(|place| place as isize)
        };
        let order: Vec<isize> = wanted.iter().filter_map(place).collect();
        result.tensor.permute(&order)
    }
}

/// The labels that a text names, and how many axes its ellipsis stands for: `hidden` of the number of the others.
fn labels(
    equation: &str,
    text: &str,
    hidden: impl Fn(usize) -> Option<usize>,
) -> Result<(Vec<Label>, usize)> {
    let wrong = |expected: &str| Error::parameter(OP, "equation", equation, expected);
    let (before, after) = match text.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    let letters = |text: &str| {
        let letters = text.chars().filter(|letter| !letter.is_whitespace());
        let label = |letter: char| match letter.is_alphabetic() {
            true => Ok(letter as Label),
            false => Err(wrong(
                "letters, commas, one ellipsis for each operand, and one arrow",
            )),
        };
        letters.map(label).collect::<Result<Vec<Label>>>()
    };
    let mut all = letters(before)?;
    let Some(after) = after else {
        return Ok((all, 0));
    };
    let after = letters(after)?;
    let count = hidden(all.len() + after.len()).ok_or_else(|| wrong("a label for each axis"))?;
    all.extend((0..count).rev().map(|place| ELLIPSIS + place as Label));
    all.extend(after);
    Ok((all, count))
}

/// The result's labels, where none are given.
fn implied(inputs: &[&str], hidden: usize) -> Vec<Label> {
    let mut letters: Vec<char> = inputs
        .concat()
        .chars()
        .filter(|letter| letter.is_alphabetic())
        .collect();
    letters.sort_unstable();
    let once = letters
        .chunk_by(|a, b| a == b)
        .filter(|same| same.len() == 1);
    let ellipsis = (0..hidden).rev().map(|place| ELLIPSIS + place as Label);
    ellipsis
        .chain(once.map(|letter| letter[0] as Label))
        .collect()
}

impl Labelled {
    /// An operand, where labels that it has twice are its diagonal.
    fn new(equation: &str, tensor: &Tensor, all: &[Label]) -> Result<Labelled> {
        if all.len() != tensor.rank() {
            let expected = format!("a label for each axis of {:?}", tensor.shape());
            return Err(Error::parameter(OP, "equation", equation, expected));
        }
        let (mut labels, mut sizes, mut strides) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, &label) in all.iter().enumerate() {
            let (size, stride) = (tensor.shape()[axis], tensor.layout().strides()[axis]);
            match labels.iter().position(|&known| known == label) {
                None => {
                    labels.push(label);
                    sizes.push(size);
                    strides.push(stride);
                }
                Some(place) if sizes[place] == size => strides[place] += stride,
                Some(_) => {
                    let expected = "axes of one size where a label is repeated";
                    return Err(Error::shape(OP, "operand", tensor.shape(), expected));
                }
            }
        }
        let layout = Layout::strided(&sizes, &strides, tensor.layout().offset())?;
        let tensor = tensor.with_layout(layout);
        Ok(Labelled { tensor, labels })
    }

    /// Summed over what is not kept.
    fn summed(self, kept: impl Fn(&Label) -> bool) -> Result<Labelled> {
        let gone = |place: &usize| !kept(&self.labels[*place]);
        let axes: Vec<isize> = (0..self.labels.len())
            .filter(gone)
            .map(|place| place as isize)
            .collect();
        if axes.is_empty() {
            return Ok(self);
        }
        let tensor = self.tensor.sum(&axes, false)?;
        let labels = self.labels.into_iter().filter(kept).collect();
        Ok(Labelled { tensor, labels })
    }

    /// The product with another, summed over what is not kept.
    fn times(
        self,
        equation: &str,
        other: Labelled,
        kept: impl Fn(&Label) -> bool,
    ) -> Result<Labelled> {
        let a = self.summed(|label| kept(label) || other.labels.contains(label))?;
        let b = other.summed(|label| kept(label) || a.labels.contains(label))?;
        let shared = |label: &&Label| b.labels.contains(label);
        let of = |keep: bool| {
            let both = a.labels.iter().filter(shared).copied();
            both.filter(|label| kept(label) == keep)
                .collect::<Vec<Label>>()
        };
        let (batch, inner) = (of(true), of(false));
        let left: Vec<Label> = a
            .labels
            .iter()
            .filter(|label| !shared(label))
            .copied()
            .collect();
        let alone = |label: &&Label| !a.labels.contains(label);
        let right: Vec<Label> = b.labels.iter().filter(alone).copied().collect();
        let size = |label: &Label| -> Result<usize> {
            let (ours, theirs) = (a.size(label), b.size(label));
            match (ours.unwrap_or(1), theirs.unwrap_or(1)) {
                (ours, theirs) if ours == theirs || theirs == 1 => Ok(ours),
                (1, theirs) => Ok(theirs),
                (ours, theirs) => {
                    let name = char::from_u32(*label).map_or("an axis of ...".into(), String::from);
                    let got = format!("{equation} where {name} is {ours} and {theirs}");
                    Err(Error::parameter(
                        OP,
                        "equation",
                        got,
                        "one size for each label",
                    ))
                }
            }
        };
        let sizes = |labels: &[Label]| labels.iter().map(size).collect::<Result<Vec<usize>>>();
        let (batch_sizes, inner_sizes) = (sizes(&batch)?, sizes(&inner)?);
        let (left_sizes, right_sizes) = (sizes(&left)?, sizes(&right)?);
        let x = a.arranged(
            &[&batch, &left, &inner],
            &[&batch_sizes, &left_sizes, &inner_sizes],
        )?;
        let y = b.arranged(
            &[&batch, &right, &inner],
            &[&batch_sizes, &right_sizes, &inner_sizes],
        )?;
        // Tensors have these sizes now: their products can be counted.
        let joined = |sizes: &[usize]| sizes.iter().product::<usize>();
        let (rows, depth, columns) = (
            joined(&left_sizes),
            joined(&inner_sizes),
            joined(&right_sizes),
        );
        let count = joined(&batch_sizes);
        let x = x.reshape(&[count, rows, depth])?;
        let y = y.reshape(&[count, columns, depth])?;
        let product = match x.dtype().is_float() {
            true => x.matmul(&y.transpose(1, 2)?)?,
            false => x.unsqueeze(2)?.mul(&y.unsqueeze(1)?)?.sum(&[3], false)?,
        };
        let shape = [batch_sizes, left_sizes, right_sizes].concat();
        Ok(Labelled {
            tensor: product.reshape(&shape)?,
            labels: [batch, left, right].concat(),
        })
    }

    fn size(&self, label: &Label) -> Option<usize> {
        let place = self.labels.iter().position(|own| own == label)?;
        Some(self.tensor.shape()[place])
    }

    /// Its axes in the order of these labels, all of its own, repeated to these sizes.
    fn arranged(&self, labels: &[&[Label]], sizes: &[&[usize]]) -> Result<Tensor> {
        let wanted = labels.concat();
        let place = |label: &Label| {
            self.labels
                .iter()
                .position(|own| own == label)
                .map(|place| place as isize)
        };
        let order: Vec<isize> = wanted.iter().filter_map(place).collect();
        self.tensor.permute(&order)?.broadcast_to(&sizes.concat())
    }
}
