//! A small Objective-C runtime, as much of one as `objc2` and a swizzling library ask for.
//!
//! Classes, methods, selectors and reference counts are plain Rust here; `symbols.rs` gives them the C names that a
//! linker looks for. Methods are looked up in the class and then in its superclasses under read locks, so replacing
//! an implementation (`method_setImplementation`, `class_replaceMethod`) is safe while other threads send messages,
//! and holds from the next message on. Freed objects are kept for a while as corpses, so that what is sent to them
//! is seen and named.
//!
//! A test defines a class with [`ClassBuilder`](crate::ClassBuilder), its methods with [`method!`](crate::method),
//! and its objects' state as a [`Body`](crate::Body), which is shared: a body lives on while a method runs on it,
//! even where the object is freed meanwhile.
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use streampool_metal_sim::{Body, ClassBuilder, Id, method, send};
//!
//! struct Counter(AtomicUsize);
//! impl Body for Counter {}
//!
//! let class = ClassBuilder::new("Counter", "NSObject");
//! method!(class, "add:", |this: Counter, more: usize| -> usize { this.0.fetch_add(more, Ordering::SeqCst) + more });
//! let class = class.register();
//!
//! let counter: Id = class.instance(Counter(AtomicUsize::new(0)));
//! let total: usize = send!(counter, "add:", 3usize);
//! assert_eq!(total, 3);
//! counter.release();
//! ```

mod autorelease;
mod block;
mod builder;
mod class;
mod encode;
mod handles;
mod layout;
mod message;
mod object;
mod protocol;
mod selector;
mod symbols;

pub use block::Block;
pub use builder::ClassBuilder;
pub use encode::{Encode, Implementation};
pub use handles::Strong;
pub use layout::{Body, Class, Id, Method, This};
pub use message::{Arguments, Message};
pub use protocol::define_protocol;
pub use selector::Selector;

pub(crate) use autorelease::{Pool, autorelease};
pub(crate) use block::{classes, live as live_blocks};
pub(crate) use layout::Definition;
