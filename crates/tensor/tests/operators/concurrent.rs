//! Every operator over whole tensors, from eight threads at once on inputs that all share: what one thread gets, all get, bit
//! for bit.

use streampool_tensor::{
    Activation, AttentionOptions, Combine, ConvOptions, DType, Direction, Distribution, Generator,
    Pool, PoolOptions, ResizeOptions, Result, RnnOptions, RnnWeights, ScanKind, Tensor,
};

use crate::common::{threads_agree, unwatched_pool};
use crate::{indices, real, whole};

/// What operators are given.
struct Inputs {
    pool: Pool,
    /// `[2, 4, 6, 8]`.
    image: Tensor,
    /// `[6, 2, 3, 3]`.
    kernel: Tensor,
    /// `[2, 12, 12]`, far from having no inverse.
    matrices: Tensor,
    /// `[12, 12]`, turned.
    weight: Tensor,
    /// `[36, 12]`.
    packed: Tensor,
    /// `[12]`.
    row: Tensor,
    /// `[4]`.
    channels: Tensor,
    /// `[2, 12, 12]`, from 0 to 11.
    places: Tensor,
    /// `[5]`, rows of a matrix.
    rows: Tensor,
    /// `[2, 5, 12]`.
    slices: Tensor,
    /// `[1, 96, 12]` and `[1, 96, 24]`, `[1, 192]`: of an LSTM.
    lstm: [Tensor; 3],
}

impl Inputs {
    fn new(pool: &Pool) -> Inputs {
        let ones = Tensor::eye(pool, 12, 12, DType::F32)
            .unwrap()
            .mul(8.0)
            .unwrap();
        let places = whole(pool, &[2, 12, 12], 1, DType::I64).add(3).unwrap();
        Inputs {
            pool: pool.clone(),
            image: real(pool, &[2, 4, 6, 8], 2),
            kernel: real(pool, &[6, 2, 3, 3], 3),
            matrices: real(pool, &[2, 12, 12], 4).add(&ones).unwrap(),
            weight: real(pool, &[12, 12], 5).transpose(0, 1).unwrap(),
            packed: real(pool, &[36, 12], 6),
            row: real(pool, &[12], 7),
            channels: real(pool, &[4], 8).abs().unwrap(),
            places,
            rows: indices(pool, &[3, -1, 0, 3, 7], &[5]),
            slices: real(pool, &[2, 5, 12], 9),
            lstm: [
                real(pool, &[1, 96, 12], 10),
                real(pool, &[1, 96, 24], 11),
                real(pool, &[1, 192], 12),
            ],
        }
    }

    fn recurrent(&self) -> RnnWeights<'_> {
        let [input, recurrent, bias] = &self.lstm;
        RnnWeights {
            input,
            recurrent,
            bias: Some(bias),
            peephole: None,
        }
    }
}

/// An operator, and how it is called.
type Case = (&'static str, fn(&Inputs) -> Result<Vec<Tensor>>);

/// Cases of one result each.
macro_rules! cases {
    ($($name:literal: |$given:ident| $result:expr;)*) => {
        &[$(($name, |$given| Ok(vec![$result?]))),*]
    };
}

const ONE: &[Case] = cases! {
    "matmul": |on| on.matrices.matmul(&on.weight);
    "bmm": |on| on.matrices.bmm(&on.matrices.transpose(1, 2)?);
    "linear": |on| on.matrices.linear(&on.weight, Some(&on.row));
    "linear_with": |on| on.matrices.linear_with(&on.weight, Some(&on.row), Activation::Gelu);
    "addmm": |on| on.row.addmm(&on.weight, &on.weight, 0.5, 2.0);
    "dot": |on| on.row.dot(&on.row);
    "outer": |on| on.row.outer(&on.channels);
    "softmax": |on| on.image.softmax(1);
    "log_softmax": |on| on.image.log_softmax(-1);
    "layer_norm": |on| on.matrices.layer_norm(-1, Some(&on.row), Some(&on.row), 1e-5);
    "rms_norm": |on| on.matrices.rms_norm(-1, Some(&on.row), 1e-5);
    "group_norm": |on| on.image.group_norm(2, Some(&on.channels), Some(&on.channels), 1e-5);
    "instance_norm": |on| on.image.instance_norm(Some(&on.channels), None, 1e-5);
    "batch_norm": |on| on.image.batch_norm(&on.channels, &on.channels, Some(&on.channels), None, 1e-5);
    "scale_shift": |on| on.image.scale_shift(&on.channels, &on.channels);
    "normalize": |on| on.image.normalize(3.0, 1, 1e-12);
    "renorm": |on| on.image.renorm(2.0, 1, 3.0);
    "local_response_norm": |on| on.image.local_response_norm(3, 0.1, 0.75, 1.0);
    "attention": |on| on.image.attention(&on.image, &on.image, &AttentionOptions { causal: true, ..Default::default() });
    "multi_head_attention": |on| on.matrices.multi_head_attention(3, &on.packed, None, &on.weight, Some(&on.row), &AttentionOptions::default());
    "conv": |on| on.image.conv(&on.kernel, &ConvOptions { groups: 2, padding: &[(1, 1), (1, 1)], ..Default::default() });
    "conv_transpose": |on| on.image.conv_transpose(&on.kernel.narrow(0, 0, 4)?, &[1, 0], &ConvOptions { stride: &[2, 1], ..Default::default() });
    "max_pool": |on| on.image.max_pool(&[2, 3], &PoolOptions::default());
    "avg_pool": |on| on.image.avg_pool(&[2, 3], true, &PoolOptions { padding: &[(1, 0), (0, 1)], ..Default::default() });
    "lp_pool": |on| on.image.lp_pool(3.0, &[2, 3], &PoolOptions::default());
    "adaptive_avg_pool": |on| on.image.adaptive_avg_pool(&[4, 3]);
    "adaptive_max_pool": |on| on.image.adaptive_max_pool(&[3, 4]);
    "resize": |on| on.image.resize(&[2, 4, 9, 5], &ResizeOptions { antialias: true, ..Default::default() });
    "index_select": |on| on.matrices.index_select(1, &on.rows);
    "embedding": |on| on.weight.embedding(&on.places);
    "take": |on| on.image.take(&on.places);
    "gather": |on| on.matrices.gather(2, &on.places);
    "gather_nd": |on| on.matrices.gather_nd(1, &on.rows.view(&[5, 1])?.narrow(0, 0, 2)?);
    "scatter": |on| on.matrices.scatter(1, &on.places, &on.matrices);
    "scatter_add": |on| on.matrices.scatter_add(2, &on.places, &on.matrices);
    "scatter_reduce": |on| on.matrices.scatter_reduce(1, &on.places, &on.matrices, Combine::Max);
    "index_copy": |on| on.matrices.index_copy(1, &on.rows, &on.slices);
    "index_add": |on| on.matrices.index_add(1, &on.rows, &on.slices);
    "index_reduce": |on| on.matrices.index_reduce(1, &on.rows, &on.slices, Combine::Mul);
    "scatter_nd": |on| on.weight.scatter_nd(&on.rows.view(&[5, 1])?, &on.slices.select(0, 0)?, Combine::Add);
    "argsort": |on| on.image.argsort(2, true);
    "cumsum": |on| on.image.cumsum(3);
    "cumprod": |on| on.image.cumprod(0);
    "cummax": |on| on.image.cummax(1);
    "cummin": |on| on.image.cummin(2);
    "scan": |on| on.image.scan(ScanKind::Sum, 2, true, true);
    "triangular_solve": |on| on.matrices.triangular_solve(&on.matrices.transpose(1, 2)?, true, false);
    "solve": |on| on.matrices.solve(&on.places.to_dtype(DType::F32)?);
    "inverse": |on| on.matrices.inverse();
    "det": |on| on.matrices.det();
    "cholesky": |on| on.matrices.matmul(&on.matrices.transpose(1, 2)?)?.cholesky();
    "diagonal": |on| on.matrices.diagonal();
    "histogram": |on| on.image.histogram(7, -1.0, 1.0);
    "weighted_histogram": |on| on.image.weighted_histogram(7, -1.0, 1.0, &on.image);
    "bincount": |on| on.places.bincount(9);
    "nonzero": |on| on.image.gt(0.5)?.nonzero();
    "masked_select": |on| on.matrices.masked_select(&on.row.gt(0.0)?);
    "uniform": |on| Generator::new(1).uniform(&on.pool, &[300], -1.0, 2.0, DType::F32);
    "normal": |on| Generator::new(2).normal(&on.pool, &[300], 1.0, 2.0, DType::BF16);
    "exponential": |on| Generator::new(3).exponential(&on.pool, &[300], 2.0, DType::F64);
    "gamma": |on| Generator::new(4).gamma(&on.pool, &[300], 0.7, 2.0, DType::F32);
    "bernoulli": |on| Generator::new(5).bernoulli(&on.pool, &[300], 0.3, DType::U8);
    "bernoulli_of": |on| Generator::new(6).bernoulli_of(&on.channels);
    "integers": |on| Generator::new(7).integers(&on.pool, &[300], -5, 5, DType::I8);
    "permutation": |on| Generator::new(8).permutation(&on.pool, 300);
    "multinomial": |on| Generator::new(9).multinomial(&on.channels, 50, true);
    "draw": |on| Generator::new(10).draw(&on.pool, &[300], Distribution::Bits, DType::U64);
};

const MANY: &[Case] = &[
    ("sort", |on| on.image.sort(1, true).map(|(a, b)| vec![a, b])),
    ("topk", |on| {
        on.image.topk(3, -1, true).map(|(a, b)| vec![a, b])
    }),
    ("lu", |on| {
        on.matrices.lu().map(|lu| vec![lu.factors, lu.pivots])
    }),
    ("lu_solve", |on| {
        Ok(vec![on.matrices.lu()?.solve(&on.matrices)?])
    }),
    ("max_unpool", |on| {
        let options = PoolOptions {
            stride: &[2, 2],
            ..PoolOptions::default()
        };
        let (largest, places) = on.image.max_pool_with_indices(&[2, 2], &options)?;
        let put = largest.max_unpool(&places, &[6, 8])?;
        Ok(vec![largest, places, put])
    }),
    ("lstm", |on| {
        let result = on.matrices.lstm(&on.recurrent(), &RnnOptions::default())?;
        Ok([result.states, result.hidden]
            .into_iter()
            .chain(result.cell)
            .collect())
    }),
    ("gru", |on| {
        let [input, recurrent, bias] = &on.lstm;
        let (input, recurrent) = (input.narrow(1, 0, 72)?, recurrent.narrow(1, 24, 72)?);
        let weights = RnnWeights {
            input: &input,
            recurrent: &recurrent,
            bias: Some(&bias.narrow(1, 0, 144)?),
            peephole: None,
        };
        let options = RnnOptions {
            direction: Direction::Reverse,
            ..RnnOptions::default()
        };
        let result = on.matrices.gru(true, &weights, &options)?;
        Ok(vec![result.states, result.hidden])
    }),
    ("rnn", |on| {
        let [input, recurrent, _] = &on.lstm;
        let (input, recurrent) = (input.narrow(1, 0, 24)?, recurrent.narrow(1, 24, 24)?);
        let weights = RnnWeights {
            input: &input,
            recurrent: &recurrent,
            bias: None,
            peephole: None,
        };
        let result = on.matrices.rnn(false, &weights, &RnnOptions::default())?;
        Ok(vec![result.states, result.hidden])
    }),
];

#[test]
fn eight_threads_get_what_one_gets() {
    let pool = unwatched_pool();
    let given = Inputs::new(&pool);
    threads_agree(&[ONE, MANY].concat(), |name, case| -> Vec<Vec<u8>> {
        let results = case(&given).unwrap_or_else(|error| panic!("{name}: {error}"));
        let bytes = results.iter().map(|result| result.to_bytes().unwrap());
        bytes.collect()
    });
}
