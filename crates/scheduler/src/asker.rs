//! A pod that asks one of the books (volumes, devices) for something.

use crate::pod::PodKey;
use crate::world::PodId;

/// One pod and what it wants of a book.
#[derive(Debug)]
pub struct Asker<'a, Wants> {
    /// The pod.
    pub id: PodId,
    /// Its namespace and name.
    pub key: &'a PodKey,
    /// What it wants.
    pub wants: &'a Wants,
    /// Whether the server said that it has its node, rather than us.
    pub bound: bool,
}
