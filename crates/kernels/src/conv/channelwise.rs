//! Each channel by itself, with the channels of each place side by side: a thread takes a few channels of neighbouring
//! places, and reads each weight and each element once for all of them.

use streampool_device::{Conv, View};

use super::ends::Ends;
use super::shared_text::{buffers, ends, operands, place_fields, places};
use crate::dispatch::{Dispatch, Limits, Params, Plan, grid};
use crate::elementwise::form::{number, number_field, positions, size, size_fields};
use crate::rows::packs::{begins_aligned, packs};
use crate::spatial::{self, Order, slides};
use crate::text::KernelText;

/// Each channel by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Channelwise {
    pub(super) ends: Ends,
    /// The window's extents.
    kernels: [u8; 2],
    /// Its step along the last axis.
    stride: u8,
    /// So many channels a thread takes.
    pack: u8,
}

/// Threads in each group.
const THREADS: u32 = 128;
/// So many neighbouring places a thread makes.
const RUN: usize = 4;
/// Longer sides of a window, or steps, leave a thread too few registers.
const LONGEST: u32 = 7;
const MOST_STRIDE: u32 = 2;
/// Fewer threads than this on each processor are better off with fewer channels each.
const FEW_THREADS: usize = 512;

/// `None` if it is another convolution.
pub(super) fn plan<K>(
    op: &Conv,
    limits: &Limits,
    kind: impl FnOnce(Channelwise) -> K,
) -> Option<Plan<K>> {
    let views = [&op.src, &op.weight, &op.dst];
    let [channels, ..] = op.weight.shape() else {
        return None;
    };
    let is_each = op.groups == *channels && op.src.shape()[1] == *channels;
    let [depth, down, along] = slides(&op.window);
    let is_small = depth.kernel == 1
        && down.kernel.max(along.kernel) <= LONGEST
        && along.stride <= MOST_STRIDE
        && along.dilation == 1;
    let lie_last = [&op.src, &op.dst]
        .into_iter()
        .all(|view| Order::of(view) == Order::ChannelsLast);
    // A weight has one channel, and there is one of them for each that is made.
    let is_last = op.weight.layout().strides()[0] == 1;
    if !is_each || op.transposed || !is_small || !lie_last || !is_last || spatial::is_wide(&views) {
        return None;
    }
    let [image, _, _, height, width] = spatial::shape(&op.dst);
    let threads = |pack: usize| image * height * width.div_ceil(RUN) * (channels / pack);
    let fits = |pack: usize| {
        let rest = |view: &View| {
            let strides = spatial::strides(view);
            begins_aligned(view, pack)
                && strides
                    .iter()
                    .all(|&stride| stride == 1 || stride % pack as isize == 0)
        };
        channels.is_multiple_of(pack) && views.into_iter().all(rest)
    };
    let enough = limits.compute_units as usize * FEW_THREADS;
    let mut fitting: Vec<usize> = packs(op.src.dtype().size())
        .filter(|&pack| fits(pack))
        .collect();
    fitting.push(1);
    let pack = fitting
        .iter()
        .copied()
        .find(|&pack| threads(pack) >= enough)
        .or(fitting.iter().copied().rfind(|&pack| pack > 1))
        .unwrap_or(1);
    let count = threads(pack);
    let kernel = Channelwise {
        ends: Ends::of(op),
        kernels: [down.kernel as u8, along.kernel as u8],
        stride: along.stride as u8,
        pack: pack as u8,
    };
    let mut params = number(Params::new(), false, count);
    for length in [height, width.div_ceil(RUN), channels / pack, width] {
        params = size(params, false, length);
    }
    params = places(params, false, op);
    Some(Plan::of(Dispatch {
        kernel: kind(kernel),
        groups: grid([count.div_ceil(THREADS as usize), 1, 1]),
        threads: THREADS,
        operands: operands(op),
        params,
    }))
}

impl Channelwise {
    pub(super) fn text(&self) -> KernelText {
        let mut params = vec![number_field(false, "count")];
        params.extend((1..=4).flat_map(|axis| size_fields(false, axis)));
        params.extend(place_fields(false, self.ends));
        let [down, along] = self.kernels;
        let mut functions = format!(
            "#define KERNEL_1 {down}\n#define KERNEL_2 {along}\n#define STRIDE {stride}\n#define PACK {pack}\n\
             #define RUN {RUN}\n#define SEEN ((RUN - 1) * STRIDE + KERNEL_2)\n",
            stride = self.stride,
            pack = self.pack,
        );
        functions.push_str(&ends(self.ends));
        functions.push_str("typedef Pack<Stored, PACK> Channels;\n");
        let (load, store) = match self.pack {
            1 => ("one.values[0] = *from;", "*to = one.values[0];"),
            _ => ("one = load_pack<PACK>(from);", "store_pack<PACK>(to, one);"),
        };
        functions.push_str(&format!(
            "FUNCTION Channels channels(GLOBAL const Stored* from) {{ Channels one; {load} return one; }}\n\
             FUNCTION void put(GLOBAL Stored* to, Channels one) {{ {store} }}\n"
        ));
        let mut body = String::from(
            "    const u32 index = group_x * threads + lane;\n    \
             if (index >= p.count) { return; }\n",
        );
        body.push_str(&positions(false, 4, "index"));
        body.push_str(include_str!("channelwise_body.h"));
        KernelText {
            entry: "conv_channelwise",
            buffers: buffers(self.ends),
            params,
            threads: Some(THREADS),
            functions,
            body,
            ..KernelText::default()
        }
    }
}
