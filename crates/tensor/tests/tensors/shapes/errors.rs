//! What does not fit is refused by name, and with what would.

use streampool_tensor::{DType, DepthOrder, Padding, Result, Tensor};

use super::pool;

#[test]
fn errors_name_what_is_wrong() {
    let pool = pool();
    let x = Tensor::ones(&pool, &[2, 3], DType::F32).unwrap();
    let n = Tensor::ones(&pool, &[2, 3], DType::I32).unwrap();
    let tall = Tensor::ones(&pool, &[4, 2], DType::F32).unwrap();
    let message = |result: Result<Tensor>| result.expect_err("an error").to_string();
    assert_eq!(
        message(Tensor::cat(&[], 0)),
        "cat: tensors is none, expected at least one"
    );
    assert_eq!(
        message(Tensor::cat(&[&x, &tall], 0)),
        "cat: tensors has shape [4, 2], expected [2, 3] but for axis 0, for tensor 1, as the first"
    );
    assert_eq!(
        message(Tensor::cat(&[&x, &n], 0)),
        "cat: tensors is of type i32, expected f32 for tensor 1, as the first"
    );
    assert_eq!(
        message(Tensor::cat(&[&x], 2)),
        "cat: axis is 2, expected -2 to 1"
    );
    let scalar = Tensor::scalar(&pool, 1.0f32).unwrap();
    assert_eq!(
        message(Tensor::cat(&[&scalar], 0)),
        "cat: axis is 0, expected none: a scalar has no axes"
    );
    assert_eq!(
        message(Tensor::stack(&[&x, &tall], 0)),
        "stack: tensors has shape [4, 2], expected [2, 3] for tensor 1, as the first"
    );
    let deep = Tensor::ones(&pool, &[1; 8], DType::F32).unwrap();
    assert_eq!(
        message(Tensor::stack(&[&deep], 0)),
        "stack: tensors has shape [1, 1, 1, 1, 1, 1, 1, 1], expected fewer than 8 axes"
    );
    assert_eq!(
        message(x.repeat(&[2])),
        "repeat: times is [2], expected at least 2 numbers, one for each axis"
    );
    assert_eq!(
        message(x.tile(&[1; 9])),
        "tile: times is [1, 1, 1, 1, 1, 1, 1, 1, 1], expected at most 8 numbers"
    );
    assert!(message(x.repeat(&[usize::MAX, 2])).starts_with("repeat: times is "));
    assert!(
        message(x.repeat_interleave(usize::MAX, 0)).starts_with("repeat_interleave: times is ")
    );
    assert_eq!(
        message(x.pad(&[(1, 1)], Padding::Edge)),
        "pad: amounts is 1 pairs, expected 2, one for each axis"
    );
    assert_eq!(
        message(x.pad(&[(2, 0), (0, 0)], Padding::Reflect)),
        "pad: amounts is 2 and 0 for axis 0, expected at most 1 where the axis has 2 elements"
    );
    assert_eq!(
        message(x.pad(&[(-2, -1), (0, 0)], Padding::Wrap)),
        "pad: amounts is -2 and -1 for axis 0, expected at most 2 elements less, the size of the axis"
    );
    assert!(
        message(n.pad(&[(1, 0); 2], Padding::Constant(0.5.into())))
            .starts_with("pad: padding is 0.5, expected ")
    );
    let huge = x.pad(
        &[(isize::MAX, isize::MAX), (0, 0)],
        Padding::Constant(0.into()),
    );
    assert!(message(huge).starts_with("pad: shape has shape "));
    assert_eq!(
        message(x.roll(&[1, 2], &[0])),
        "roll: shifts is 2 shifts, expected 1, one for each axis"
    );
    assert_eq!(
        message(x.roll(&[1], &[2])),
        "roll: axes is 2, expected -2 to 1"
    );
    assert_eq!(
        message(scalar.triu(0)),
        "triu: self has shape [], expected at least two axes"
    );
    assert_eq!(
        message(scalar.diag(0)),
        "diag: self has shape [], expected one or two axes"
    );
    assert_eq!(
        message(x.one_hot(3, 0, DType::F32)),
        "one_hot: self is of type f32, expected an integer type: cast it with `to_dtype`"
    );
    assert_eq!(
        message(n.one_hot(3, 4, DType::F32)),
        "one_hot: axis is 4, expected -3 to 2"
    );
    let image = Tensor::ones(&pool, &[3, 2, 2], DType::F32).unwrap();
    assert_eq!(
        message(image.pixel_shuffle(2)),
        "depth_to_space: block is 2, expected one whose square divides 3, the number of channels"
    );
    assert_eq!(
        message(image.space_to_depth(3, DepthOrder::BlockFirst)),
        "space_to_depth: block is 3, expected one that divides 2 and 2, the height and width"
    );
    assert_eq!(
        message(x.pixel_shuffle(1)),
        "depth_to_space: self has shape [2, 3], expected [..., channels, height, width]"
    );
    let grid = Tensor::meshgrid(&[&x]).map(|mut all| all.remove(0));
    assert_eq!(
        message(grid),
        "meshgrid: tensors has shape [2, 3], expected at most one axis"
    );
}
