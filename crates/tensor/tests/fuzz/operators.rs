//! Every operator over whole tensors, given what comes.

use streampool_tensor::{
    Activation, Alignment, AttentionOptions, Combine, ConvOptions, DType, Direction, Generator,
    Interpolation, PoolOptions, ResizeOptions, Result, RnnActivation, RnnOptions, RnnWeights,
    Rounding, ScanKind, Tensor,
};

use crate::arguments::Given;

type Operator = fn(&mut Given) -> Result<Vec<Tensor>>;

const COMBINES: [Combine; 5] = [
    Combine::Replace,
    Combine::Add,
    Combine::Mul,
    Combine::Min,
    Combine::Max,
];
const ACTIVATIONS: [Activation; 3] = [Activation::None, Activation::Relu, Activation::Gelu];

/// Operators of one result over a tensor of any shape.
macro_rules! simple {
    ($($name:literal: |$on:ident, $x:ident| $result:expr;)*) => {
        &[$(($name, |$on| {
            let shape = $on.shape();
            let $x = $on.tensor(&shape);
            Ok(vec![$result?])
        })),*]
    };
}

pub const ALL: &[(&str, Operator)] = &{
    let mut all = [SIMPLE[0]; SIMPLE.len() + FITTED.len()];
    let mut place = 0;
    while place < all.len() {
        all[place] = match place < SIMPLE.len() {
            true => SIMPLE[place],
            false => FITTED[place - SIMPLE.len()],
        };
        place += 1;
    }
    all
};

const SIMPLE: &[(&str, Operator)] = simple! {
    "softmax": |on, x| x.softmax(on.axis(x.rank()));
    "log_softmax": |on, x| x.log_softmax(on.axis(x.rank()));
    "normalize": |on, x| x.normalize(on.float(), on.axis(x.rank()), on.float());
    "renorm": |on, x| x.renorm(on.float(), on.axis(x.rank()), on.float());
    "instance_norm": |on, x| x.instance_norm(None, None, on.float());
    "group_norm": |on, x| x.group_norm(on.count(1, 3), None, None, on.float());
    "local_response_norm": |on, x| x.local_response_norm(on.count(1, 5), on.float(), on.float(), on.float());
    "sort": |on, x| x.sort(on.axis(x.rank()), on.coin()).map(|both| both.0);
    "argsort": |on, x| x.argsort(on.axis(x.rank()), on.coin());
    "topk": |on, x| x.topk(on.count(0, 3), on.axis(x.rank()), on.coin()).map(|both| both.1);
    "cumsum": |on, x| x.cumsum(on.axis(x.rank()));
    "cumprod": |on, x| x.cumprod(on.axis(x.rank()));
    "cummax": |on, x| x.cummax(on.axis(x.rank()));
    "cummin": |on, x| x.cummin(on.axis(x.rank()));
    "scan": |on, x| x.scan(on.one_of(&[ScanKind::Sum, ScanKind::Min]), on.axis(x.rank()), on.coin(), on.coin());
    "histogram": |on, x| x.histogram(on.count(1, 9), -on.float(), on.float());
    "weighted_histogram": |on, x| x.weighted_histogram(on.count(1, 9), -on.float(), on.float(), &on.tensor(x.shape()));
    "bincount": |on, x| x.to_dtype(on.one_of(&[DType::I32, DType::U8, DType::F32]))?.bincount(on.count(0, 9));
    "nonzero": |_on, x| x.nonzero();
    "masked_select": |on, x| x.masked_select(&on.tensor_of(x.shape(), DType::Bool));
    "take": |on, x| x.take(&on.indices(&[3, 2], x.elem_count()));
    "index_select": |on, x| {
        let axis = on.axis(x.rank());
        x.index_select(axis, &on.indices(&[4], x.dim(axis).unwrap_or(1)))
    };
    "gather": |on, x| {
        let axis = on.axis(x.rank());
        x.gather(axis, &on.indices(x.shape(), x.dim(axis).unwrap_or(1)))
    };
    "diagonal": |_on, x| x.diagonal();
    "bernoulli_of": |_on, x| Generator::new(1).bernoulli_of(&x);
    "multinomial": |on, x| Generator::new(1).multinomial(&x, on.count(0, 3), on.coin());
    "resize": |on, x| {
        let shape: Vec<usize> = x.shape().iter().map(|_| on.count(1, 6)).collect();
        let (start, end) = (on.float(), on.float());
        x.resize(&shape, &ResizeOptions {
            interpolation: on.one_of(&[Interpolation::Linear, Interpolation::Cubic(-0.75), Interpolation::Nearest(Rounding::Ceil)]),
            alignment: on.one_of(&[Alignment::HalfPixel, Alignment::Corners, Alignment::HalfPixelSymmetric, Alignment::PyTorchHalfPixel, Alignment::Crop(start, end)]),
            antialias: on.coin(),
            exclude_outside: on.coin(),
            outside: on.coin().then_some(end),
        })
    };
    "resize": |on, x| {
        let shape: Vec<usize> = x.shape().iter().map(|_| on.count(1, 6)).collect();
        let scales: Vec<f64> = x.shape().iter().map(|_| on.float()).collect();
        x.resize_scaled(&shape, &scales, &vec![Alignment::Asymmetric; x.rank()], &ResizeOptions::default())
    };
    "adaptive_avg_pool": |on, x| x.adaptive_avg_pool(&on.counts(x.rank().max(2) - 2, 1, 7));
    "adaptive_max_pool": |on, x| x.adaptive_max_pool(&on.counts(x.rank().max(2) - 2, 1, 7));
};

const FITTED: &[(&str, Operator)] = &[
    ("matmul", |on| {
        let (m, k, n) = (on.count(0, 4) % 9, on.count(0, 4) % 9, on.count(0, 4) % 9);
        let (a, b) = (on.tensor(&[2, m, k]), on.tensor(&[k, n]));
        Ok(vec![a.matmul(&b)?])
    }),
    ("bmm", |on| {
        let (a, b) = (on.tensor(&[3, 2, 4]), on.tensor(&[3, 4, 5]));
        Ok(vec![a.bmm(&b)?])
    }),
    ("dot", |on| Ok(vec![on.tensor(&[4]).dot(&on.tensor(&[4]))?])),
    ("outer", |on| {
        Ok(vec![on.tensor(&[4]).outer(&on.tensor(&[3]))?])
    }),
    ("linear", |on| {
        let shape = on.shape();
        let (x, read) = (on.tensor(&shape), shape.last().copied().unwrap_or(2));
        let (weight, bias) = (on.tensor(&[5, read]), on.maybe(&[5]));
        Ok(vec![x.linear_with(
            &weight,
            bias.as_ref(),
            on.one_of(&ACTIVATIONS),
        )?])
    }),
    ("addmm", |on| {
        let (a, b, c) = (on.tensor(&[3, 4]), on.tensor(&[4, 2]), on.tensor(&[3, 1]));
        Ok(vec![c.addmm(&a, &b, on.float(), on.float())?])
    }),
    ("layer_norm", |on| {
        let shape = on.shape();
        let (x, axis) = (on.tensor(&shape), on.axis(shape.len()));
        let from = if axis < 0 {
            axis + shape.len() as isize
        } else {
            axis
        };
        let inner = shape.get(from.max(0) as usize..).unwrap_or(&[]).to_vec();
        let (scale, bias) = (on.maybe(&inner), on.maybe(&inner));
        Ok(vec![x.layer_norm(
            axis,
            scale.as_ref(),
            bias.as_ref(),
            on.float(),
        )?])
    }),
    ("rms_norm", |on| {
        let shape = on.shape();
        let (x, last) = (on.tensor(&shape), shape.last().copied().unwrap_or(1));
        let scale = on.maybe(&[last]);
        Ok(vec![x.rms_norm(-1, scale.as_ref(), on.float())?])
    }),
    ("batch_norm", |on| {
        let shape = on.shape();
        let (x, channels) = (on.tensor(&shape), shape.get(1).copied().unwrap_or(1));
        let (mean, variance) = (on.tensor(&[channels]), on.tensor(&[channels]));
        let (scale, bias) = (on.maybe(&[channels]), on.maybe(&[channels]));
        Ok(vec![x.batch_norm(
            &mean,
            &variance,
            scale.as_ref(),
            bias.as_ref(),
            on.float(),
        )?])
    }),
    ("scale_shift", |on| {
        let shape = on.shape();
        let (x, channels) = (on.tensor(&shape), shape.get(1).copied().unwrap_or(1));
        let (scale, shift) = (on.tensor(&[channels]), on.tensor(&[channels]));
        Ok(vec![x.scale_shift(&scale, &shift)?])
    }),
    ("attention", |on| {
        let (query, key) = (on.tensor(&[2, 4, 3, 5]), on.tensor(&[2, 2, 6, 5]));
        let (value, mask) = (on.tensor(&[2, 2, 6, 2]), on.maybe(&[3, 6]));
        let mask = match mask {
            Some(mask) if on.coin() => Some(mask.to_dtype(DType::Bool)?),
            mask => mask,
        };
        let options = AttentionOptions {
            mask: mask.as_ref(),
            causal: on.coin(),
            past: on.count(0, 4),
            scale: on.coin().then(|| on.float()),
            softcap: if on.coin() { 0.0 } else { on.float() },
        };
        Ok(vec![query.attention(&key, &value, &options)?])
    }),
    ("multi_head_attention", |on| {
        let (x, packed) = (on.tensor(&[2, 3, 4]), on.tensor(&[12, 4]));
        let (bias, projection) = (on.maybe(&[12]), on.tensor(&[4, 4]));
        let options = AttentionOptions::default();
        let heads = on.count(1, 4);
        Ok(vec![x.multi_head_attention(
            heads,
            &packed,
            bias.as_ref(),
            &projection,
            None,
            &options,
        )?])
    }),
    ("conv", |on| {
        let rank = on.one_of(&[1, 2, 3]);
        let groups = on.one_of(&[1, 1, 2]);
        let spatial = on.shape_of(rank);
        let x = on.tensor(&[&[2, 4], &spatial[..]].concat());
        let kernel: Vec<usize> = (0..rank).map(|_| on.count(1, 3) % 64).collect();
        let weight = on.tensor(&[&[6, 4 / groups], &kernel[..]].concat());
        let bias = on.maybe(&[6]);
        let options = ConvOptions {
            bias: bias.as_ref(),
            stride: &on.counts(rank, 1, 3),
            padding: &on.padding(rank, 2),
            dilation: &on.counts(rank, 1, 2),
            groups: if on.seldom(10) {
                on.count(0, 9)
            } else {
                groups
            },
            activation: on.one_of(&ACTIVATIONS),
            ..ConvOptions::default()
        };
        Ok(vec![x.conv(&weight, &options)?])
    }),
    ("conv_transpose", |on| {
        let rank = on.one_of(&[1, 2, 3]);
        let groups = on.one_of(&[1, 1, 2]);
        let spatial = on.shape_of(rank);
        let x = on.tensor(&[&[2, 4], &spatial[..]].concat());
        let kernel: Vec<usize> = (0..rank).map(|_| on.count(1, 3) % 64).collect();
        let weight = on.tensor(&[&[4, 3], &kernel[..]].concat());
        let bias = on.maybe(&[3 * groups]);
        let options = ConvOptions {
            bias: bias.as_ref(),
            stride: &on.counts(rank, 1, 3),
            padding: &on.padding(rank, 2),
            dilation: &on.counts(rank, 1, 2),
            groups: if on.seldom(10) {
                on.count(0, 9)
            } else {
                groups
            },
            ..ConvOptions::default()
        };
        let extra = on.counts(rank, 0, 1);
        Ok(vec![x.conv_transpose(&weight, &extra, &options)?])
    }),
    ("max_pool", |on| {
        pooled(on, |_, x, kernel, options| {
            Ok(vec![x.max_pool(kernel, options)?])
        })
    }),
    ("max_pool_with_indices", |on| {
        pooled(on, |_, x, kernel, options| {
            let (largest, places) = x.max_pool_with_indices(kernel, options)?;
            Ok(vec![largest, places])
        })
    }),
    ("avg_pool", |on| {
        pooled(on, |on, x, kernel, options| {
            Ok(vec![x.avg_pool(kernel, on.coin(), options)?])
        })
    }),
    ("lp_pool", |on| {
        pooled(on, |on, x, kernel, options| {
            Ok(vec![x.lp_pool(on.float(), kernel, options)?])
        })
    }),
    ("max_unpool", |on| {
        let (x, places) = (on.tensor(&[2, 3, 4]), on.indices(&[2, 3, 4], 8));
        Ok(vec![x.max_unpool(&places, &[on.count(7, 9)])?])
    }),
    ("embedding", |on| {
        let (table, rows) = (on.tensor(&[5, 3]), on.indices(&[2, 2], 5));
        Ok(vec![table.embedding(&rows)?])
    }),
    ("gather_nd", |on| {
        let (x, depth) = (on.tensor(&[3, 3, 3]), on.count(0, 3) % 5);
        let places = on.indices(&[3, depth], 3);
        Ok(vec![x.gather_nd(on.count(0, 1), &places)?])
    }),
    ("scatter_nd", |on| {
        let (x, places) = (on.tensor(&[3, 3]), on.indices(&[4, 1], 3));
        let updates = on.tensor(&[4, 3]);
        Ok(vec![x.scatter_nd(
            &places,
            &updates,
            on.one_of(&COMBINES),
        )?])
    }),
    ("scatter", |on| {
        put(on, &[2, 3], &[2, 3], |x, axis, places, updates, _| {
            x.scatter(axis, places, updates)
        })
    }),
    ("scatter_add", |on| {
        put(on, &[2, 3], &[2, 3], |x, axis, places, updates, _| {
            x.scatter_add(axis, places, updates)
        })
    }),
    ("scatter_reduce", |on| {
        put(on, &[2, 3], &[2, 3], Tensor::scatter_reduce)
    }),
    ("index_copy", |on| {
        put(on, &[4], &[4, 3], |x, _, places, updates, _| {
            x.index_copy(0, places, updates)
        })
    }),
    ("index_add", |on| {
        put(on, &[4], &[4, 3], |x, _, places, updates, _| {
            x.index_add(0, places, updates)
        })
    }),
    ("index_reduce", |on| {
        put(on, &[4], &[4, 3], |x, _, places, updates, combine| {
            x.index_reduce(0, places, updates, combine)
        })
    }),
    ("lstm", |on| {
        recurrent(on, 4, |x, weights, options| {
            let result = x.lstm(weights, options)?;
            Ok([result.states, result.hidden]
                .into_iter()
                .chain(result.cell)
                .collect())
        })
    }),
    ("gru", |on| {
        let after = on.coin();
        recurrent(on, 3, move |x, weights, options| {
            Ok(vec![x.gru(after, weights, options)?.states])
        })
    }),
    ("rnn", |on| {
        let relu = on.coin();
        recurrent(on, 1, move |x, weights, options| {
            Ok(vec![x.rnn(relu, weights, options)?.hidden])
        })
    }),
    ("lu", |on| {
        let shape = on.shape_of(3);
        let lu = on.tensor(&shape).lu()?;
        Ok(vec![lu.factors, lu.pivots])
    }),
    ("solve", |on| {
        let (x, rhs) = system(on);
        Ok(vec![x.solve(&rhs)?])
    }),
    ("triangular_solve", |on| {
        let (x, rhs) = system(on);
        Ok(vec![x.triangular_solve(&rhs, on.coin(), on.coin())?])
    }),
    ("cholesky", |on| Ok(vec![system(on).0.cholesky()?])),
    ("inverse", |on| Ok(vec![system(on).0.inverse()?])),
    ("det", |on| Ok(vec![system(on).0.det()?])),
    ("uniform", |on| {
        let (pool, shape, dtype) = drawn(on);
        Ok(vec![Generator::new(2).uniform(
            &pool,
            &shape,
            on.float(),
            5.0,
            dtype,
        )?])
    }),
    ("normal", |on| {
        let (pool, shape, dtype) = drawn(on);
        Ok(vec![Generator::new(3).normal(
            &pool,
            &shape,
            on.float(),
            on.float(),
            dtype,
        )?])
    }),
    ("exponential", |on| {
        let (pool, shape, dtype) = drawn(on);
        Ok(vec![Generator::new(4).exponential(
            &pool,
            &shape,
            on.float(),
            dtype,
        )?])
    }),
    ("gamma", |on| {
        let (pool, shape, dtype) = drawn(on);
        Ok(vec![Generator::new(5).gamma(
            &pool,
            &shape,
            on.float(),
            on.float(),
            dtype,
        )?])
    }),
    ("bernoulli", |on| {
        let (pool, shape, dtype) = drawn(on);
        let probability = on.float() / 4.0;
        Ok(vec![Generator::new(6).bernoulli(
            &pool,
            &shape,
            probability,
            dtype,
        )?])
    }),
    ("integers", |on| {
        let (pool, shape, dtype) = drawn(on);
        let (low, high) = (on.one_of(&[i64::MIN, -3, 0]), on.one_of(&[-3, 5, i64::MAX]));
        Ok(vec![
            Generator::at(7, u64::MAX - 3).integers(&pool, &shape, low, high, dtype)?,
        ])
    }),
    ("permutation", |on| {
        Ok(vec![
            Generator::new(8).permutation(&on.pool(), on.count(0, 50))?,
        ])
    }),
];

fn pooled(
    on: &mut Given,
    pool: impl FnOnce(&mut Given, &Tensor, &[usize], &PoolOptions<'_>) -> Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>> {
    let rank = on.one_of(&[1, 2, 3]);
    let spatial = on.shape_of(rank);
    let x = on.tensor(&[&[2, 3], &spatial[..]].concat());
    let kernel: Vec<usize> = (0..rank).map(|_| on.count(1, 3)).collect();
    let (stride, dilation) = (on.counts(rank, 1, 3), on.counts(rank, 1, 2));
    let options = PoolOptions {
        stride: &stride,
        padding: &on.padding(rank, 1),
        dilation: &dilation,
        ceil: on.coin(),
    };
    pool(on, &x, &kernel, &options)
}

fn put(
    on: &mut Given,
    places: &[usize],
    updates: &[usize],
    operator: impl FnOnce(&Tensor, isize, &Tensor, &Tensor, Combine) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let (x, places, updates) = (
        on.tensor(&[3, 3]),
        on.indices(places, 3),
        on.tensor(updates),
    );
    let (axis, combine) = (on.axis(2), on.one_of(&COMBINES));
    Ok(vec![operator(&x, axis, &places, &updates, combine)?])
}

fn recurrent(
    on: &mut Given,
    gates: usize,
    layer: impl FnOnce(&Tensor, &RnnWeights<'_>, &RnnOptions<'_>) -> Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>> {
    let direction = on.one_of(&[Direction::Forward, Direction::Reverse, Direction::Both]);
    let (directions, steps) = (direction.count(), on.count(0, 3) % 5);
    let x = on.tensor(&[steps, 2, 3]);
    let input = on.tensor(&[directions, gates * 4, 3]);
    let recurrent = on.tensor(&[directions, gates * 4, 4]);
    let bias = on.maybe(&[directions, 2 * gates * 4]);
    let peephole = on.seldom(4).then(|| on.tensor(&[directions, 12]));
    let lengths = on.coin().then(|| on.tensor_of(&[2], DType::I32));
    let (hidden, cell) = (on.maybe(&[directions, 2, 4]), on.seldom(3));
    let cell = cell.then(|| on.tensor(&[directions, 2, 4]));
    let weights = RnnWeights {
        input: &input,
        recurrent: &recurrent,
        bias: bias.as_ref(),
        peephole: peephole.as_ref(),
    };
    let options = RnnOptions {
        direction,
        lengths: lengths.as_ref(),
        hidden: hidden.as_ref(),
        cell: cell.as_ref(),
        activations: match on.seldom(3) {
            true => on.one_of::<&[RnnActivation]>(&[
                &[RnnActivation::Softsign],
                &[RnnActivation::Elu { alpha: 0.5 }, RnnActivation::Relu],
                &[RnnActivation::Softplus; 3],
                &[RnnActivation::Tanh; 6],
            ]),
            false => &[],
        },
        clip: on.seldom(3).then_some(0.5),
        input_forget: on.seldom(4),
    };
    layer(&x, &weights, &options)
}

fn system(on: &mut Given) -> (Tensor, Tensor) {
    let size = on.count(0, 5) % 8;
    (on.tensor(&[2, size, size]), on.tensor(&[2, size, 3]))
}

fn drawn(on: &mut Given) -> (streampool_tensor::Pool, Vec<usize>, DType) {
    let mut shape = on.shape();
    if let Some(first) = shape.first_mut().filter(|_| on.seldom(8)) {
        *first = on.count(0, 9);
    }
    (on.pool(), shape, on.dtype())
}
