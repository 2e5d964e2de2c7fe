//! Every interleaving of the queue of freed objects. Built with `--cfg planted`, a push orders nothing, which
//! must be found.
#![cfg(loom)]
// With the bugs planted, only the tests that must find them are built.
#![cfg_attr(planted, allow(dead_code, unused_imports))]

#[allow(dead_code)]
#[path = "../src/free_queue.rs"]
mod free_queue;
#[allow(dead_code)]
mod loom_support;
#[allow(dead_code, unused_imports)]
#[path = "../src/sync.rs"]
mod sync;

use free_queue::{FreeQueue, Node};
use loom::sync::Arc;
use loom_support::{outcomes, outcomes_bounded};
use sync::UnsafeCell;

/// A block that its user writes before pushing it and its owner reads after taking it: loom reports the two
/// if the queue does not order them. It also reports an `Arc` that is never dropped: a lost node.
struct Block {
    content: UnsafeCell<u32>,
    _alive: Arc<()>,
}

/// Writes into a new block, and pushes it.
fn push(queue: &FreeQueue<Block>, content: u32) {
    let block = Node::new(Block {
        content: UnsafeCell::new(0),
        _alive: Arc::new(()),
    });
    // SAFETY: the block is ours until it is pushed.
    block.content.with_mut(|cell| unsafe { *cell = content });
    queue.push(block);
}

/// Takes all, and adds up what was written.
fn take(queue: &FreeQueue<Block>) -> u32 {
    // SAFETY: a taken block is ours.
    let read = |block: Box<Node<Block>>| block.content.with(|cell| unsafe { *cell });
    queue.take_all().map(read).sum()
}

/// The owner takes while two threads push: it gets each block once, with what was written into it.
#[test]
#[cfg_attr(planted, should_panic(expected = "Causality violation"))]
fn every_block_comes_home_with_its_content() {
    let taken_early = outcomes_bounded(|turns| {
        let queue = Arc::new(FreeQueue::new());
        let pushers = [1, 10].map(|content| {
            let queue = queue.clone();
            turns.spawn(move || push(&queue, content))
        });
        turns.next();
        let early = take(&queue);
        for pusher in pushers {
            pusher.join().unwrap();
        }
        assert_eq!(early + take(&queue), 11);
        assert!(queue.is_empty());
        early
    });
    assert_eq!(Vec::from_iter(taken_early), [0, 1, 10, 11]);
}

/// A block that comes home and goes out again, while another is being pushed: the exchange of the head must
/// not take the old node for the new one.
#[cfg(not(planted))]
#[test]
fn a_block_pushed_again_is_not_mistaken_for_its_former_self() {
    let taken_early = outcomes(|turns| {
        let queue = Arc::new(FreeQueue::new());
        push(&queue, 1);
        let other = queue.clone();
        let pusher = turns.spawn(move || push(&other, 10));
        turns.next();
        let blocks: Vec<_> = queue.take_all().collect();
        let early = blocks.len();
        turns.next();
        for block in blocks {
            queue.push(block);
        }
        pusher.join().unwrap();
        assert_eq!(take(&queue), 11);
        early
    });
    assert_eq!(Vec::from_iter(taken_early), [1, 2]);
}

/// Two takers share what is there; none of it goes to both.
#[cfg(not(planted))]
#[test]
fn two_takers_get_each_block_once() {
    let shares = outcomes(|turns| {
        let queue = Arc::new(FreeQueue::new());
        push(&queue, 1);
        let other = queue.clone();
        let taker = turns.spawn(move || take(&other));
        turns.next();
        push(&queue, 10);
        turns.next();
        let mine = take(&queue);
        let others = taker.join().unwrap();
        assert_eq!(mine + others, 11);
        others
    });
    assert_eq!(Vec::from_iter(shares), [0, 1, 11]);
}

/// What nobody took is dropped with the queue, by whichever thread holds it last.
#[cfg(not(planted))]
#[test]
fn the_last_holder_drops_what_is_left() {
    outcomes(|turns| {
        let queue = Arc::new(FreeQueue::new());
        let other = queue.clone();
        let pusher = turns.spawn(move || push(&other, 1));
        turns.next();
        drop(queue);
        pusher.join().unwrap();
    });
}
