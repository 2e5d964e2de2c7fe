//! Recurrent layers.
//!
//! What all steps see of the input is one product. Then one launch takes all steps: each group has some sequences
//! of one direction. `Form::Tiles` keeps the weights of short floats in registers and multiplies on the tensor
//! cores, `Form::Matrices` by the matrices of Apple's simdgroups; `Form::Sums` takes any state, and reads weights, turned
//! so that neighbouring threads read neighbours, at each step. Where that would leave most of the device idle,
//! `Form::Launches` takes each step by a launch of its own, all units at once, and `Form::LaunchTiles` does so for more sequences
//! on the tensor cores.

mod text;

#[cfg(test)]
mod tests;

use smallvec::SmallVec;
use streampool_device::{Cell, DType, Direction, Layout, MatMul, Rnn as Op, View};

use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan, grid};
use crate::elementwise::{self, Elementwise};
use crate::matmul::{self, Product};
use crate::scratch::{in_scratch, place};
use crate::text::MOST_SHARED;

/// A kernel that takes the steps of a recurrent layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rnn {
    dtype: DType,
    cell: Cell,
    form: Form,
    given: Given,
}

/// Which operands there are that need not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Given {
    bias: bool,
    peephole: bool,
    lengths: bool,
    hidden: bool,
    cell: bool,
    last_hidden: bool,
    last_cell: bool,
}

/// How work is divided among threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// A warp for eight units, of some times 16 sequences.
    Tiles {
        /// The state's size, rounded up to what is multiplied at once.
        width: u8,
        /// Times 16 sequences.
        tiles: u8,
    },
    /// A simdgroup for eight units, of some times eight sequences.
    Matrices {
        /// The state's size, rounded up as for tiles.
        width: u8,
        /// Times eight sequences.
        tiles: u8,
    },
    /// A launch for each step, with a warp for a unit of some sequences.
    Launches {
        /// Sequences of a warp.
        run: u8,
        /// Weights that a thread reads at once.
        vector: u8,
    },
    /// A launch for each step, with a group for eight units of some times 16 sequences.
    LaunchTiles {
        /// Times 16 sequences.
        tiles: u8,
        /// How often a thread reads 16 bytes of weights of each gate, if its registers hold them all; else 0.
        ahead: u8,
    },
    /// A thread for a unit of some sequences.
    Sums {
        /// Threads for different units.
        units: u16,
        /// Sequences of a thread.
        run: u8,
        /// Whether each thread has one unit at most.
        one_unit: bool,
        /// KiB of shared memory that hold the states; none where they do not fit.
        shared: u8,
    },
}

/// What parts of scratch memory begin at multiples of.
const ALIGNMENT: usize = 256;
/// The largest state whose weights the registers of a group hold.
const TILES_STATE: usize = 128;
/// The threads of a group of `Form::Sums`.
const THREADS: u32 = 256;
/// The threads of a group of `Form::Launches`, and their warps.
const LAUNCH_THREADS: u32 = 128;
const LAUNCH_UNITS: usize = LAUNCH_THREADS as usize / 32;
/// The threads of a group of `Form::LaunchTiles`, and its units.
const TILE_THREADS: u32 = 256;
const TILE_UNITS: usize = 8;
/// The most sequences for which a launch for each step multiplies by sums: a tile has 16 rows.
const FEW_SEQUENCES: usize = 8;
/// The smallest state for which a launch for each step is worth it.
const LAUNCH_STATE: usize = 64;
/// The most reads of 16 bytes whose weights a thread of `Form::LaunchTiles` holds.
const MOST_AHEAD: usize = 8;
/// The most steps that get a launch each.
const MOST_LAUNCHES: usize = 4096;
/// Shared memory is named in multiples of so many bytes.
const STEP: usize = 4 << 10;

impl Form {
    fn of(op: &Op, limits: &Limits) -> Form {
        let (batch, hidden) = (op.src.shape()[1], op.recurrent.shape()[2]);
        let directions = op.direction.count();
        let busy = limits.compute_units as usize;
        if matches!(op.src.dtype(), DType::F16 | DType::BF16) && hidden <= TILES_STATE {
            let many = directions * batch.div_ceil(32) >= busy;
            return Form::Tiles {
                width: hidden.next_multiple_of(16) as u8,
                tiles: if many { 2 } else { 1 },
            };
        }
        let number = wide(op.src.dtype()).size();
        let most = MOST_SHARED.min(limits.shared_bytes) as usize;
        let units = hidden.next_power_of_two().clamp(32, 128);
        let one_unit = hidden <= units;
        let form = |run: usize, bytes: usize| Form::Sums {
            units: units as u16,
            run: run as u8,
            one_unit,
            // Not each size has a kernel of its own.
            shared: (bytes.div_ceil(STEP) * (STEP >> 10)) as u8,
        };
        let arrays = if one_unit { 2 } else { 3 };
        let bytes = |run: usize| arrays * form(run, 0).pitch() * hidden * number;
        let occupies = |form: &Form| directions * batch.div_ceil(form.sequences()) >= busy;
        let fitting = || {
            let runs = [16, 8, 4, 2, 1]
                .into_iter()
                .filter(|&run| bytes(run) <= most);
            runs.map(|run| form(run, bytes(run)))
        };
        let occupying = fitting().find(occupies);
        if let Some(form) = occupying.filter(|_| one_unit) {
            return form;
        }
        Form::launches(op)
            .or(occupying)
            .or_else(|| fitting().next_back())
            .unwrap_or(form(1, 0))
    }

    /// With a launch for each step; `None` where a step needs two passes, and where it is no gain.
    fn launches(op: &Op) -> Option<Form> {
        let [steps, batch, _] = [0, 1, 2].map(|axis| op.src.shape()[axis]);
        let hidden = op.recurrent.shape()[2];
        let in_one_pass = op.cell != Cell::Gru { reset_after: false };
        let is_gain = hidden >= LAUNCH_STATE && (1..=MOST_LAUNCHES).contains(&steps);
        if !in_one_pass || !is_gain || op.src.dtype() == DType::F64 {
            return None;
        }
        let vector =
            vector_in_place(&op.recurrent).or_else(|| vector_of(&[hidden], op.src.dtype()))?;
        let run = batch.next_power_of_two().clamp(1, FEW_SEQUENCES) as u8;
        Some(Form::Launches { run, vector })
    }

    /// The same with a launch for each step on tensor cores, where there are sequences for it.
    fn on_tensor_cores(self, op: &Op, limits: &Limits) -> Option<Form> {
        let batch = op.src.shape()[1];
        let tiles = if batch > 16 { 2 } else { 1 };
        let bytes = launch_sums(op.cell, tiles) * size_of::<f32>();
        let whole = 16 / op.src.dtype().size();
        let is_gain = matches!(self, Form::Launches { vector, .. } if usize::from(vector) == whole)
            && op.recurrent.shape()[2].is_multiple_of(TILE_UNITS)
            && batch > FEW_SEQUENCES;
        // Of small batches, the registers that this takes would cost many threads more than it gives to one.
        let rounds = op.recurrent.shape()[2].div_ceil(TILE_THREADS as usize / 8 * whole);
        let fits = rounds * op.cell.gates() <= MOST_AHEAD;
        let ahead = if fits { rounds as u8 } else { 0 };
        let form = Form::LaunchTiles { tiles, ahead };
        (is_gain && bytes <= limits.shared_bytes as usize).then_some(form)
    }

    /// The same on a GPU of Apple's whose simdgroups multiply matrices.
    fn on_simdgroups(self, op: &Op, limits: &Limits) -> Option<Form> {
        let Form::Tiles { width, .. } = self else {
            return None;
        };
        let (batch, directions) = (op.src.shape()[1], op.direction.count());
        let gates = op.cell.gates();
        let form = |tiles: u8| Form::Matrices { width, tiles };
        let fits = |form: &Form| form.matrix_bytes(gates) <= limits.shared_bytes as usize;
        let occupies = |form: &Form| {
            directions * batch.div_ceil(form.sequences()) >= limits.compute_units as usize
        };
        let mut fitting = [4, 2, 1].map(form).into_iter().filter(fits);
        let chosen = fitting.clone().find(occupies);
        chosen.or_else(|| fitting.next_back())
    }

    /// Of the states in shared memory, and of what simdgroups exchange.
    fn matrix_bytes(self, gates: usize) -> usize {
        let simdgroups = self.threads() as usize / 32;
        2 * self.sequences() * self.pitch() * 2 + simdgroups * gates * 64 * size_of::<f32>()
    }

    /// Sequences of a group.
    fn sequences(self) -> usize {
        match self {
            Form::Tiles { tiles, .. } | Form::LaunchTiles { tiles, .. } => usize::from(tiles) * 16,
            Form::Matrices { tiles, .. } => usize::from(tiles) * 8,
            Form::Launches { run, .. } => usize::from(run),
            Form::Sums { units, run, .. } => {
                THREADS as usize / usize::from(units) * usize::from(run)
            }
        }
    }

    /// From the states of one unit to those of the next, or of one sequence to the next: not a power of two, so
    /// that they lie in different banks.
    fn pitch(self) -> usize {
        match self {
            Form::Tiles { width, .. } | Form::Matrices { width, .. } => usize::from(width) + 8,
            _ => self.sequences() + 4,
        }
    }

    fn threads(self) -> u32 {
        match self {
            Form::Tiles { width, .. } | Form::Matrices { width, .. } => 32 * u32::from(width / 8),
            Form::Launches { .. } => LAUNCH_THREADS,
            Form::LaunchTiles { .. } => TILE_THREADS,
            Form::Sums { .. } => THREADS,
        }
    }
}

/// How many sums the warps of a group of [`Form::LaunchTiles`] exchange.
fn launch_sums(cell: Cell, tiles: u8) -> usize {
    TILE_THREADS as usize / 32 * cell.gates() * usize::from(tiles) * 16 * TILE_UNITS
}

/// The type that elements are computed in.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// How many elements of rows at these places, moved at once, lie at multiples of their size: at most 16 bytes.
fn vector_of(places: &[usize], dtype: DType) -> Option<u8> {
    let mut sizes = [8, 4, 2].into_iter();
    let found = sizes.find(|&vector| {
        vector * dtype.size() <= 16 && places.iter().all(|place| place.is_multiple_of(vector))
    });
    found.map(|vector| vector as u8)
}

/// The same for weights where they are; `None` if they have to be copied first.
fn vector_in_place(weights: &View) -> Option<u8> {
    let (layout, dtype) = (weights.layout(), weights.dtype());
    let strides = layout.strides();
    let begins = weights.span().offset;
    if strides[2] != 1 || !begins.is_multiple_of(dtype.size()) {
        return None;
    }
    let first = begins / dtype.size() + layout.offset();
    let [direction, row] = [0, 1].map(|axis| strides[axis].unsigned_abs());
    vector_of(&[first, direction, row, weights.shape()[2]], dtype)
}

/// The product of all inputs and weights, whose result lies at the start of scratch memory; `None` if it is empty,
/// or too large.
pub fn projection(op: &Op) -> Option<MatMul> {
    let [steps, batch, _] = [0, 1, 2].map(|axis| op.src.shape()[axis]);
    let (directions, gates) = (op.direction.count(), op.weight.shape()[1]);
    let shape = [directions, steps, batch, gates];
    let out = in_scratch(0, wide(op.src.dtype()), &shape)?;
    let (sizes, strides) = (op.weight.shape(), op.weight.layout().strides());
    let turned = Layout::strided(
        &[directions, 1, sizes[2], gates],
        &[strides[0], 0, strides[2], strides[1]],
        op.weight.layout().offset(),
    );
    Some(MatMul {
        a: op.src,
        b: View::new(op.weight.span(), op.weight.dtype(), turned.ok()?).ok()?,
        out,
        bias: None,
        activation: Default::default(),
        alpha: 1.0,
    })
}

/// The launches that execute `op`, which was validated; `None` if it is too large for any.
pub(crate) fn rnn<K>(op: &Op, limits: &Limits) -> Option<Plan<K>>
where
    K: From<Rnn> + From<Elementwise> + From<Product>,
{
    whole(op, limits, false)
}

/// The same on a GPU with tensor cores.
pub fn tensor_core_rnn<K>(op: &Op, limits: &Limits) -> Option<Plan<K>>
where
    K: From<Rnn> + From<Elementwise> + From<Product>,
{
    whole(op, limits, true)
}

fn whole<K>(op: &Op, limits: &Limits, tensor_cores: bool) -> Option<Plan<K>>
where
    K: From<Rnn> + From<Elementwise> + From<Product>,
{
    let product = matmul::matmul(&projection(op)?, limits);
    Some(joined(product, steps(op, limits, tensor_cores)?))
}

/// The launches on a GPU of Apple's whose simdgroups multiply matrices; `None` if that is no gain.
pub(crate) fn simdgroup_rnn<K>(op: &Op, limits: &Limits) -> Option<Plan<K>>
where
    K: From<Rnn> + From<Elementwise> + From<Product>,
{
    let projection = projection(op)?;
    let product = matmul::simdgroup_product(&projection, limits);
    let form = Form::of(op, limits);
    let on_simdgroups = form.on_simdgroups(op, limits);
    if product.is_none() && on_simdgroups.is_none() {
        return None;
    }
    let product = product.unwrap_or_else(|| matmul::matmul(&projection, limits));
    let steps = steps_of(op, on_simdgroups.unwrap_or(form), limits)?;
    Some(joined(product, steps))
}

fn joined<K>(mut plan: Plan<K>, rest: Plan<K>) -> Plan<K> {
    place(&mut plan.dispatches);
    plan.dispatches.extend(rest.dispatches);
    plan.scratch = rest.scratch;
    plan
}

/// The launches that follow the [`projection`], in whose scratch memory its result is.
pub fn steps<K>(op: &Op, limits: &Limits, tensor_cores: bool) -> Option<Plan<K>>
where
    K: From<Rnn> + From<Elementwise>,
{
    let form = Form::of(op, limits);
    let on_tensor_cores = || form.on_tensor_cores(op, limits);
    let better = tensor_cores.then(on_tensor_cores).flatten();
    steps_of(op, better.unwrap_or(form), limits)
}

fn steps_of<K>(op: &Op, form: Form, limits: &Limits) -> Option<Plan<K>>
where
    K: From<Rnn> + From<Elementwise>,
{
    let [steps, batch, _] = [0, 1, 2].map(|axis| op.src.shape()[axis]);
    let hidden = op.recurrent.shape()[2];
    let (directions, gates) = (op.direction.count(), op.cell.gates());
    if batch * hidden == 0 {
        return Some(Plan::default());
    }
    let number = wide(op.src.dtype());
    let parts = batch.div_ceil(form.sequences());
    let groups = directions.checked_mul(parts)?;
    let too_large = |size: usize| i32::try_from(size).is_err();
    if [groups, steps, batch, hidden, gates * hidden]
        .into_iter()
        .any(too_large)
    {
        return None;
    }
    let mut plan: Plan<K> = Plan::default();
    let mut room = |elements: usize, dtype: DType| -> Option<usize> {
        let at = plan.scratch;
        let bytes = elements.checked_mul(dtype.size())?;
        plan.scratch = at.checked_add(bytes)?.checked_next_multiple_of(ALIGNMENT)?;
        Some(at)
    };
    let mut elements = [directions, steps, batch, gates, hidden].into_iter();
    let projected = room(
        elements.try_fold(1usize, |all, size| all.checked_mul(size))?,
        number,
    )?;
    let mut walked = op.recurrent;
    let mut states: SmallVec<[usize; 4]> = SmallVec::new();
    // What the kernel finds in scratch memory, and where it is before.
    let mut copied: SmallVec<[(View, View); 2]> = SmallVec::new();
    let weights = match form {
        Form::Tiles { .. } | Form::Matrices { .. } => Operand::Memory(op.recurrent.span()),
        Form::Launches { .. } | Form::LaunchTiles { .. } => {
            let state = directions.checked_mul(batch.checked_mul(hidden)?)?;
            let is_tiles = matches!(form, Form::LaunchTiles { .. });
            // What tiles multiply is rounded, and the state itself is apart.
            let multiplied = if is_tiles { op.src.dtype() } else { number };
            let others = usize::from(is_tiles) + usize::from(op.cell == Cell::Lstm);
            for _ in 0..2 {
                states.push(room(state, multiplied)?);
            }
            for _ in 0..others {
                states.push(room(state, number)?);
            }
            if let Some(hidden) = op.hidden.as_ref().filter(|_| is_tiles) {
                let first = in_scratch(states[0], multiplied, hidden.shape())?;
                copied.push((*hidden, first));
            }
            match vector_in_place(&op.recurrent) {
                Some(_) => Operand::Memory(op.recurrent.span()),
                None => {
                    let dtype = op.recurrent.dtype();
                    let at = room(op.recurrent.layout().elements(), dtype)?;
                    walked = in_scratch(at, dtype, op.recurrent.shape())?;
                    copied.push((op.recurrent, walked));
                    Operand::Scratch(at)
                }
            }
        }
        Form::Sums { shared, .. } => {
            let shape = [directions, hidden, hidden, gates];
            let at = room(shape.iter().product(), op.recurrent.dtype())?;
            let turned = in_scratch(at, op.recurrent.dtype(), &shape)?;
            copied.push((turned_weights(op)?, turned));
            if shared == 0 {
                let of_group = 3 * form.pitch() * hidden;
                states.push(room(groups.checked_mul(of_group)?, number)?);
            }
            Operand::Scratch(at)
        }
    };
    for (from, to) in &copied {
        let copy = elementwise::copy(from, to, limits);
        debug_assert_eq!(copy.scratch, 0, "a copy needs no scratch memory");
        plan.dispatches.extend(copy.dispatches);
    }
    place(&mut plan.dispatches);
    let kernel = Rnn {
        dtype: op.src.dtype(),
        cell: op.cell,
        form,
        given: Given {
            bias: op.bias.is_some(),
            peephole: op.peephole.is_some(),
            lengths: op.lengths.is_some(),
            hidden: op.hidden.is_some(),
            cell: op.cell_state.is_some(),
            last_hidden: op.last_hidden.is_some(),
            last_cell: op.last_cell.is_some(),
        },
    };
    let mut operands: SmallVec<[Operand; 4]> = SmallVec::new();
    operands.extend([Operand::Scratch(projected), weights]);
    let mut params = Params::new();
    if !matches!(form, Form::Sums { .. }) {
        params = walk(params, &walked);
    }
    let optional = [
        &op.bias,
        &op.peephole,
        &op.lengths,
        &op.hidden,
        &op.cell_state,
    ];
    let written = [&op.last_hidden, &op.last_cell];
    let views = optional.into_iter().flatten().chain([&op.dst]);
    for view in views.chain(written.into_iter().flatten()) {
        operands.push(Operand::Memory(view.span()));
        params = walk(params, view);
    }
    let reverse = op.direction == Direction::Reverse;
    for size in [steps, batch, hidden, parts, usize::from(reverse)] {
        params = params.size(size);
    }
    let launch = |groups: usize, states: &[usize], params: Params| {
        let states = states.iter().map(|&at| Operand::Scratch(at));
        Dispatch {
            kernel: kernel.into(),
            groups: grid([groups, 1, 1]),
            threads: form.threads(),
            operands: operands.iter().copied().chain(states).collect(),
            params,
        }
    };
    match form {
        Form::Launches { .. } | Form::LaunchTiles { .. } => {
            let units = match form {
                Form::LaunchTiles { .. } => TILE_UNITS,
                _ => LAUNCH_UNITS,
            };
            let groups = groups.checked_mul(hidden.div_ceil(units))?;
            for turn in 0..steps {
                let turned = params.clone().size(turn);
                plan.push(launch(groups, &states, turned));
                // What it wrote, the next one reads.
                states.swap(0, 1);
            }
        }
        _ => plan.push(launch(groups, &states, params)),
    }
    Some(plan).filter(Plan::fits)
}

/// The recurrent weights of each direction, element of the state and unit, gate after gate.
fn turned_weights(op: &Op) -> Option<View> {
    let layout = op.recurrent.layout();
    let (hidden, strides) = (op.recurrent.shape()[2], layout.strides());
    let turned = Layout::strided(
        &[op.direction.count(), hidden, hidden, op.cell.gates()],
        &[
            strides[0],
            strides[2],
            strides[1],
            strides[1] * hidden as isize,
        ],
        layout.offset(),
    );
    View::new(op.recurrent.span(), op.recurrent.dtype(), turned.ok()?).ok()
}

/// Appends where a view begins, and its strides.
fn walk(params: Params, view: &View) -> Params {
    let layout = view.layout();
    let begun = params.i64(layout.offset() as i64);
    let strides = layout.strides().iter();
    strides.fold(begun, |params, &stride| params.i64(stride as i64))
}
