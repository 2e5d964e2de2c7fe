//! `MTLComputeCommandEncoder`.

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use super::buffer::Buffer;
use super::committed::CommandBuffer;
use super::dispatch::{Bindings, Dispatch, Slot};
use super::encoder::Session;
use super::hazards::Access;
use super::pass::{Commands, Pass};
use super::pipeline::Pipeline;
use super::values::Size;
use crate::foundation::NSOBJECT;
use crate::lock::lock;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id, autorelease};

pub(super) static COMPUTE_ENCODER: Class =
    Class::fixed(c"_Imitation_ComputeCommandEncoder", Some(&NSOBJECT), define);

const LAST_INDEX: usize = 30;
const MOST_BYTES: usize = 4096;

struct ComputeEncoder {
    session: Session,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    concurrent: bool,
    pipeline: Option<Arc<Pipeline>>,
    bindings: Bindings,
    /// Dispatches that may run in any order, and after them the next that may.
    groups: Vec<Vec<Dispatch>>,
    accesses: Vec<Access>,
}

impl Body for ComputeEncoder {
    fn freed(&self) {
        self.session.freed();
    }
}

/// An encoder that the innermost pool holds.
pub(super) fn new(owner: &Arc<CommandBuffer>, concurrent: bool) -> Id {
    let Some(session) = Session::begin(owner) else {
        return Id::NULL;
    };
    let state = Mutex::new(State {
        concurrent,
        ..State::default()
    });
    autorelease(COMPUTE_ENCODER.instance(ComputeEncoder { session, state }))
}

impl ComputeEncoder {
    fn set_buffer(&self, buffer: Id, offset: usize, index: usize) {
        let Some(_turn) = self.session.enter("setBuffer") else {
            return;
        };
        if !is_index(index) {
            return;
        }
        if buffer.is_null() {
            lock(&self.state).bindings.slots.remove(&index);
            return;
        }
        let Some(buffer) = buffer.body_if::<Buffer>() else {
            return violation(
                Rule::Argument,
                "setBuffer of what is no buffer that lives".to_owned(),
            );
        };
        if offset >= buffer.length {
            return violation(
                Rule::BindingOffset,
                format!("offset {offset} into {}", buffer.name()),
            );
        }
        self.session.owner.names(Arc::clone(&buffer));
        lock(&self.state)
            .bindings
            .slots
            .insert(index, Slot::Buffer(buffer, offset));
    }

    fn set_bytes(&self, bytes: *const c_void, length: usize, index: usize) {
        let Some(_turn) = self.session.enter("setBytes") else {
            return;
        };
        if !is_index(index) {
            return;
        }
        if !(1..=MOST_BYTES).contains(&length) {
            return violation(
                Rule::BytesLength,
                format!("setBytes of {length} bytes; 1 to {MOST_BYTES} are allowed"),
            );
        }
        let mut words = vec![0u128; length.div_ceil(size_of::<u128>())];
        // SAFETY: the method takes so many bytes, and the words have room for them.
        unsafe {
            words
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.cast(), length)
        };
        lock(&self.state)
            .bindings
            .slots
            .insert(index, Slot::Bytes(words.into(), length));
    }

    fn set_length(&self, length: usize, index: usize) {
        let Some(_turn) = self.session.enter("setThreadgroupMemoryLength") else {
            return;
        };
        if !is_index(index) {
            return;
        }
        if !length.is_multiple_of(16) {
            return violation(
                Rule::ThreadgroupMemory,
                format!("{length} bytes are no multiple of 16"),
            );
        }
        lock(&self.state).bindings.lengths.insert(index, length);
    }

    fn use_resource(&self, resource: Id, usage: usize) {
        let Some(_turn) = self.session.enter("useResource") else {
            return;
        };
        let Some(buffer) = resource.body_if::<Buffer>() else {
            return violation(
                Rule::Argument,
                "useResource of what is no buffer that lives".to_owned(),
            );
        };
        lock(&self.state)
            .accesses
            .extend(Access::of(&buffer, usage & 2 != 0));
        self.session.owner.names(buffer);
    }

    fn dispatch(&self, groups: Size, threads: Size) {
        let Some(_turn) = self.session.enter("a dispatch") else {
            return;
        };
        let mut state = lock(&self.state);
        let Some(pipeline) = state.pipeline.clone() else {
            return violation(
                Rule::PipelineMissing,
                "a dispatch without a pipeline".to_owned(),
            );
        };
        match Dispatch::new(pipeline, &state.bindings, groups, threads) {
            Ok(dispatch) => {
                let is_concurrent = state.concurrent;
                state.accesses.extend(dispatch.accesses());
                match state.groups.last_mut() {
                    Some(group) if is_concurrent => group.push(dispatch),
                    _ => state.groups.push(vec![dispatch]),
                }
            }
            Err((rule, what)) => violation(rule, what),
        }
    }
}

fn is_index(index: usize) -> bool {
    if index > LAST_INDEX {
        violation(
            Rule::BindingIndex,
            format!("index {index}; the last is {LAST_INDEX}"),
        );
    }
    index <= LAST_INDEX
}

fn define(class: &Definition) {
    method!(
        class,
        "setComputePipelineState:",
        |this: ComputeEncoder, pipeline: Id| {
            let Some(_turn) = this.session.enter("setComputePipelineState") else {
                return;
            };
            let Some(pipeline) = pipeline.body_if::<Pipeline>() else {
                return violation(
                    Rule::Argument,
                    "setComputePipelineState of what is no pipeline that lives".to_owned(),
                );
            };
            this.session.owner.names(Arc::clone(&pipeline));
            lock(&this.state).pipeline = Some(pipeline);
        }
    );
    method!(
        class,
        "setBuffer:offset:atIndex:",
        |this: ComputeEncoder, buffer: Id, offset: usize, index: usize| {
            this.set_buffer(buffer, offset, index);
        }
    );
    method!(
        class,
        "setBytes:length:atIndex:",
        |this: ComputeEncoder, bytes: *mut c_void, length: usize, index: usize| {
            this.set_bytes(bytes, length, index);
        }
    );
    method!(
        class,
        "setThreadgroupMemoryLength:atIndex:",
        |this: ComputeEncoder, length: usize, index: usize| {
            this.set_length(length, index);
        }
    );
    method!(
        class,
        "useResource:usage:",
        |this: ComputeEncoder, resource: Id, usage: usize| {
            this.use_resource(resource, usage);
        }
    );
    method!(
        class,
        "memoryBarrierWithScope:",
        |this: ComputeEncoder, _scope: usize| {
            if let Some(_turn) = this.session.enter("memoryBarrierWithScope") {
                lock(&this.state).groups.push(Vec::new());
            }
        }
    );
    method!(
        class,
        "dispatchThreadgroups:threadsPerThreadgroup:",
        |this: ComputeEncoder, groups: Size, threads: Size| {
            this.dispatch(groups, threads);
        }
    );
    method!(class, "endEncoding", |this: ComputeEncoder| {
        this.session.end(|| {
            let State {
                groups, accesses, ..
            } = std::mem::take(&mut *lock(&this.state));
            Pass {
                commands: Commands::Compute(groups),
                accesses,
                place: None,
            }
        });
    });
    method!(class, "setLabel:", |_this: ComputeEncoder, _label: Id| {});
}
