//! Requests of one row.

use std::collections::VecDeque;

use streampool::batch::{BatchQueue, Request, Ticket};
use streampool::{Array, DType};

use crate::Result;

/// The input of a request: one row of so many numbers.
pub fn row(length: usize) -> Vec<Array> {
    vec![Array::zeros(DType::F32, &[1, length]).expect("a row is short")]
}

/// Sends `requests`, so many of them under way at a time, and calls `answered` after each answer.
pub fn send(
    queue: &BatchQueue,
    requests: impl IntoIterator<Item = Request>,
    under_way: usize,
    answered: impl Fn(),
) -> Result<()> {
    let mut tickets = VecDeque::new();
    let settle = |ticket: Option<Ticket>| -> Result<()> {
        ticket.map(Ticket::wait).transpose()?;
        answered();
        Ok(())
    };
    for request in requests {
        if tickets.len() == under_way {
            settle(tickets.pop_front())?;
        }
        tickets.push_back(queue.submit(request)?);
    }
    tickets.into_iter().map(Some).try_for_each(settle)
}
