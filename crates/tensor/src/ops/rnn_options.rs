//! What recurrent layers are given, and what they give.

use streampool_device::Direction;

use crate::Tensor;

/// What a recurrent layer knows. Gates lie in the order of ONNX: input, output, forget, cell (LSTM); update, reset,
/// new (GRU).
#[derive(Debug, Clone, Copy)]
pub struct RnnWeights<'a> {
    /// `[directions, gates * hidden, input]`.
    pub input: &'a Tensor,
    /// `[directions, gates * hidden, hidden]`.
    pub recurrent: &'a Tensor,
    /// `[directions, 2 * gates * hidden]`: those of `input`, then those of `recurrent`.
    pub bias: Option<&'a Tensor>,
    /// `[directions, 3 * hidden]`: what the gates of an LSTM see of the cell.
    pub peephole: Option<&'a Tensor>,
}

/// A function that a recurrent layer applies to each element.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "parameters are those of the formula")]
pub enum RnnActivation {
    /// `max(x, 0)`.
    Relu,
    /// `tanh(x)`.
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `alpha x + beta`.
    Affine { alpha: f64, beta: f64 },
    /// `x`, and `alpha x` where it is negative.
    LeakyRelu { alpha: f64 },
    /// `x` where it is above `alpha`, else zero.
    ThresholdedRelu { alpha: f64 },
    /// `alpha tanh(beta x)`.
    ScaledTanh { alpha: f64, beta: f64 },
    /// `min(max(alpha x + beta, 0), 1)`.
    HardSigmoid { alpha: f64, beta: f64 },
    /// `x`, and `alpha (exp(x) - 1)` where it is negative.
    Elu { alpha: f64 },
    /// `x / (1 + |x|)`.
    Softsign,
    /// `log(1 + exp(x))`.
    Softplus,
}

/// Where a recurrent layer begins, how far it goes, and in what it is unlike others of its cell.
///
/// What `activations`, `clip` and `input_forget` ask for is computed step by step from other operators, which is
/// right and several times slower.
#[derive(Debug, Clone, Copy)]
pub struct RnnOptions<'a> {
    /// In which order steps are taken.
    pub direction: Direction,
    /// `[batch]`, `i32`: how many steps each sequence has.
    pub lengths: Option<&'a Tensor>,
    /// `[directions, batch, hidden]`: the state before the first step; zero, if left out.
    pub hidden: Option<&'a Tensor>,
    /// `[directions, batch, hidden]`: the cell before the first step of an LSTM.
    pub cell: Option<&'a Tensor>,
    /// For each direction one for a plain cell; for a GRU those of its gates and of what is new; for an LSTM those of
    /// its gates, of what is new and of the cell. The usual ones, if there are none.
    pub activations: &'a [RnnActivation],
    /// What the activations of gates and of what is new are given is brought between `-clip` and `clip` before; not the cell of an LSTM.
    pub clip: Option<f64>,
    /// For an LSTM: whether the forget gate is one less the input gate, and its weights do not count.
    pub input_forget: bool,
}

impl Default for RnnOptions<'_> {
    fn default() -> Self {
        RnnOptions {
            direction: Direction::Forward,
            lengths: None,
            hidden: None,
            cell: None,
            activations: &[],
            clip: None,
            input_forget: false,
        }
    }
}

/// What a recurrent layer gives.
#[derive(Debug, Clone)]
pub struct RnnOutput {
    /// `[steps, directions, batch, hidden]`: the state after each step.
    pub states: Tensor,
    /// `[directions, batch, hidden]`: the last state.
    pub hidden: Tensor,
    /// `[directions, batch, hidden]`: the last cell of an LSTM.
    pub cell: Option<Tensor>,
}
