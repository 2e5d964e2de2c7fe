//! What a method does to an encoder, from the names that Apple's public headers give and from what it returns. Classes are
//! not known by name.

use std::ffi::CStr;

use super::guarded::{Purpose, What};

/// What the objects of a class are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Makes queues.
    Device,
    /// Makes command buffers.
    Queue,
    /// Makes encoders, and is guarded.
    CommandBuffer,
    /// Is guarded.
    Encoder,
}

impl Role {
    /// What it is for the guard, if it is guarded.
    pub fn guarded(self) -> Option<What> {
        match self {
            Role::Device | Role::Queue => None,
            Role::CommandBuffer => Some(What::CommandBuffer),
            Role::Encoder => Some(What::Encoder),
        }
    }
}

/// What a wrapped method does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Returns an object to begin with, of a class that may have to be wrapped.
    Create(Role),
    /// Returns an encoder that may have been in use before.
    Show,
    /// Makes a guarded object out of memory.
    Begin,
    /// Is called on a guarded object.
    Use(Purpose),
    /// Gives a guarded object's memory back.
    Destroy,
}

impl Kind {
    /// What the object is for that it returns and that may be new.
    pub fn returns(self) -> Option<Role> {
        match self {
            Kind::Create(role) => Some(role),
            Kind::Show => Some(Role::Encoder),
            _ => None,
        }
    }
}

/// Methods of every object that concern its memory or its class, and are called at any time.
const OF_ALL_OBJECTS: &[&str] = &[
    "retain",
    "release",
    "autorelease",
    "retainCount",
    "retainWeakReference",
    "allowsWeakReference",
    "_tryRetain",
    "_isDeallocating",
    "zone",
    "self",
    "class",
    "superclass",
    "hash",
    "isEqual:",
    "isProxy",
    "isKindOfClass:",
    "isMemberOfClass:",
    "conformsToProtocol:",
    "respondsToSelector:",
    "methodForSelector:",
    "methodSignatureForSelector:",
    "forwardingTargetForSelector:",
    "forwardInvocation:",
    "description",
    "debugDescription",
];

/// Methods that may be called after the end although they return nothing: they name the encoder.
const AFTER_THE_END: &[&str] = &["setLabel:"];

/// What is called on a command buffer, beside what makes encoders, and has to come before its commit. What only asks or waits is not
/// guarded: a call that waits for the GPU must keep nobody out.
const OF_COMMAND_BUFFERS: &[(&str, Purpose)] = &[
    ("commit", Purpose::End),
    ("enqueue", Purpose::Encode),
    ("addScheduledHandler:", Purpose::Encode),
    ("addCompletedHandler:", Purpose::Encode),
    ("presentDrawable:", Purpose::Encode),
    ("presentDrawable:atTime:", Purpose::Encode),
    ("presentDrawable:afterMinimumDuration:", Purpose::Encode),
    ("encodeSignalEvent:value:", Purpose::Apart),
    ("encodeWaitForEvent:value:", Purpose::Apart),
];

/// The message that waits until a handler is to be called that this method adds, if it adds one.
pub fn wait_for_handler(selector: &str) -> Option<&'static CStr> {
    match selector {
        "addScheduledHandler:" => Some(c"waitUntilScheduled"),
        "addCompletedHandler:" => Some(c"waitUntilCompleted"),
        _ => None,
    }
}

/// The letters before the type of a value that say how it is passed.
const QUALIFIERS: &[char] = &['r', 'n', 'N', 'o', 'O', 'R', 'V', 'A'];

/// What a method of a class with this role does, if it is to be wrapped. `types` is its type encoding, which begins with what
/// it returns; `public` says whether one of Metal's public protocols has it.
pub fn kind(role: Role, selector: &str, types: &str, public: bool) -> Option<Kind> {
    let returns = types.trim_start_matches(QUALIFIERS).chars().next();
    let returns_object = returns == Some('@');
    let created = match role {
        Role::Device => selector
            .starts_with("newCommandQueue")
            .then_some(Role::Queue),
        Role::Queue => selector
            .starts_with("commandBuffer")
            .then_some(Role::CommandBuffer),
        Role::CommandBuffer | Role::Encoder => {
            let makes_one = selector.contains("ommandEncoder") && !begins(selector);
            makes_one.then_some(Role::Encoder)
        }
    };
    if let (Some(created), true) = (created, returns_object) {
        // What Metal does not publish may ask for the encoder that there is: `currentCommandEncoder`. A question has no arguments.
        let may_ask = created == Role::Encoder && !public && !selector.contains(':');
        return Some(if may_ask {
            Kind::Show
        } else {
            Kind::Create(created)
        });
    }
    if role.guarded().is_none() || selector.starts_with('.') || OF_ALL_OBJECTS.contains(&selector) {
        return None;
    }
    Some(match selector {
        "dealloc" => Kind::Destroy,
        _ if begins(selector) => Kind::Begin,
        _ if role == Role::CommandBuffer => {
            let known = OF_COMMAND_BUFFERS
                .iter()
                .find(|(name, _)| *name == selector)?;
            Kind::Use(known.1)
        }
        "endEncoding" => Kind::Use(Purpose::End),
        _ if public && returns == Some('v') && !AFTER_THE_END.contains(&selector) => {
            Kind::Use(Purpose::Encode)
        }
        _ => Kind::Use(Purpose::Other),
    })
}

/// Whether a name is one of the `init` family: `initWithDevice:`, not `initialize`.
fn begins(selector: &str) -> bool {
    selector
        .strip_prefix("init")
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_lowercase()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn creation_goes_from_role_to_role() {
        let create = |role, selector| kind(role, selector, "@16@0:8", true);
        assert_eq!(
            create(Role::Device, "newCommandQueue"),
            Some(Kind::Create(Role::Queue))
        );
        assert_eq!(create(Role::Device, "newBufferWithLength:options:"), None);
        assert_eq!(
            create(Role::Queue, "commandBufferWithUnretainedReferences"),
            Some(Kind::Create(Role::CommandBuffer))
        );
        for role in [Role::CommandBuffer, Role::Encoder] {
            let selector = "renderCommandEncoderWithDescriptor:";
            assert_eq!(create(role, selector), Some(Kind::Create(Role::Encoder)));
        }
        for role in [Role::CommandBuffer, Role::Encoder] {
            let private = |selector| kind(role, selector, "@16@0:8", false);
            assert_eq!(private("currentCommandEncoder"), Some(Kind::Show));
            assert_eq!(
                private("computeCommandEncoderWithCapacity:"),
                Some(Kind::Create(Role::Encoder))
            );
        }
        assert_eq!(
            kind(
                Role::CommandBuffer,
                "endCurrentCommandEncoder",
                "v16@0:8",
                false
            ),
            None
        );
    }

    #[test]
    fn of_a_command_buffer_only_what_changes_it_is_guarded() {
        let commands = |selector, types| kind(Role::CommandBuffer, selector, types, true);
        let used = |purpose| Some(Kind::Use(purpose));
        assert_eq!(commands("commit", "v16@0:8"), used(Purpose::End));
        let handler = commands("addCompletedHandler:", "v24@0:8@?16");
        assert_eq!(handler, used(Purpose::Encode));
        let signal = commands("encodeSignalEvent:value:", "v32@0:8@16Q24");
        assert_eq!(signal, used(Purpose::Apart));
        assert_eq!(commands("dealloc", "v16@0:8"), Some(Kind::Destroy));
        assert_eq!(commands("initWithQueue:", "@24@0:8@16"), Some(Kind::Begin));
        for waits_or_asks in ["waitUntilCompleted", "status", "label", "setLabel:"] {
            assert_eq!(commands(waits_or_asks, "v16@0:8"), None);
        }
        assert_eq!(kind(Role::Queue, "dealloc", "v16@0:8", false), None);
    }

    #[test]
    fn what_encodes_is_told_from_what_only_asks() {
        let encoder = |selector, types, public| kind(Role::Encoder, selector, types, public);
        let used = |purpose| Some(Kind::Use(purpose));
        assert_eq!(
            encoder("setBuffer:offset:atIndex:", "v40@0:8", true),
            used(Purpose::Encode)
        );
        assert_eq!(
            encoder("setBuffer:offset:atIndex:", "Vv40@0:8", true),
            used(Purpose::Encode)
        );
        assert_eq!(encoder("endEncoding", "v16@0:8", true), used(Purpose::End));
        assert_eq!(encoder("label", "@16@0:8", true), used(Purpose::Other));
        assert_eq!(encoder("setLabel:", "v24@0:8", true), used(Purpose::Other));
        assert_eq!(
            encoder("finishLater", "v16@0:8", false),
            used(Purpose::Other)
        );
        assert_eq!(encoder("dealloc", "v16@0:8", false), Some(Kind::Destroy));
    }

    #[test]
    fn beginnings_are_known_by_their_family() {
        let begin = |selector| kind(Role::Encoder, selector, "@24@0:8@16", false);
        assert_eq!(begin("init"), Some(Kind::Begin));
        assert_eq!(begin("initWithCommandEncoder:"), Some(Kind::Begin));
        assert_eq!(begin("initialize"), Some(Kind::Use(Purpose::Other)));
    }

    #[test]
    fn memory_is_left_alone() {
        for selector in [
            "retain",
            "_tryRetain",
            ".cxx_destruct",
            "respondsToSelector:",
        ] {
            assert_eq!(kind(Role::Encoder, selector, "v16@0:8", false), None);
        }
    }
}
