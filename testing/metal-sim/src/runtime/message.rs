//! Sending messages from this crate and from tests that do without `objc2`.

use std::ffi::CString;
use std::mem::transmute;

use super::encode::Encode;
use super::layout::Id;
use super::selector::Selector;

/// A message that is about to be sent; see [`send!`](crate::send).
pub struct Message {
    receiver: Id,
    selector: Selector,
}

/// The arguments of a message.
pub trait Arguments {
    /// Calls the implementation with them.
    fn call<R: Encode>(self, message: &Message) -> R;
}

impl Message {
    /// To an object.
    ///
    /// # Panics
    ///
    /// Where the name of the selector holds a zero byte.
    pub fn new(receiver: Id, selector: &str) -> Message {
        let name = CString::new(selector).expect("a name without a zero byte");
        Message {
            receiver,
            selector: Selector::of(&name),
        }
    }

    /// Sends it.
    pub fn send<R: Encode>(&self, arguments: impl Arguments) -> R {
        arguments.call(self)
    }
}

macro_rules! arguments {
    ($($argument:ident)*) => {
        impl<$($argument: Encode),*> Arguments for ($($argument,)*) {
            #[allow(non_snake_case)]
            fn call<R: Encode>(self, message: &Message) -> R {
                let ($($argument,)*) = self;
                let implementation = message.receiver.lookup(message.selector);
                type Function<R, $($argument),*> = extern "C-unwind" fn(Id, Selector, $($argument),*) -> R;
                // SAFETY: a method of that name takes these arguments, as the sender vouches.
                let function: Function<R, $($argument),*> = unsafe { transmute(implementation) };
                function(message.receiver, message.selector, $($argument),*)
            }
        }
    };
}

arguments!();
arguments!(A);
arguments!(A B);
arguments!(A B C);
