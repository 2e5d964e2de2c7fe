//! One expression over several groups of operands in one launch.
//!
//! Groups whose operands lie one behind the other, and in the same form, become one launch: each has some of the
//! blocks of threads, which choose its operands first and then go on as if there were no others. What is left is
//! launched group by group.

use std::sync::Arc;

use smallvec::SmallVec;
use streampool_device::{Expr, View};

use super::body::Body;
use super::each::{text as text_of_each, widest};
use super::form::{Form, MOST_ARGUMENT_BYTES, Reach, THREADS};
use super::fused::Fused;
use super::space::{Order, Space};
use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan};
use crate::text::{Dialect, Field, KernelText};

/// For how many groups there are kernels: few texts serve all.
const SLOTS: [usize; 7] = [2, 4, 8, 16, 32, 64, 128];

/// Bytes of parameters for each slot: the first of its blocks, its chunks and its tail.
const SLOT_BYTES: usize = 12;

/// Blocks for each processor, at most, that all groups of a launch share; each has at least one.
const BLOCKS_PER_UNIT: usize = 16;

/// A kernel for several groups of one form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Many {
    pub(super) body: Body,
    form: Form,
    slots: usize,
}

/// A group: where its operands are, and in which form.
struct Group {
    space: Space,
    form: Form,
}

/// `outputs = expr(inputs)`, group after group, where `one` plans a group by itself; `None` if one of them has more operands than a kernel can be passed.
pub(super) fn plan<K>(
    expr: &Arc<Expr>,
    inputs: &[View],
    outputs: &[View],
    limits: &Limits,
    kind: impl Fn(Many) -> K,
    one: impl Fn(&[View], &[View]) -> Option<Plan<K>>,
) -> Option<Plan<K>> {
    let (reads, writes) = (expr.inputs().len(), expr.outputs().len());
    let fused = Fused::new(expr);
    let most = most_slots(reads + writes, fused.params_size(), limits);
    let constants = fused.params();
    let body = Body::Map(fused);
    let mut plan = Plan::default();
    let mut alike: Vec<Vec<Group>> = Vec::new();
    for (number, outputs) in outputs.chunks_exact(writes).enumerate() {
        let inputs = &inputs[number * reads..][..reads];
        let Some(space) = Space::new(inputs.iter().chain(outputs), Order::Any) else {
            continue;
        };
        let form = Form::new(&space, widest(&body));
        if most.is_none() || !is_plain(&form) {
            let group = one(inputs, outputs)?;
            plan.dispatches.extend(group.dispatches);
            continue;
        }
        match alike.iter_mut().find(|groups| groups[0].form == form) {
            Some(groups) => groups.push(Group { space, form }),
            None => alike.push(vec![Group { space, form }]),
        }
    }
    for groups in alike {
        for groups in groups.chunks(most.unwrap_or(1)) {
            plan.push(launch(&body, constants.clone(), groups, limits, &kind));
        }
    }
    Some(plan)
}

/// The most groups of so many operands in one launch, beside constants of so many bytes; `None` if there is no
/// room for two.
fn most_slots(operands: usize, constants: usize, limits: &Limits) -> Option<usize> {
    let fits = |slots: &usize| {
        slots * operands <= limits.buffers as usize
            && slots * (8 * operands + SLOT_BYTES) + constants + 8 <= MOST_ARGUMENT_BYTES
    };
    SLOTS.into_iter().rev().find(fits)
}

/// Whether all operands lie one behind the other, or are one element.
fn is_plain(form: &Form) -> bool {
    form.rank == 1
        && !form.wide
        && form
            .reach
            .iter()
            .all(|reach| matches!(reach, Reach::Dense | Reach::Single))
}

/// The launch over groups of one form, no more than there are slots for.
fn launch<K>(
    body: &Body,
    constants: Params,
    groups: &[Group],
    limits: &Limits,
    kind: impl FnOnce(Many) -> K,
) -> Dispatch<K> {
    let slots = SLOTS
        .into_iter()
        .find(|&slots| slots >= groups.len())
        .unwrap_or(groups.len());
    let chunks = |group: &Group| group.space.elements() / group.form.width;
    let total: usize = groups.iter().map(chunks).sum();
    let most = BLOCKS_PER_UNIT * limits.compute_units.max(1) as usize;
    // A block goes over as many chunks in every group.
    let share = total.div_ceil(most).max(THREADS as usize);
    let mut params = constants;
    let mut first = 0u32;
    let blocks: SmallVec<[u32; 32]> = groups
        .iter()
        .map(|group| chunks(group).div_ceil(share).max(1) as u32)
        .collect();
    for slot in 0..slots {
        params = params.u32(first);
        first += blocks.get(slot).copied().unwrap_or(0);
    }
    params = params.u32(first);
    for slot in 0..slots {
        params = params.u32(groups.get(slot).map_or(0, |group| chunks(group) as u32));
    }
    for slot in 0..slots {
        let tail = |group: &Group| (group.space.elements() % group.form.width) as u32;
        params = params.u32(groups.get(slot).map_or(0, tail));
    }
    // Slots that no block belongs to have the operands of the first.
    let operands = (0..slots).flat_map(|slot| {
        let group = groups.get(slot).unwrap_or(&groups[0]);
        group
            .space
            .operands
            .iter()
            .map(|operand| Operand::Memory(operand.span()))
    });
    Dispatch {
        kernel: kind(Many {
            body: body.clone(),
            form: groups[0].form.clone(),
            slots,
        }),
        groups: [first, 1, 1],
        threads: THREADS,
        operands: operands.collect(),
        params,
    }
}

impl Many {
    pub(super) fn text(&self, dialect: Dialect) -> KernelText {
        let one = text_of_each(&self.body, &self.form, dialect);
        let slots = self.slots;
        // They are every slot's own, too, since the text of one group finds all its parameters there.
        let constants = self.body.fields();
        let (mut fields, mut own) = (String::new(), String::new());
        for Field { ty, name } in &constants {
            fields += &format!(" {ty} {name};");
            own += &format!(", p.{name}");
        }
        let mut buffers = Vec::new();
        let (mut declared, mut chosen) = (String::new(), String::new());
        for buffer in &one.buffers {
            let constant = if buffer.written { "" } else { "const " };
            declared += &format!("{constant}GLOBAL {}* {};\n", buffer.ty, buffer.name);
        }
        for slot in 0..slots {
            // The last case stands for all others, so that every path chooses.
            chosen += &match slot + 1 == slots {
                true => "default:\n".to_owned(),
                false => format!("case {slot}:\n"),
            };
            for buffer in &one.buffers {
                let mut own = buffer.clone();
                own.name = format!("{}_{slot}", buffer.name);
                chosen += &format!("{} = {};\n", buffer.name, own.name);
                buffers.push(own);
            }
            chosen += "break;\n";
        }
        let body = format!(
            "u32 slot = 0;\n\
             for (u32 step = {half}; step > 0; step /= 2) {{\n\
             if (group_x >= p.first[slot + step]) slot += step;\n}}\n\
             {declared}\
             switch (slot) {{\n{chosen}}}\n\
             const Slot own = {{p.count[slot], p.tail[slot]{own}}};\n\
             const u32 block = group_x - p.first[slot], blocks = p.first[slot + 1] - p.first[slot];\n\
             {{\n\
             const Slot p = own;\n\
             const u32 group_x = block, groups_x = blocks;\n\
             {inner}}}\n",
            half = slots / 2,
            inner = one.body,
        );
        let mut params = constants;
        params.extend([
            Field::new("u32", format!("first[{}]", slots + 1)),
            Field::new("u32", format!("count[{slots}]")),
            Field::new("u32", format!("tail[{slots}]")),
        ]);
        KernelText {
            entry: "elementwise_groups",
            buffers,
            params,
            functions: format!(
                "struct Slot {{ u32 count, tail;{fields} }};\n{}",
                one.functions
            ),
            body,
            ..one
        }
    }
}

#[cfg(test)]
mod tests {
    use streampool_device::{Binary, DType, Layout};

    use super::*;
    use crate::Plan;
    use crate::elementwise::map;
    use crate::rows::testing::{LIMITS, row_major, view};

    /// Products of vectors of these lengths.
    fn products(lengths: &[usize], limits: &Limits) -> Plan {
        let expr = Arc::new(Expr::binary(Binary::Mul, DType::F32).unwrap());
        let of = |&length: &usize| row_major(DType::F32, &[length]);
        let inputs: Vec<View> = lengths.iter().flat_map(|length| [of(length); 2]).collect();
        let outputs: Vec<View> = lengths.iter().map(of).collect();
        map(&expr, &inputs, &outputs, limits).unwrap()
    }

    #[test]
    fn many_tensors_take_few_launches() {
        let plan = products(&[1000; 100], &LIMITS);
        assert_eq!(plan.dispatches.len(), 2);
        assert_eq!(plan.dispatches[0].operands.len(), 64 * 3);
        assert_eq!(
            products(&[1000; 5], &LIMITS).dispatches[0].operands.len(),
            8 * 3
        );
        let metal = Limits {
            buffers: 30,
            ..LIMITS
        };
        assert_eq!(products(&[1000; 100], &metal).dispatches.len(), 13);
    }

    #[test]
    fn each_group_has_blocks_for_its_length() {
        let plan = products(&[10, 0, 1 << 20, 3], &LIMITS);
        let dispatch = &plan.dispatches[0];
        let bytes = dispatch.params.as_bytes();
        let words: Vec<u32> = bytes
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let last = dispatch.groups[0] - 1;
        // Four slots for three groups: where their blocks begin, then their chunks of four, then what is left.
        assert_eq!(words[..5], [0, 1, last, last + 1, last + 1]);
        assert_eq!(words[5..9], [2, 1 << 18, 0, 0]);
        assert_eq!(words[9..13], [2, 0, 3, 0]);
        assert_eq!(last, 1024 + 1);
    }

    #[test]
    fn what_does_not_lie_in_a_row_is_launched_by_itself() {
        let expr = Arc::new(Expr::binary(Binary::Add, DType::F32).unwrap());
        let plain = row_major(DType::F32, &[6, 8]);
        let turned = view(DType::F32, Layout::strided(&[6, 8], &[1, 6], 0).unwrap());
        let inputs = [plain, plain, turned, plain, plain, plain];
        let plan: Plan = map(&expr, &inputs, &[plain; 3], &LIMITS).unwrap();
        let operands: Vec<usize> = plan
            .dispatches
            .iter()
            .map(|dispatch| dispatch.operands.len())
            .collect();
        assert_eq!(operands, [3, 6]);
    }
}
