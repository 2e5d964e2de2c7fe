//! Convolution, pooling and interpolation.

use streampool_tensor::{
    Alignment, ConvOptions, Interpolation, PoolOptions, ResizeOptions, Rounding,
};

use crate::Reference;

const NEAR: f64 = 1e-4;

#[test]
fn convolutions() {
    let mut reference = Reference::open("spatial");
    for case in ["conv1d", "conv2d", "conv2d_depthwise", "conv3d"] {
        let [x, weight] = ["x", "weight"].map(|name| reference.get(case, name));
        let bias = reference.find(case, "bias");
        let given = ConvOptions {
            bias: bias.as_ref(),
            ..ConvOptions::default()
        };
        let options = match case {
            "conv1d" => ConvOptions {
                stride: &[2],
                padding: &[(3, 3)],
                dilation: &[2],
                ..given
            },
            "conv2d" => ConvOptions {
                stride: &[2, 1],
                padding: &[(1, 1), (2, 2)],
                groups: 2,
                ..given
            },
            "conv2d_depthwise" => ConvOptions {
                padding: &[(1, 1), (1, 1)],
                groups: 4,
                ..given
            },
            _ => ConvOptions {
                padding: &[(1, 1), (0, 0), (1, 1)],
                ..given
            },
        };
        reference.assert_close(case, "y", &x.conv(&weight, &options).unwrap(), NEAR);
    }
}

#[test]
fn transposed_convolutions() {
    let mut reference = Reference::open("spatial");
    for (case, extra) in [
        ("transpose1d", &[2][..]),
        ("transpose2d", &[1, 2]),
        ("transpose3d", &[]),
    ] {
        let [x, weight] = ["x", "weight"].map(|name| reference.get(case, name));
        let bias = reference.find(case, "bias");
        let given = ConvOptions {
            bias: bias.as_ref(),
            ..ConvOptions::default()
        };
        let options = match case {
            "transpose1d" => ConvOptions {
                stride: &[3],
                padding: &[(2, 2)],
                ..given
            },
            "transpose2d" => ConvOptions {
                stride: &[2, 3],
                padding: &[(1, 1), (0, 0)],
                dilation: &[2, 1],
                groups: 2,
                ..given
            },
            _ => ConvOptions {
                stride: &[2, 2, 2],
                padding: &[(1, 1), (1, 1), (1, 1)],
                ..given
            },
        };
        let y = x.conv_transpose(&weight, extra, &options).unwrap();
        reference.assert_close(case, "y", &y, NEAR);
    }
}

#[test]
fn pools() {
    let mut reference = Reference::open("spatial");
    for (ceil, max_case, mean_case) in [
        (false, "max_pool", "avg_pool"),
        (true, "max_pool_ceil", "avg_pool_ceil"),
    ] {
        let (x, kernel) = (reference.get(max_case, "x"), &[3, 2]);
        let options = PoolOptions {
            stride: &[2, 3],
            padding: &[(1, 1), (1, 1)],
            ceil,
            ..PoolOptions::default()
        };
        let (y, indices) = x.max_pool_with_indices(kernel, &options).unwrap();
        reference.assert_same(max_case, "y", &y);
        reference.assert_same(max_case, "indices", &indices);
        reference.assert_same(max_case, "y", &x.max_pool(kernel, &options).unwrap());
        for (name, count_padding) in [("counted", true), ("uncounted", false)] {
            let y = x.avg_pool(kernel, count_padding, &options).unwrap();
            reference.assert_close(mean_case, name, &y, NEAR);
        }
    }
    let options = PoolOptions {
        stride: &[2, 2],
        ..PoolOptions::default()
    };
    let x = reference.get("lp_pool", "x");
    let y = x.lp_pool(3.0, &[2, 3], &options).unwrap();
    reference.assert_close("lp_pool", "y", &y, NEAR);
}

#[test]
fn adaptive_pools() {
    let mut reference = Reference::open("spatial");
    for (case, sizes) in [
        ("adaptive_even", &[7, 5][..]),
        ("adaptive_uneven", &[3, 4]),
        ("adaptive_larger", &[9, 13]),
        ("adaptive_one", &[1, 1]),
        ("adaptive_line", &[4]),
    ] {
        let x = reference.get(case, "x");
        reference.assert_close(case, "mean", &x.adaptive_avg_pool(sizes).unwrap(), NEAR);
        reference.assert_same(case, "max", &x.adaptive_max_pool(sizes).unwrap());
    }
}

#[test]
fn the_largest_are_put_back() {
    let mut reference = Reference::open("spatial");
    let [x, indices] = ["x", "indices"].map(|name| reference.get("max_unpool", name));
    let y = x.max_unpool(&indices, &[7, 10]).unwrap();
    reference.assert_same("max_unpool", "y", &y);
}

#[test]
fn interpolation() {
    let mut reference = Reference::open("spatial");
    let nearest = |rounding, alignment| ResizeOptions {
        interpolation: Interpolation::Nearest(rounding),
        alignment,
        ..ResizeOptions::default()
    };
    let between = |interpolation, alignment| ResizeOptions {
        interpolation,
        alignment,
        ..ResizeOptions::default()
    };
    let antialiased = |interpolation| ResizeOptions {
        interpolation,
        antialias: true,
        exclude_outside: true,
        ..ResizeOptions::default()
    };
    use Alignment::{Asymmetric, Corners, HalfPixel};
    use Interpolation::{Cubic, Linear};
    for (case, options) in [
        ("resize_nearest", nearest(Rounding::Floor, Asymmetric)),
        ("resize_nearest_exact", nearest(Rounding::HalfUp, HalfPixel)),
        ("resize_linear", ResizeOptions::default()),
        ("resize_linear_corners", between(Linear, Corners)),
        ("resize_linear_antialias", antialiased(Linear)),
        ("resize_cubic", between(Cubic(-0.75), HalfPixel)),
        ("resize_cubic_corners", between(Cubic(-0.75), Corners)),
        ("resize_cubic_antialias", antialiased(Cubic(-0.5))),
        ("resize_trilinear", ResizeOptions::default()),
    ] {
        let (x, shape) = (reference.get(case, "x"), reference.get(case, "y"));
        let y = x.resize(shape.shape(), &options).unwrap();
        reference.assert_close(case, "y", &y, NEAR);
    }
}

#[test]
fn pixels_are_shuffled_by_views() {
    let mut reference = Reference::open("spatial");
    let x = reference.get("pixel_shuffle", "x");
    let apart = x.view(&[2, 2, 2, 2, 3, 2]).unwrap();
    let y = apart.permute(&[0, 1, 4, 2, 5, 3]).unwrap();
    let y = y.reshape(&[2, 2, 6, 4]).unwrap();
    reference.assert_same("pixel_shuffle", "y", &y);
}
