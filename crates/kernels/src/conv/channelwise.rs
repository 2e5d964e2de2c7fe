//! Each channel by itself: a thread makes a few neighbouring places, and reads each weight and each element once for all of
//! them. Where the channels of each place lie side by side, the places are neighbours in a row, and the thread takes a few channels
//! of them. Else they are neighbours in a column, so that neighbouring threads read side by side along the row.

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
    order: Order,
    /// The window's extents across and along the places of a thread.
    kernels: [u8; 2],
    /// Its step along them.
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
    let order = Order::of(&op.dst);
    let [image, _, _, height, width] = spatial::shape(&op.dst);
    let [_, down, right] = slides(&op.window);
    let (across, along, length) = match order {
        Order::ChannelsLast => (down, right, width),
        Order::ChannelsFirst => (right, down, height),
    };
    let is_small = op.window.len() <= 2
        && across.kernel.max(along.kernel) <= LONGEST
        && along.stride <= MOST_STRIDE
        && along.dilation == 1;
    let lies_well = match order {
        // A weight has one channel, and there is one of them for each that is made.
        Order::ChannelsLast => Order::of(&op.src) == order && op.weight.layout().strides()[0] == 1,
        Order::ChannelsFirst => height >= RUN,
    };
    // A thread reads what lies beside the picture from its first place, so there has to be one.
    let is_empty = op.src.layout().elements() == 0;
    if !is_each || op.transposed || !is_small || !lies_well || is_empty || spatial::is_wide(&views)
    {
        return None;
    }
    let runs = length.div_ceil(RUN);
    let threads = |pack: usize| image * height * width / length * runs * (channels / pack);
    let fits = |pack: usize| {
        let rest = |view: &View| {
            let strides = spatial::strides(view);
            begins_aligned(view, pack)
                && strides
                    .iter()
                    .all(|&stride| stride == 1 || stride % pack as isize == 0)
        };
        order == Order::ChannelsLast && channels.is_multiple_of(pack) && views.into_iter().all(rest)
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
        order,
        kernels: [across.kernel as u8, along.kernel as u8],
        stride: along.stride as u8,
        pack: pack as u8,
    };
    let mut params = number(Params::new(), false, count);
    let sizes = match order {
        Order::ChannelsLast => [height, runs, channels / pack],
        Order::ChannelsFirst => [*channels, runs, width],
    };
    for each in sizes.into_iter().chain([length]) {
        params = size(params, false, each);
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
        let [across, along] = self.kernels;
        let mut functions = format!(
            "#define KERNEL_ACROSS {across}\n#define KERNEL_ALONG {along}\n#define STRIDE {stride}\n#define PACK {pack}\n\
             #define RUN {RUN}\n#define SEEN ((RUN - 1) * STRIDE + KERNEL_ALONG)\n",
            stride = self.stride,
            pack = self.pack,
        );
        // The place of each axis among a thread's positions, the window's numbers and the strides.
        functions.push_str(match self.order {
            Order::ChannelsLast => {
                "#define CHANNEL position3\n#define PLACE_ACROSS position1\n\
                 #define ACROSS(number) p.number##_1\n#define ALONG(number) p.number##_2\n\
                 #define STEP_ACROSS(view) p.view##_3\n#define STEP_ALONG(view) p.view##_4\n"
            }
            Order::ChannelsFirst => {
                "#define CHANNEL position1\n#define PLACE_ACROSS position3\n\
                 #define ACROSS(number) p.number##_2\n#define ALONG(number) p.number##_1\n\
                 #define STEP_ACROSS(view) p.view##_4\n#define STEP_ALONG(view) p.view##_3\n"
            }
        });
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
