//! Black-box tests of the scheduler: placement cases as data, the scheduling queue, and invariants under random events.

mod build;
mod cases;
mod gangs;
mod laws;
mod queue;
mod storage;
