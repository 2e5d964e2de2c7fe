//! Properties and raw memory.

#![expect(unsafe_code, reason = "gives memory back to the device")]

use streampool_device::{DeviceKind, Error, Memory, Space};

use crate::fixture::Fixture;
use crate::rng::Rng;

fn give_back(fixture: &Fixture, memory: Memory) {
    // SAFETY: every caller allocated it from this device, gives it up here, and named it in no command.
    unsafe { fixture.device().free(memory) };
}

/// The properties are sensible, and the same at every call.
pub fn properties_are_sensible(fixture: &Fixture) {
    let properties = fixture.device().properties();
    assert!(!properties.name.is_empty() && !properties.hardware.is_empty());
    assert!(properties.compute_units > 0 && properties.memory_capacity > 0);
    assert!(properties.alignment.is_power_of_two());
    assert_eq!(properties, &fixture.device().properties().clone());
    if let Some(other) = fixture.other() {
        assert_ne!(
            properties.name,
            other.properties().name,
            "names tell devices apart"
        );
    }
}

/// Quirks are named once each, and caches have names.
pub fn quirks_and_caches_are_listed(fixture: &Fixture) {
    let mut quirks = fixture.device().quirks();
    let listed = quirks.len();
    quirks.sort_unstable();
    quirks.dedup();
    assert_eq!(quirks.len(), listed);
    assert!(
        fixture
            .device()
            .caches()
            .iter()
            .all(|cache| !cache.name.is_empty())
    );
}

/// Every allocation begins at a multiple of the alignment and is as long as asked.
pub fn allocations_are_aligned(fixture: &Fixture) {
    let properties = fixture.device().properties();
    let mut rng = Rng::new(1);
    for space in [Space::Device, Space::Staging] {
        let sizes = [1, 2, 63, 64, 65, 4095, 4096, 4097, 1 << 20];
        for bytes in sizes
            .into_iter()
            .chain((0..50).map(|_| 1 + rng.below(10_000)))
        {
            let memory = fixture
                .device()
                .allocate(bytes, space)
                .expect("there is memory");
            assert!(memory.bytes >= bytes, "{} of {bytes} bytes", memory.bytes);
            assert_eq!(memory.space, space);
            if properties.kind != DeviceKind::Metal {
                assert_eq!(
                    memory.handle % properties.alignment as u64,
                    0,
                    "{bytes} bytes"
                );
            }
            give_back(fixture, memory);
        }
    }
}

/// Allocations that live at the same time do not overlap.
pub fn allocations_are_disjoint(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(2);
    let spans: Vec<_> = (0..100)
        .map(|_| fixture.span(1 + rng.below(3000)))
        .collect();
    for (number, &span) in spans.iter().enumerate() {
        lane.upload(span, &vec![number as u8; span.bytes])
            .expect("it fits");
    }
    let landings: Vec<_> = spans
        .iter()
        .map(|&span| lane.download(span).expect("the sizes agree"))
        .collect();
    lane.sync();
    for (number, landing) in landings.iter().enumerate() {
        assert!(
            landing
                .read::<u8>()
                .iter()
                .all(|&byte| byte == number as u8)
        );
    }
}

/// Both spaces can be copied to and from, and computed on from one to the other.
pub fn both_spaces_hold_data(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let sent: Vec<u8> = (0..=255).collect();
    for space in [Space::Device, Space::Staging] {
        let span = fixture.span_in(sent.len(), space);
        lane.upload(span, &sent).expect("it fits");
        let landing = lane.download(span).expect("the sizes agree");
        lane.sync();
        assert_eq!(landing.read::<u8>(), sent);
    }
}

/// Zero bytes is an error.
pub fn zero_bytes_are_refused(fixture: &Fixture) {
    let before = fixture.device().memory_use();
    for space in [Space::Device, Space::Staging] {
        match fixture.device().allocate(0, space) {
            Err(Error::Invalid { .. }) => {}
            other => panic!("expected Invalid, got {other:?}"),
        }
    }
    assert_eq!(fixture.device().memory_use(), before);
}

/// The memory in use counts what is allocated and not yet freed.
pub fn memory_use_counts_allocations(fixture: &Fixture) {
    let before = fixture.device().memory_use();
    let one = fixture
        .device()
        .allocate(1000, Space::Device)
        .expect("there is memory");
    let with_one = fixture.device().memory_use();
    assert_eq!(with_one.allocations, before.allocations + 1);
    assert!(with_one.in_use >= before.in_use + 1000);
    let two = fixture
        .device()
        .allocate(5000, Space::Device)
        .expect("there is memory");
    let with_two = fixture.device().memory_use();
    assert_eq!(with_two.allocations, before.allocations + 2);
    assert!(with_two.in_use >= with_one.in_use + 5000);
    give_back(fixture, one);
    assert_eq!(
        fixture.device().memory_use().allocations,
        before.allocations + 1
    );
    give_back(fixture, two);
    assert_eq!(fixture.device().memory_use(), before);
}

/// Asking for too much fails with the figures, and nothing changed.
pub fn out_of_memory_has_the_figures(fixture: &Fixture) {
    let held = fixture
        .device()
        .allocate(4096, Space::Device)
        .expect("there is memory");
    let before = fixture.device().memory_use();
    let properties = fixture.device().properties();
    let all = properties.memory_capacity;
    for asked in [
        all.saturating_add(1),
        all,
        usize::MAX / 2 + 1,
        usize::MAX - 1,
        usize::MAX,
    ] {
        match fixture.device().allocate(asked, Space::Device) {
            Err(Error::OutOfMemory {
                device,
                requested,
                in_use,
                capacity,
            }) => {
                assert_eq!(device, properties.name);
                assert!(requested >= asked, "{requested} for {asked}");
                assert_eq!((in_use, capacity), (before.in_use, all));
            }
            other => panic!("expected OutOfMemory for {asked} bytes, got {other:?}"),
        }
        assert_eq!(fixture.device().memory_use(), before);
    }
    let more = fixture
        .device()
        .allocate(4096, Space::Device)
        .expect("small ones still fit");
    give_back(fixture, more);
    give_back(fixture, held);
}

/// Allocating and freeing from sixteen threads is counted exactly.
pub fn sixteen_threads_allocate_and_free(fixture: &Fixture) {
    let before = fixture.device().memory_use();
    let left: Vec<Memory> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|seed| scope.spawn(move || churn(fixture, seed)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no thread panics"))
            .collect()
    });
    let mut handles: Vec<u64> = left.iter().map(|memory| memory.handle).collect();
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(
        handles.len(),
        left.len(),
        "each allocation has its own handle"
    );
    assert_eq!(
        fixture.device().memory_use().allocations,
        before.allocations + left.len()
    );
    for memory in left {
        give_back(fixture, memory);
    }
    assert_eq!(fixture.device().memory_use(), before);
}

fn churn(fixture: &Fixture, seed: u64) -> Vec<Memory> {
    let mut rng = Rng::new(seed);
    let mut held = Vec::new();
    for _ in 0..300 {
        if held.len() > 8 || (!held.is_empty() && rng.chance(2)) {
            give_back(fixture, held.swap_remove(rng.below(held.len())));
        } else {
            let space = rng.pick(&[Space::Device, Space::Staging]);
            let bytes = 1 + rng.below(20_000);
            held.push(
                fixture
                    .device()
                    .allocate(bytes, space)
                    .expect("there is memory"),
            );
        }
    }
    held
}
