//! The way home for objects that are freed away from their owner: any thread pushes, the owner takes all.

#![expect(unsafe_code, reason = "passes nodes from thread to thread")]

use std::ops::{Deref, DerefMut};
use std::ptr;

use crate::sync::{AtomicPtr, Ordering, UnsafeCell};

/// What a push orders: everything the pusher did with the node comes before what the taker does with it.
/// And, in one order with other sequentially consistent accesses, who pushes and then looks at a flag, and
/// who sets the flag and then takes, cannot both miss the other.
const PUSH: Ordering = if cfg!(planted) {
    Ordering::Relaxed
} else {
    Ordering::SeqCst
};

/// A value with the link by which a [`FreeQueue`] strings it; so a push allocates nothing.
#[derive(Debug)]
pub(crate) struct Node<T> {
    // Touched only by who owns the node: its pusher before the push, its taker after.
    next: UnsafeCell<*mut Node<T>>,
    value: T,
}

// SAFETY: `next` is a pointer that only the node's owner uses, and outside a queue it means nothing; so a
// node may go where its value may.
unsafe impl<T: Send> Send for Node<T> {}
// SAFETY: a shared reference to a node reaches only its value.
unsafe impl<T: Sync> Sync for Node<T> {}

impl<T> Node<T> {
    /// A node that is in no queue.
    pub(crate) fn new(value: T) -> Box<Self> {
        Box::new(Node {
            next: UnsafeCell::new(ptr::null_mut()),
            value,
        })
    }
}

impl<T> Deref for Node<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Node<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// A lock-free queue of owned nodes: many push, one (or more) take everything at once.
///
/// Nothing is ever taken singly, so the exchange of the head cannot confuse an old node with a new one at
/// the same address. What is in it when it is dropped is dropped.
#[derive(Debug)]
pub(crate) struct FreeQueue<T> {
    // Null, or a node from `Box::into_raw` that the queue owns, as it owns all that follow by `next`.
    head: AtomicPtr<Node<T>>,
}

// SAFETY: the queue owns its nodes and only hands them over; it never shares a value.
unsafe impl<T: Send> Send for FreeQueue<T> {}
// SAFETY: as above: what goes through a shared queue is moved from one thread to another.
unsafe impl<T: Send> Sync for FreeQueue<T> {}

impl<T> FreeQueue<T> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        FreeQueue {
            head: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Gives a node away. Never blocks, never allocates.
    #[inline]
    pub(crate) fn push(&self, node: Box<Node<T>>) {
        let node = Box::into_raw(node);
        // Relaxed: nothing is read through `head` here.
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: `node` came from a box and is not in the queue yet, so it is alive and only ours.
            unsafe { (*node).next.with_mut(|next| *next = head) };
            match self
                .head
                .compare_exchange_weak(head, node, PUSH, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all that is there now, the newest first.
    #[inline]
    pub(crate) fn take_all(&self) -> Taken<T> {
        // A look first: an owner asks often, and an empty queue should not cost it the cache line.
        // It is in one order with the pushes (see PUSH).
        let head = match self.head.load(Ordering::SeqCst).is_null() {
            true => ptr::null_mut(),
            // Acquire pairs with every push of the chain: each later exchange continues the earlier one's.
            false => self.head.swap(ptr::null_mut(), Ordering::Acquire),
        };
        Taken { head }
    }

    /// Whether nothing was there a moment ago.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }
}

impl<T> Drop for FreeQueue<T> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

/// What [`FreeQueue::take_all`] took; what is not iterated is dropped.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    // As in the queue, but owned by this iterator alone.
    head: *mut Node<T>,
}

impl<T> Iterator for Taken<T> {
    type Item = Box<Node<T>>;

    #[inline]
    fn next(&mut self) -> Option<Box<Node<T>>> {
        // Nothing is left here until the link is read, so that a panic in between leaves nothing to drop twice.
        let head = std::mem::take(&mut self.head);
        if head.is_null() {
            return None;
        }
        // SAFETY: the chain is ours alone since the swap; each of its nodes came from `Box::into_raw` and is
        // made a box once, since `head` moves on.
        let node = unsafe { Box::from_raw(head) };
        // SAFETY: we own the node, so nobody else touches its link.
        self.head = node.next.with(|next| unsafe { *next });
        Some(node)
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn takes_all_the_newest_first() {
        let queue = FreeQueue::new();
        assert!(queue.is_empty());
        for value in 0..3 {
            queue.push(Node::new(value));
        }
        assert!(!queue.is_empty());
        let taken: Vec<i32> = queue.take_all().map(|node| **node).collect();
        assert_eq!(taken, [2, 1, 0]);
        assert!(queue.is_empty());
        assert!(queue.take_all().next().is_none());
    }

    #[test]
    fn a_taken_node_can_be_changed_and_pushed_again() {
        let queue = FreeQueue::new();
        queue.push(Node::new(1));
        for _ in 0..5 {
            for mut node in queue.take_all() {
                **node *= 2;
                queue.push(node);
            }
        }
        let taken: Vec<i32> = queue.take_all().map(|node| **node).collect();
        assert_eq!(taken, [32]);
    }

    #[test]
    fn what_is_left_is_dropped() {
        let owned = Arc::new(());
        let queue = FreeQueue::new();
        for _ in 0..4 {
            queue.push(Node::new(owned.clone()));
        }
        let mut taken = queue.take_all();
        drop(taken.next());
        queue.push(Node::new(owned.clone()));
        assert_eq!(Arc::strong_count(&owned), 5);
        drop(taken);
        assert_eq!(Arc::strong_count(&owned), 2);
        drop(queue);
        assert_eq!(Arc::strong_count(&owned), 1);
    }

    #[test]
    fn nothing_is_lost_or_doubled_while_threads_push_and_take() {
        const PUSHERS: usize = 6;
        const EACH: usize = 5_000;
        let queue = FreeQueue::new();
        let mut seen = vec![0_u8; PUSHERS * EACH];
        std::thread::scope(|scope| {
            for pusher in 0..PUSHERS {
                let queue = &queue;
                scope.spawn(move || {
                    for value in 0..EACH {
                        queue.push(Node::new(pusher * EACH + value));
                    }
                });
            }
            let mut taken = 0;
            while taken < PUSHERS * EACH {
                for node in queue.take_all() {
                    seen[**node] += 1;
                    taken += 1;
                }
                std::thread::yield_now();
            }
        });
        assert!(seen.iter().all(|&times| times == 1));
        assert!(queue.is_empty());
    }
}
