//! `MTLComputePipelineState`.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use streampool_emulated::metal;

use super::archive::Archive;
use super::descriptor::Descriptor;
use super::device::MOST_THREADS;
use super::library::Function;
use super::resource::{Resource, freed_in_flight};
use crate::foundation::{NSOBJECT, set_error};
use crate::lock::lock;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id};
use crate::settings::settings;

pub(super) static PIPELINE: Class =
    Class::fixed(c"_Imitation_ComputePipelineState", Some(&NSOBJECT), define);

/// `MTLPipelineOptionFailOnBinaryArchiveMiss`
const FAIL_ON_MISS: usize = 1 << 2;
const DOMAIN: &str = "MTLPipelineErrorDomain";

pub(super) struct Pipeline {
    pub function: metal::Function,
    uses: AtomicUsize,
}

impl Pipeline {
    pub fn most_threads(&self) -> usize {
        self.function
            .max_total_threads_per_threadgroup()
            .map_or(MOST_THREADS, |most| most as usize)
    }
}

impl Resource for Pipeline {
    fn uses(&self) -> &AtomicUsize {
        &self.uses
    }
}

impl Body for Pipeline {
    fn freed(&self) {
        freed_in_flight(self, || {
            format!("the pipeline of kernel {}", self.function.name())
        });
    }
}

pub(super) fn new(function: Id) -> Id {
    let Some(function) = function.body_if::<Function>() else {
        violation(
            Rule::Argument,
            "a pipeline of what is no function that lives".to_owned(),
        );
        return Id::NULL;
    };
    PIPELINE.instance(Pipeline {
        function: function.compiled.clone(),
        uses: AtomicUsize::new(0),
    })
}

pub(super) fn new_as_described(descriptor: Id, options: usize, error: *mut Id) -> Id {
    let described = descriptor.body_if::<Descriptor>();
    let Some((descriptor, function)) =
        described.and_then(|descriptor| Some((descriptor.function()?, descriptor)))
    else {
        let what = "a pipeline without a descriptor that has a function";
        violation(Rule::Argument, what.to_owned());
        return set_error(error, DOMAIN, 0, what);
    };
    let (function, descriptor) = (descriptor, function);
    let archives: Vec<Arc<Archive>> = lock(&descriptor.archives)
        .iter()
        .filter_map(|archive| archive.id().body_if())
        .collect();
    if options & FAIL_ON_MISS != 0 && !archives.iter().any(|archive| archive.has(&function)) {
        return set_error(error, DOMAIN, 0, "no binary archive has this function");
    }
    PIPELINE.instance(Pipeline {
        function: function.compiled.clone(),
        uses: AtomicUsize::new(0),
    })
}

fn define(class: &Definition) {
    method!(
        class,
        "maxTotalThreadsPerThreadgroup",
        |this: Pipeline| -> usize { this.most_threads() }
    );
    method!(class, "threadExecutionWidth", |_this: Pipeline| -> usize {
        settings().simdgroup
    });
    method!(
        class,
        "staticThreadgroupMemoryLength",
        |this: Pipeline| -> usize { this.function.static_threadgroup_bytes() }
    );
}
