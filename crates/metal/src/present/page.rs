//! The page: the one command buffer of a queue that is written to, and the one encoder that is open on it.

use std::sync::Arc;

use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLCommandBuffer, MTLComputeCommandEncoder, MTLComputePipelineState};
use streampool_device::{HostSlice, OpKind, Tick};

use super::commands::Commands;
use super::cost::Cost;
use super::encoders::Encoders;
use super::errors::Refused;
use super::objects::{BlitEncoder, Command, ComputeEncoder, PipelineState};
use super::own::Scratch;
use super::peer::Peer;
use super::staging::Block;

/// What is written to. There is never a second encoder: to make one means to end the other.
#[derive(Default)]
pub(crate) enum Page {
    /// Nothing was begun.
    #[default]
    Idle,
    /// A command buffer without an encoder.
    Buffer(Draft),
    /// Kernels are encoded.
    Compute(Draft, Compute),
    /// Copies are encoded.
    Blit(Draft, BlitEncoder),
}

/// A command buffer that is not sealed yet, and what goes with it.
pub(crate) struct Draft {
    pub command: Command,
    /// The last tick that belongs to it.
    pub last: Tick,
    /// The first of its commands that executes. Metal only says that a buffer failed, so this one is blamed.
    pub blame: Option<(Tick, OpKind)>,
    /// How many of its commands execute.
    pub commands: usize,
    /// About how many bytes wait for it.
    pub bytes: usize,
    /// What its commands cost the GPU.
    pub cost: Cost,
    pub held: Vec<Held>,
    pub waits: Vec<Wait>,
}

/// What a buffer waits for before it is committed: a tick of another lane.
pub(crate) struct Wait {
    pub lane: Arc<dyn Peer>,
    pub tick: Tick,
}

/// What has to stay until a buffer is over, and what is to be done then.
pub(crate) enum Held {
    /// Bytes on their way to the GPU, or long parameters.
    Block(#[expect(dead_code, reason = "kept alive, never read")] Block),
    /// Bytes on their way to the host, and where they go at last.
    Landing(Block, HostSlice),
    /// Memory that kernels work in.
    Scratch(#[expect(dead_code, reason = "kept alive, never read")] Arc<Scratch>),
}

/// What makes command buffers and encoders.
pub(crate) struct Maker<'a> {
    pub commands: &'a Commands,
    pub encoders: &'a Encoders,
}

/// An encoder of kernels, and the pipeline that is set on it.
pub(crate) struct Compute {
    encoder: ComputeEncoder,
    set: Option<PipelineState>,
}

impl Compute {
    pub fn encoder(&self) -> &ProtocolObject<dyn MTLComputeCommandEncoder> {
        &self.encoder
    }

    /// Sets the pipeline of the next dispatch, if it is another.
    pub fn set_pipeline(&mut self, state: &PipelineState) {
        let same = self.set.as_ref().is_some_and(|set| {
            std::ptr::eq::<ProtocolObject<dyn MTLComputePipelineState>>(&**set, &**state)
        });
        if !same {
            self.encoder.setComputePipelineState(state);
            self.set = Some(state.clone());
        }
    }
}

impl Page {
    /// The command buffer, made if there is none, with no encoder open.
    pub fn buffer(&mut self, maker: &Maker<'_>) -> Result<&mut Draft, Refused> {
        if !matches!(self, Page::Buffer(_)) {
            let draft = match self.close(maker) {
                Some(draft) => draft,
                None => Draft::new(maker)?,
            };
            *self = Page::Buffer(draft);
        }
        self.draft().ok_or(Refused("commandBuffer"))
    }

    /// The command buffer with an encoder of kernels.
    pub fn compute(&mut self, maker: &Maker<'_>) -> Result<(&mut Draft, &mut Compute), Refused> {
        const CALL: Refused = Refused("computeCommandEncoder");
        if !matches!(self, Page::Compute(..)) {
            let draft = self.buffer(maker)?;
            let made = maker
                .encoders
                .begin(|| draft.command.computeCommandEncoder());
            let encoder = made.ok_or(CALL)?;
            if let Page::Buffer(draft) = std::mem::take(self) {
                *self = Page::Compute(draft, Compute { encoder, set: None });
            }
        }
        match self {
            Page::Compute(draft, compute) => Ok((draft, compute)),
            _ => Err(CALL),
        }
    }

    /// The command buffer with an encoder of copies.
    pub fn blit(&mut self, maker: &Maker<'_>) -> Result<(&mut Draft, &BlitEncoder), Refused> {
        const CALL: Refused = Refused("blitCommandEncoder");
        if !matches!(self, Page::Blit(..)) {
            let draft = self.buffer(maker)?;
            let made = maker.encoders.begin(|| draft.command.blitCommandEncoder());
            let encoder = made.ok_or(CALL)?;
            if let Page::Buffer(draft) = std::mem::take(self) {
                *self = Page::Blit(draft, encoder);
            }
        }
        match self {
            Page::Blit(draft, encoder) => Ok((draft, encoder)),
            _ => Err(CALL),
        }
    }

    /// What was begun, if anything was.
    pub fn draft(&mut self) -> Option<&mut Draft> {
        match self {
            Page::Idle => None,
            Page::Buffer(draft) | Page::Compute(draft, _) | Page::Blit(draft, _) => Some(draft),
        }
    }

    /// Ends the encoder, and turns to an empty page.
    pub fn close(&mut self, maker: &Maker<'_>) -> Option<Draft> {
        match std::mem::take(self) {
            Page::Idle => None,
            Page::Buffer(draft) => Some(draft),
            Page::Compute(draft, compute) => {
                maker.encoders.end(compute.encoder);
                Some(draft)
            }
            Page::Blit(draft, encoder) => {
                maker.encoders.end(encoder);
                Some(draft)
            }
        }
    }
}

/// A page with so many commands, or so many bytes of the host that wait for it, is full.
const FULL: usize = 64;
const FULL_BYTES: usize = 32 << 20;

impl Draft {
    /// Whether nothing more is to be written on it.
    pub fn is_full(&self) -> bool {
        self.commands >= FULL || self.bytes >= FULL_BYTES || self.cost.is_too_much()
    }

    fn new(maker: &Maker<'_>) -> Result<Draft, Refused> {
        Ok(Draft {
            command: maker.commands.make()?,
            last: 0,
            blame: None,
            commands: 0,
            bytes: 0,
            cost: Cost::default(),
            held: Vec::new(),
            waits: Vec::new(),
        })
    }
}
