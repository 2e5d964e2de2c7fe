//! Distances of rows, crops of pictures, and words made of their letters.

use streampool_tensor::{Activation, DType, GridOptions, Outside, Sampling, Tensor};

use super::super::call::{Call, Operator, Outputs, size};
use crate::error::NodeError;

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "CDist" => distances,
        "CropAndResize" => crop_and_resize,
        "WordConvEmbedding" => words,
        _ => return None,
    })
}

/// Of each row of the one from each row of the other.
fn distances(call: &Call<'_>) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let squares = a.sum_square(&[1], true)?;
    let squares = squares.add(&b.sum_square(&[1], true)?.transpose(0, 1)?)?;
    let both = a.matmul_with(&b.transpose(0, 1)?, None, Activation::None, -2.0)?;
    let distances = squares.add(&both)?.maximum(0.0)?;
    Ok(vec![match call.string_or("metric", "sqeuclidean")? {
        "sqeuclidean" => distances,
        "euclidean" => distances.sqrt()?,
        other => return Err(call.unknown("metric", other)),
    }])
}

/// Each box, given by fractions of the picture, in one size for all.
fn crop_and_resize(call: &Call<'_>) -> Outputs {
    let (x, boxes) = (call.input(0)?, call.input(1)?);
    let wanted = call.ints(3)?;
    let (&[_, _, height, width], &[rows, columns]) = (x.shape(), &wanted[..]) else {
        let got = format_args!("of shape {:?} to {wanted:?}", x.shape());
        return Err(NodeError::malformed(
            "a crop",
            got,
            "a picture to two sizes",
        ));
    };
    let nearest = match call.string_or("mode", "bilinear")? {
        "bilinear" => false,
        "nearest" => true,
        other => return Err(call.unknown("mode", other)),
    };
    let [rows, columns] = [
        size("the height of a crop", rows)?,
        size("the width of a crop", columns)?,
    ];
    let dtype = boxes.dtype();
    // Where the elements of an axis come from, and whether that is in the picture: `[boxes, count]`.
    let places = |first: usize, last: usize, count: usize, whole: usize| {
        let most = whole.saturating_sub(1) as f64;
        let corner = |place: usize| boxes.narrow(1, place, 1)?.mul(most);
        let (start, end) = (corner(first)?, corner(last)?);
        let places = match count {
            0 | 1 => start.add(&end)?.mul(0.5)?,
            _ => {
                let step = end.sub(&start)?.div((count - 1) as f64)?;
                start.add(&step.mul(&call.counted(count, dtype)?)?)?
            }
        };
        let inside = places.ge(0.0)?.logical_and(&places.le(most)?)?;
        let places = match nearest {
            true => places.add(0.5)?.floor()?,
            false => places,
        };
        Ok::<_, NodeError>((places.mul(2.0 / most.max(1.0))?.sub(1.0)?, inside))
    };
    let (down, in_height) = places(0, 2, rows, height)?;
    let (across, in_width) = places(1, 3, columns, width)?;
    let count = boxes.dim(0)?;
    let shape = [count, rows, columns];
    let grid = Tensor::stack(
        &[
            &across.unsqueeze(1)?.broadcast_to(&shape)?,
            &down.unsqueeze(2)?.broadcast_to(&shape)?,
        ],
        3,
    )?;
    let options = GridOptions {
        sampling: Sampling::Linear,
        outside: Outside::Edge,
        align_corners: true,
    };
    let chosen = x.index_select(0, &call.input(2)?.to_dtype(DType::I64)?)?;
    let crops = chosen.grid_sample(&grid, &options)?;
    let inside = in_height
        .unsqueeze(2)?
        .logical_and(&in_width.unsqueeze(1)?)?;
    let outside = call.float_or("extrapolation_value", 0.0)?;
    Ok(vec![inside.unsqueeze(1)?.where_cond(&crops, outside)?])
}

/// Words, which are lists of letters with zeros behind them: a convolution over the letters, and the largest of each feature.
fn words(call: &Call<'_>) -> Outputs {
    let (letters, weight) = (call.input(0)?, call.input(1)?);
    let &[filters, _, window, width] = weight.shape() else {
        let got = format_args!("of shape {:?}", weight.shape());
        return Err(NodeError::malformed("input 1", got, "four axes"));
    };
    let length = letters.dim(-1)?;
    let flat = letters
        .reshape(&[-1, length as i64])?
        .to_dtype(DType::I64)?;
    let starts = (length + 1).saturating_sub(window);
    if starts == 0 {
        return Err(NodeError::unsupported(
            "words that are shorter than the window",
        ));
    }
    // A word is as long as it has letters, which are not zero.
    let lengths = flat.ne(0)?.to_dtype(DType::I64)?.sum(&[1], true)?;
    let seen = call.input(3)?.index_select(0, &flat)?;
    let mut parts = Vec::new();
    for start in 0..starts {
        let part = seen.narrow(1, start, window)?;
        parts.push(part.reshape(&[-1, (window * width) as i64])?);
    }
    let parts = Tensor::stack(&parts.iter().collect::<Vec<_>>(), 1)?;
    let weight = weight.reshape(&[filters, window * width])?;
    let features = parts
        .matmul(&weight.transpose(0, 1)?)?
        .add(call.input(2)?)?
        .tanh()?;
    // Windows that reach beyond a word do not count, but the first one does.
    let last = lengths.sub(window as i64)?.maximum(0)?;
    let counts = call.counted(starts, DType::I64)?.le(&last)?.unsqueeze(2)?;
    let largest = counts
        .where_cond(&features, f64::NEG_INFINITY)?
        .max(&[1], false)?;
    let there = lengths.gt(0)?;
    let made = there.where_cond(&largest, 0.0)?;
    let mut shape = letters.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = filters;
    }
    Ok(vec![made.reshape(&shape)?])
}
